"""Raw entries of a gateway → events: what each call was, and what it used, by the provider's own statement."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime

from harness.events import Event, ModelCall, RateLimits, UsageDelta
from harness.formats.limit_windows import StatedWindows, header_windows
from harness.gateway.bodies import inflated
from harness.log.raw import RawCall, RawRequest, RawResponse
from harness.models.wires.wire import AnswerEnd, all_wires, events_of

_PAID = ("provider", "translated", "script")
"""Where an answer comes from that was paid for."""


def call_id(request: RawRequest) -> str:
    """That of its `ModelCall`."""
    return f"call-{request.id}"


class CallEvents:
    """A pure stage. Requests that ask for no answer give no event."""

    def __init__(self) -> None:
        self._open: dict[int, RawRequest] = {}
        self._windows = StatedWindows()

    def feed(self, entry: RawCall) -> list[Event]:
        if isinstance(entry, RawRequest):
            self._open[entry.id] = entry
            return []
        request = self._open.pop(entry.id, None)
        if request is None or request.purpose not in ("answer", "compact") or request.wire not in all_wires():
            return []
        end = self._end(request.wire, entry.data)
        own_id, model = call_id(request), end.model or request.model
        call = ModelCall(
            id=own_id,
            wire=request.wire,
            model=model,
            asked_model=request.model if request.model != model else "",
            conversation=request.conversation,
            step=request.step,
            status=entry.status,
            tools=request.tools,
            tool_count=request.tool_count,
            sent_bytes=request.body_size,
            new_bytes=request.new_size,
            calls=end.calls,
            took_ms=entry.took_ms,
            first_ms=entry.first_ms,
            stop_reason=end.stop_reason,
            is_cut=entry.is_cut,
            origin=entry.origin,  # type: ignore[arg-type] # an unknown one is of a newer version
            usage=end.usage,
            differs=entry.differs,
        )
        if entry.origin not in _PAID:
            return [call]
        usage_events = (
            [UsageDelta(id=own_id, model=model, usage=end.usage, speed=end.speed)]
            if end.usage is not None
            else []
        )
        return [call, *usage_events, *self._limits(entry)]

    def _limits(self, entry: RawResponse) -> list[RateLimits]:
        """What the provider says of the windows of a subscription, where the agent passes it on or not."""
        try:
            now = datetime.fromtimestamp(entry.at_ms / 1000, UTC)
        except (ValueError, OverflowError, OSError):  # of a record that somebody has changed
            return []
        return self._windows.take(header_windows(entry.headers, now))

    def _end(self, wire: str, data: bytes) -> AnswerEnd:
        try:
            content = inflated(data)
        except zlib.error:
            return AnswerEnd()
        return all_wires()[wire].end(events_of(content))
