"""Which calls were refused: such a call has not succeeded, also where its end only says that the conversation goes on."""

from __future__ import annotations

from msgspec.structs import replace

from harness.events import Event, Relay, RelayReply, ToolEnd


class RefusedCalls:
    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        """By question: the call that it is about."""
        self._refused: set[str] = set()
        self.is_end = False
        """Whether the last event was the end of one."""

    def seen(self, event: Event) -> Event:
        """The event as it is to be shown."""
        self.is_end = False
        match event:
            case Relay(kind="permission", call_id=str(call_id)) if call_id:
                self._calls[event.id] = call_id
            case RelayReply():
                call_id = self._calls.pop(event.id, "")
                if not event.approved and (call_id or event.by == "policy"):
                    self._refused.add(call_id or event.id)
            case ToolEnd(call_id=call_id) if call_id in self._refused:
                self._refused.discard(call_id)
                self.is_end = True
                return replace(event, success=False) if event.success else event
            case _:
                pass
        return event
