"""An event that a newer version wrote: kept as it is, so that reading and writing loses nothing."""

from __future__ import annotations

from harness.events.envelope import Event


class Unrecognized(Event, frozen=True, kw_only=True):
    """`unread` holds the whole line; the codec writes exactly that."""
