"""A call that needs approval, in lines of a terminal: everything that would run, and what would be removed.

Nothing can be hidden in it: invisible characters are spelled out, and omitted text is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from harness.events import Relay
from harness.views.formatting.escapes import revealed
from harness.views.formatting.json_text import compact

_LONGEST_LINE = 400
_LONGEST_TITLE = 200


def title(name: str, arguments: Any) -> str:
    """A call on one line, with the amount of text that is omitted."""
    if isinstance(arguments, dict) and len(arguments) == 1:
        arguments = next(iter(arguments.values()))
    prefix = revealed(name, is_line=True)
    if not arguments and arguments != 0:
        return prefix
    text = _text(arguments)
    shown = revealed(text, is_line=True)
    if len(shown) > _LONGEST_TITLE:
        shown = f"{shown[:_LONGEST_TITLE]}{_missing(text, shown)}"
    return f"{prefix}: {shown}"


def is_short(arguments: Any) -> bool:
    """Whether the title shows the whole call."""
    if isinstance(arguments, dict) and len(arguments) == 1:
        arguments = next(iter(arguments.values()))
    text = _text(arguments)
    return "\n" not in text and len(text) <= _LONGEST_TITLE and not isinstance(arguments, dict)


def lines_of(arguments: Any, preview: Sequence[dict[str, Any]] | None = None) -> list[str]:
    """The whole call. Long texts are left to the preview, if there is one."""
    lines: list[str] = []
    if isinstance(arguments, dict):
        for name, value in arguments.items():
            if preview and isinstance(value, str) and ("\n" in value or len(value) > _LONGEST_TITLE):
                continue
            lines += _block(revealed(str(name), is_line=True), _text(value))
    else:
        lines += _block("", _text(arguments))
    for file in preview or ():
        lines += _file(file)
    return lines


def bounded(lines: Sequence[str], most: int, hint: str = "") -> list[str]:
    """The first lines, and how many more there are."""
    shown = [
        line
        if len(line) <= _LONGEST_LINE
        else f"{line[:_LONGEST_LINE]}… ({len(line) - _LONGEST_LINE:,} more characters)"
        for line in lines[:most]
    ]
    left = lines[most:]
    if left or shown != list(lines[:most]):
        more = f"{len(left):,} more line{'' if len(left) == 1 else 's'}" if left else "cut"
        shown.append(f"… {more}{f': {hint}' if hint else ''}")
    return shown


def _block(name: str, text: str) -> list[str]:
    first, *rest = revealed(text).split("\n")
    return [f"{name}: {first}" if name else first, *(f"  {line}" for line in rest)]


def _file(file: dict[str, Any]) -> list[str]:
    path = revealed(str(file.get("path", "")), is_line=True)
    added, removed = file.get("added", 0), file.get("removed", 0)
    hidden = file.get("hiddenLines", file.get("hidden_lines", 0))
    lines = [f"{file.get('change', 'change')} {path}: +{added} -{removed}"]
    if diff := str(file.get("diff", "")):
        lines += [f"  {line}" for line in revealed(diff).split("\n")]
    if hidden:
        lines.append(f"  … {hidden:,} more lines of this difference are not here")
    return lines


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _missing(text: str, shown: str) -> str:
    lines = text.count("\n")
    note = f"… ({len(shown) - _LONGEST_TITLE:,} more characters"
    return f"{note}, {lines + 1:,} lines in all)" if lines else f"{note})"


# The same approval as wire data: the possible answers, what each grants, what would change.


def choices_data(relay: Relay) -> list[dict[str, Any]] | None:
    """None if the approval has no choices."""
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
    """None if no file would change."""
    if not isinstance(relay.preview, list):
        return None
    return [
        {_NAMES.get(str(name), str(name)): value for name, value in file.items()}
        for file in relay.preview
        if isinstance(file, dict)
    ]


_NAMES = {"hidden_lines": "hiddenLines"}
