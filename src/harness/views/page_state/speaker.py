"""Where in the state a run speaks: the message that it is writing, its streams of text, its calls."""

from __future__ import annotations

import msgspec

from harness.events import Usage
from harness.views.page_state.object_stream import Path


class OpenStream(msgspec.Struct):
    """A text or a piece of reasoning that is being written. It may be cut in parts by calls in between."""

    message: Path
    parts: list[Path]


class CallPlace(msgspec.Struct):
    place: Path
    part: Path
    started_ms: int = -1
    is_started: bool = False
    """Whether it is carried out; before that it is only being written, or waits to be allowed."""
    is_open: bool = True
    is_refused: bool = False
    """Somebody said no; some agents tell an end of it all the same."""


class Speaker(msgspec.Struct):
    """One run. Contract: plain data, so that a snapshot can hold it."""

    run_id: str
    home: Path = ("messages",)
    """The list that its messages are in."""
    parent_call: str = ""
    is_hidden: bool = False
    """A child that nobody announced: there is no call in which it could speak."""
    position: int = -1
    """Among the runs of the state; -1 until its `SessionStart`."""
    message: Path | None = None
    """The assistant's message that it is writing."""
    last_stream: str = ""
    """The stream whose part is the latest of the message; "" when something else is."""
    streams: dict[str, OpenStream] = {}
    calls: dict[str, CallPlace] = {}
    early_notices: list[dict[str, str]] = []
    """What was told before the run had begun."""
    error: str = ""
    is_ended: bool = False
    used: Usage = Usage()
    """With all that is below it, if it is at the top."""
