"""A question for permission as the wires show it: what can be answered, what that grants, what would change."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.events import Relay


def choices_data(relay: Relay) -> list[dict[str, Any]] | None:
    """None where the question has none."""
    if relay.choices is None:
        return None
    return [
        {
            "id": choice.id,
            "kind": choice.kind,
            "label": choice.label,
            "grants": [msgspec.to_builtins(grant) for grant in choice.grants],
        }
        for choice in relay.choices
    ]


def preview_data(relay: Relay) -> list[dict[str, Any]] | None:
    """None where no file would change."""
    if not isinstance(relay.preview, list):
        return None
    return [
        {_NAMES.get(str(name), str(name)): value for name, value in file.items()}
        for file in relay.preview
        if isinstance(file, dict)
    ]


_NAMES = {"hidden_lines": "hiddenLines"}
