"""What every event carries.

A source creates events without an envelope: `run_id` is then the source's own key of a
child run ("" is the run itself). The hub stamps `seq`, `timestamp_ms` and the real
`run_id` when it appends; from then on an event never changes.
"""

from __future__ import annotations

from typing import Any

import msgspec

ENVELOPE: dict[str, type] = {
    "seq": int,
    "timestamp_ms": int,
    "run_id": str,
    "parent_id": str,
    "session_id": str,
}


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="type",
    tag=True,
):
    """Base of all events: what each of them carries, whatever it says.

    A source leaves these fields alone; they are set when the event is appended to a log. The class name is the
    `type` on the wire, so a new event is one subclass and its place in `AnyEvent`.
    """

    seq: int = -1
    """Position in the log: 0, 1, 2 … without gaps."""
    timestamp_ms: int = -1
    """When it was observed, milliseconds since the epoch, never falling within a log."""
    run_id: str = ""
    """The run that it belongs to; a sub-agent's events have the id of its own run."""
    parent_id: str = ""
    """On a run's first event: the id of the call that spawned it."""
    session_id: str = ""
    """The agent's own id of its session: on a run's first event, and when it changes."""
    unread: dict[str, Any] | None = None
    """The whole line, when a newer version wrote something that this one does not know; the codec
    writes it back as it was."""

    @property
    def type(self) -> str:
        """The name of its class, which is its `type` on the wire."""
        return self.__class__.__name__
