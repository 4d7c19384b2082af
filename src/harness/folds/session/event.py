"""The base of all events for listeners: a name, and keys as on the wire."""

from __future__ import annotations

from typing import ClassVar

import msgspec


def tag_of(class_name: str) -> str:
    """ToolStartEvent → tool_start; TextPart → text."""
    name = class_name.removesuffix("Part").removesuffix("Event")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class HarnessEvent(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename="camel",
    tag_field="type",
    tag=tag_of,
):
    """A field without a default is always on the wire; the others only when they differ from it."""

    type: ClassVar[str]
    """Its name on the wire, such as `tool_start`; every class has one of its own, so that `event.type` tells them apart."""
