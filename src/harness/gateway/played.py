"""The recording answers, and after a number of steps perhaps a model: a replay, or a fork."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence

from harness.gateway.call import Answerer, GatewayCall
from harness.gateway.call_records import outline_of
from harness.gateway.fingerprint import Fingerprint, first_difference, quoted
from harness.gateway.pass_on import refuse
from harness.gateway.recorded import FoundCall, Playback, RecordedCall
from harness.gateway.reply import Reply

_NOT_SENT = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "date", "server")
)
_EVENT_END = re.compile(rb"\n\r?\n")
_LONGEST_PAUSE_S = 5.0
_LONGEST_BEFORE_CUT_S = 1.0
_HELD_AFTER_END_S = 3.0
"""Some programs ask for a suggestion when their turn is over: the recording ended before it was answered."""


class Played:
    """Contract: that of `Answerer`. `on_parted` is called once, with why, when a request is not in the recording;
    `on_difference` with each difference that was not told before.
    """

    def __init__(
        self,
        playback: Playback,
        *,
        on_parted: Callable[[str], object],
        on_difference: Callable[[str], object] | None = None,
        fork_at: int | None = None,
        then: Answerer | None = None,
        keeps_pace: bool = False,
    ) -> None:
        """`then` answers once `fork_at` answers of the main conversation were given; it needs both."""
        self.playback = playback
        self.forked_after: int | None = None
        """How many answers came from the recording before the model was asked; None: it was not."""
        self.parted: str = ""
        self._on_parted = on_parted
        self._on_difference = on_difference
        self._fork_at = fork_at
        self._then = then
        self._keeps_pace = keeps_pace
        self._told: set[str] = set()
        self._closing = threading.Event()

    def close(self) -> None:
        self._closing.set()

    def answer(self, call: GatewayCall, reply: Reply) -> None:
        with self.playback.recording.lock:
            if self._is_forked(call):
                found_call, printed = None, None
            else:
                found_call, printed = self.playback.find(call)
            if found_call is not None:
                content = self.playback.content(found_call)
                reply.differs = self._differences(found_call)
                reply.origin = "recording"
        if found_call is not None:
            for difference in reply.differs:
                if self._on_difference is not None:
                    self._on_difference(difference)
            self._send(found_call.recorded, content, reply)
        elif self._then is not None and self.forked_after is not None:
            self._then.answer(call, reply)
        elif call.endpoint is not None and (canned_answer := call.wire.others.get(call.endpoint)) is not None:
            reply.whole_json(200, canned_answer(call.http))
        else:
            self._part(call, printed, reply)

    def _is_forked(self, call: GatewayCall) -> bool:
        """From the first request for the next step on, everything goes to the model."""
        if self._fork_at is None or self._then is None:
            return False
        if self.forked_after is None and call.endpoint == "answer":
            recording, answers_given = self.playback.recording, self.playback.answers
            conversation = outline_of(call, self.playback.context).conversation
            is_main = not recording.main or conversation == recording.main
            if is_main and answers_given[recording.main] >= self._fork_at:
                self.forked_after = answers_given[recording.main]
        return self.forked_after is not None

    def _differences(self, found_call: FoundCall) -> list[str]:
        """What is another than in the recording, each told once, where it is first seen."""
        now, before = found_call.printed, found_call.recorded.printed
        differences: list[str] = []
        if found_call.level == "alike" and now.said != before.said:
            differences.append(_said_difference(now, before, "a text differs in a date or an id"))
        if found_call.level in ("structure", "alike"):
            noise = self.playback.context.result_noise
            differences += [_told(part, now, before, noise) for part in now.differences(before)]
        fresh = [
            difference for difference in differences if f"{now.conversation} {difference}" not in self._told
        ]
        self._told.update(f"{now.conversation} {difference}" for difference in fresh)
        return fresh

    def _part(self, call: GatewayCall, printed: Fingerprint | None, reply: Reply) -> None:
        with self.playback.recording.lock:
            nearest = self.playback.recording.nearest(printed) if printed is not None else None
        if nearest is None and call.endpoint == "answer" and self._closing.wait(_HELD_AFTER_END_S):
            reply.cut()  # as then: the run has ended without this answer
            return
        reason = _parting(printed, nearest)
        refuse(call, reply, f"This request is not in the recording: {reason}")
        if not self.parted:
            self.parted = reason
            self._on_parted(reason)

    def _send(self, recorded_call: RecordedCall, content: bytes, reply: Reply) -> None:
        response = recorded_call.response
        if not response.status:
            reply.cut()
            return
        headers = {
            name: value
            for name, value in response.headers.items()
            if name not in _NOT_SENT and value != "***"
        }
        is_stream = "event-stream" in headers.get("content-type", "")
        if not is_stream and not response.is_cut:
            reply.whole(response.status, headers.pop("content-type", "application/json"), content, headers)
            return
        reply.head(response.status, headers)
        pieces = list(events_in(content))
        pause_s = (
            min(_LONGEST_PAUSE_S, response.took_ms / 1000 / max(1, len(pieces))) if self._keeps_pace else 0
        )
        for piece in pieces:
            if pause_s and self._closing.wait(pause_s):
                break
            reply.piece(piece)
        if response.is_cut:
            # A program that finds a connection closed drops what it has not read yet: it gets the time that it had.
            lasted_s = (response.took_ms - response.first_ms) / 1000
            self._closing.wait(min(_LONGEST_BEFORE_CUT_S, max(0.0, lasted_s)))
            reply.cut()
        else:
            reply.end()


def _parting(printed: Fingerprint | None, nearest: RecordedCall | None) -> str:
    if printed is None or nearest is None:
        return "after its end: the program asked for more than was recorded"
    step = nearest.request.step or 1
    what = _said_difference(printed, nearest.printed, "the program asked something that was not asked before")
    return f"at step {step}: {what}"


def events_in(content: bytes) -> Iterator[bytes]:
    """A stream, event by event."""
    start = 0
    for match in _EVENT_END.finditer(content):
        yield content[start : match.end()]
        start = match.end()
    if start < len(content):
        yield content[start:]


def _told(part: str, now: Fingerprint, before: Fingerprint, noise: Sequence[str]) -> str:
    place: str | int = int(part.removeprefix("result ")) - 1 if part.startswith("result ") else part
    change = first_difference(before.texts.get(place, ""), now.texts.get(place, ""), noise)
    what = quoted(now.call_names.get(place, part))[1:-1] if isinstance(place, int) else f"({part})"
    return f"{what}  {change}" if change else what


def _said_difference(now: Fingerprint, before: Fingerprint, summary: str) -> str:
    for ours, theirs in zip(now.items, before.items, strict=False):
        if ours != theirs:
            if ours[0] == theirs[0]:
                change = first_difference(theirs[1], ours[1])
                return f"{summary}: {ours[0]} {change}"
            return f"{summary}: {theirs[0]} {quoted(theirs[1])} → {ours[0]} {quoted(ours[1])}"
    count, recorded_count = len(now.items), len(before.items)
    if count > recorded_count:
        return f"{summary}: {now.items[recorded_count][0]} {quoted(now.items[recorded_count][1])} is new"
    if count < recorded_count:
        missing = before.items[count]
        return f"{summary}: {missing[0]} {quoted(missing[1])} is missing"
    return summary
