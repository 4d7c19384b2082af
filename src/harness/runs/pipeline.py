"""Raw entries of one run → its events: everything between the agent's bytes and the log.

This is where the promises of a run are enforced, whatever the agent does: it begins with a
`SessionStart` and the prompt, every `ToolStart` has its `ToolEnd`, every child run its `Result`,
and one `Result` comes last. It is a pure stage, so that feeding a recorded run gives the same events.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from harness.contracts.translator import Ending, Translator
from harness.events import Event, SessionStart, Warning
from harness.formats.json_lines import DECODE_ERRORS, as_written, decode, pieces
from harness.log import codec
from harness.log.raw import (
    RawCall,
    RawControl,
    RawEntry,
    RawEvent,
    RawExit,
    RawInput,
    RawOutput,
    RawRequest,
    RawResponse,
    RawStart,
)
from harness.runs.run_lifecycle import RunLifecycle

if TYPE_CHECKING:
    from harness.gateway.call_events import CallEvents

_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")
"""What programs put into their messages for a terminal, some of them always. The raw record keeps it."""


class Pipeline:
    """Feed it the entries of one run in order; an `RawExit` ends it."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.lifecycle: RunLifecycle = RunLifecycle()
        """What is open and known of the run so far."""
        self.rules: Counter[str] = Counter()
        """How many lines each rule took: `stdout assistant`, `stderr stderr`, `stdout blank` …"""
        self._calls: CallEvents | None = None
        self.lost: list[bytes] = []
        """Lines that neither gave an event nor were taken by a rule: always empty, or there is a bug."""

    def feed(self, entry: RawEntry) -> Sequence[Event]:
        self.lifecycle.now_ms = entry.at_ms
        match entry:
            case RawOutput(stream="stdout"):
                return self._stdout(entry.data)
            case RawOutput():
                return self._stderr(entry.data)
            case RawInput():
                return ()  # what it says is in the events of the driver
            case RawEvent():
                return self._given(entry)
            case RawStart():
                return self._start(entry)
            case RawControl():
                return self.lifecycle.note_control(entry)
            case RawRequest() | RawResponse():
                return self._called(entry)
            case RawExit():
                return self._exit(entry)

    def finish(self) -> Sequence[Event]:
        """Only for runs whose exit was never recorded: they count as interrupted."""
        if self.lifecycle.ended:
            return ()
        return self._exit(RawExit(at_ms=self.lifecycle.now_ms, lost=True))

    def _start(self, entry: RawStart) -> list[Event]:
        out: list[Event] = [Warning(message=message, code="unsupported_option") for message in entry.warnings]
        self.lifecycle.begin(entry)
        self.translator.begin(entry)
        self.lifecycle.known_session_id = self.translator.known_session_id or entry.session_id
        if not self.translator.announces_start:
            self.lifecycle.accept([SessionStart()], out)
        return out

    def _called(self, entry: RawCall) -> list[Event]:
        """A call of the agent's model through a gateway."""
        if self._calls is None:
            from harness.gateway.call_events import CallEvents  # only here: most runs have no gateway

            self._calls = CallEvents()
        out: list[Event] = []
        self.lifecycle.note_calls(self._calls.feed(entry), out)
        return out

    def _given(self, entry: RawEvent) -> list[Event]:
        """An event of the driver of a two-way conversation."""
        out: list[Event] = []
        self.lifecycle.accept([codec.decode(bytes(entry.event))], out)
        return out

    def _stdout(self, data: bytes) -> list[Event]:
        out: list[Event] = []
        translated: list[Event] = []
        """Events that the lifecycle has not accepted yet: it accepts several at once."""
        streamed: list[bytes] = []
        """Nearly every line of a long run is a piece of streamed text: those that follow each other go together."""
        translator = self.translator
        prefix = translator.piece_prefix
        for line in BytesIO(data):
            if line.startswith(prefix):
                streamed.append(line)
                continue
            if streamed:
                self._pieces(streamed, translated, out)
                streamed = []
            self._line(line, translated, out)
            prefix = translator.piece_prefix
        if streamed:
            self._pieces(streamed, translated, out)
        self.lifecycle.accept(translated, out)
        if translator.turns is not None:
            self.lifecycle.turns = self.lifecycle.reported_turns = translator.turns
        return out

    def _pieces(self, lines: Sequence[bytes], translated: list[Event], out: list[Event]) -> None:
        events = self.translator.pieces(lines)
        if events is not None:
            translated += events
            self.rules[self.translator.rule] += len(lines)
        elif len(lines) > 1:
            for line in lines:
                self._pieces((line,), translated, out)
        else:
            self._line(lines[0], translated, out)

    def _line(self, line: bytes, translated: list[Event], out: list[Event]) -> None:
        try:
            value = decode(line)
        except DECODE_ERRORS:
            value = None
        if type(value) is not dict:
            self.lifecycle.accept(translated, out)
            translated.clear()
            self._odd_line(line.removesuffix(b"\n"), out, value)
            return
        events = self.translator.record(value)
        self.rules[self.translator.rule] += 1
        if events:
            translated += events
        elif not self.translator.rule:
            self.lost.append(line)

    def _odd_line(self, line: bytes, out: list[Event], value: Any) -> None:
        if self.translator.keeps_layout:
            self._plain_line(as_written(line), out)
            return
        if not line.strip():
            self.rules["blank"] += 1
            return
        # Some agents can be asked for all their records at once, as one array.
        is_array = type(value) is list and value and all(type(item) is dict for item in value)
        values: list[Any] = value if is_array else pieces(line) or [line.decode("latin-1")]
        for piece in values:
            if isinstance(piece, dict):
                events = self.translator.record(piece)
            else:
                self.lifecycle.note_text("stdout", piece)
                events = self.translator.text(piece)
            if not events and not self.translator.rule:
                self.lost.append(line)
            self.lifecycle.accept(events, out)
        self.rules[self.translator.rule] += 1

    def _plain_line(self, text: str, out: list[Event]) -> None:
        if text.strip():
            self.lifecycle.note_text("stdout", text)
        events = self.translator.text(text)
        if not events and not self.translator.rule:
            self.lost.append(text.encode())
        self.lifecycle.accept(events, out)
        self.rules[self.translator.rule] += 1

    def _stderr(self, data: bytes) -> list[Event]:
        out: list[Event] = []
        for line in BytesIO(data):
            text = _COLOURS.sub("", line.decode("utf-8", "backslashreplace")).strip()
            if not text:
                self.rules["stderr blank"] += 1
                continue
            events = self.translator.stderr(text)
            self.rules[f"stderr {self.translator.rule}"] += 1
            if events:
                self.lifecycle.note_text("stderr", text)
            self.lifecycle.accept(events, out)
        return out

    def _exit(self, entry: RawExit) -> list[Event]:
        out: list[Event] = []
        ending = Ending(
            exit_code=entry.code,
            signal=entry.signal,
            outcome=self.lifecycle.stopped,
            earlier_usage=entry.earlier_usage,
        )
        self.lifecycle.accept(self.translator.finish(ending), out)
        self.lifecycle.end(entry, out, announces_end=self.translator.announces_end)
        return out
