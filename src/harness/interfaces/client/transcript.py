"""What is new in a state since the last look, as lines for a terminal."""

from __future__ import annotations

from typing import Any

from harness.views.formatting.approval import title
from harness.views.formatting.escapes import neutralised, single_line

_LONGEST_LINE = 200
_MOST_LINES = 6
_SIGNS = {"complete": "✓", "error": "✗"}


class TerminalTranscript:
    """`news` gives what was said and done since the last time, each thing once and in order."""

    def __init__(self) -> None:
        self._lengths: dict[tuple[int, int], int] = {}
        """How much was shown of each part of each message."""
        self._ended: set[str] = set()
        self._is_line_open = False

    def news(self, state: dict[str, Any]) -> str:
        out: list[str] = []
        for at, message in enumerate(state["messages"]):
            if message["role"] == "user":
                if message["status"] == "complete" and (at, -1) not in self._lengths:
                    self._lengths[at, -1] = 0
                    self._line(out, f"\n> {neutralised(message['content'])}")
                continue
            calls = {call["id"]: call for call in message.get("toolCalls") or ()}
            for number, part in enumerate(message.get("parts", ())):
                self._part(out, (at, number), part, calls)
        if state["status"] != "running":
            self._end_line(out)
        return "".join(out)

    def _part(
        self, out: list[str], place: tuple[int, int], part: dict[str, Any], calls: dict[str, dict[str, Any]]
    ) -> None:
        if part["type"] == "text":
            shown = self._lengths.get(place, 0)
            if len(part["text"]) > shown:
                if not shown:
                    self._end_line(out)
                out.append(neutralised(part["text"][shown:]))
                self._is_line_open = not out[-1].endswith("\n")
                self._lengths[place] = len(part["text"])
        elif part["type"] == "tool":
            self._call(out, place, calls.get(part["callId"]))
        elif part["type"] == "notice" and place not in self._lengths:
            self._lengths[place] = 0
            self._line(out, f"[{part['level']}] {neutralised(part['text'])}")

    def _call(self, out: list[str], place: tuple[int, int], call: dict[str, Any] | None) -> None:
        if call is None:
            return
        if place not in self._lengths and call["input"] is not None:
            self._lengths[place] = 0
            self._line(out, f"· {title(call['name'], call['input'])}")
        if call["status"] != "running" and call["id"] not in self._ended:
            self._ended.add(call["id"])
            code = "" if call["exitCode"] in (None, 0) else f" (exit code {call['exitCode']})"
            self._line(out, f"  {_SIGNS[call['status']]} {single_line(call['name'])}{code}")
            if call["status"] == "error" or any(
                one["kind"] == "command" for one in call.get("operations", ())
            ):
                self._last_lines(out, call.get("output", ""))

    def _last_lines(self, out: list[str], output: str) -> None:
        """The part of a command's output that matters, and why a call failed."""
        lines = [line for line in output.split("\n") if line.strip()]
        if len(lines) > _MOST_LINES:
            lines = [f"… {len(lines) - _MOST_LINES} more lines before", *lines[-_MOST_LINES:]]
        for line in lines:
            shown = single_line(line)
            left = len(shown) - _LONGEST_LINE
            more = f"… ({left:,} more characters)" if left > 0 else ""
            self._line(out, f"    {shown[:_LONGEST_LINE]}{more}")

    def _line(self, out: list[str], text: str) -> None:
        self._end_line(out)
        out.append(f"{text}\n")

    def _end_line(self, out: list[str]) -> None:
        if self._is_line_open:
            out.append("\n")
        self._is_line_open = False
