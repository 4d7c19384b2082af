"""One line for each call of the model that went through a gateway: what was sent, what came, what it used, who answered.

A run without a gateway has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.events import Event, ModelCall
from harness.formatting.amounts import duration
from harness.formatting.escapes import single_line
from harness.stage import View, ViewOptions

_HEAD = ("#", "step", "conversation", "model", "sent (new)", "answer", "in/cached/out", "took", "from")
_RETRIED = (429, 500, 502, 503, 504, 529)
_NONE = "No call went through a gateway: `harness run --gateway` records them.\n"


def open(options: ViewOptions) -> View:
    del options
    return _Requests()


class _Requests:
    """Columns are as wide as their widest row, so that everything comes at the end."""

    def __init__(self) -> None:
        self._calls: list[ModelCall] = []

    def feed(self, event: Event) -> Sequence[bytes]:
        if isinstance(event, ModelCall):
            self._calls.append(event)
        return ()

    def finish(self) -> Sequence[bytes]:
        if not self._calls:
            return [_NONE.encode()]
        rows = call_rows(self._calls)
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        return ["".join(f"{line.rstrip()}\n" for line in lines).encode("utf-8", "replace")]


def call_rows(calls: Sequence[ModelCall]) -> list[tuple[str, ...]]:
    """The cells of a heading, and those of each call."""
    names = _names(calls)
    return [_HEAD, *(_row(number, call, names) for number, call in enumerate(calls, 1))]


def _names(calls: Iterable[ModelCall]) -> dict[str, str]:
    """The conversation with the most answers is the main one; those without tools are beside it."""
    answered = Counter(
        call.conversation for call in calls if call.tool_count and call.step and call.status == 200
    )
    main = answered.most_common(1)[0][0] if answered else ""
    names: dict[str, str] = {}
    others = 0
    for call in calls:
        if call.conversation in names:
            continue
        if call.conversation == main:
            names[call.conversation] = "main"
        elif not call.tool_count:
            names[call.conversation] = "aside"
        else:
            others += 1
            names[call.conversation] = "sub-agent" if others == 1 else f"sub-agent {others}"
    return names


def _row(number: int, call: ModelCall, names: dict[str, str]) -> tuple[str, ...]:
    tokens_of_call = call.usage
    counts = (
        (tokens_of_call.input, tokens_of_call.cache_read, tokens_of_call.output)
        if tokens_of_call is not None
        else ()
    )
    return (
        str(number),
        str(call.step) if call.step and 200 <= call.status < 300 else "–",
        names[call.conversation],
        single_line(call.model or call.asked_model or "–"),
        f"{_size(call.sent_bytes)} ({_size(call.new_bytes)})",
        _answer(call),
        "/".join("–" if count is None else str(count) for count in counts) or "–",
        duration(call.took_ms),
        call.origin,
    )


def _answer(call: ModelCall) -> str:
    if call.is_cut:
        return "cut off"
    if call.status != 200:
        return f"{call.status or 'none'}{', retried' if call.status in _RETRIED else ''}"
    if call.calls:
        return f"{call.calls} call{'' if call.calls == 1 else 's'}"
    return single_line(call.stop_reason) or "text"


def _size(count: int) -> str:
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)
