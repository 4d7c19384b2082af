"""What becomes of a question in a run that nobody may be watching.

| `on_ask` | a permission | another question |
|---|---|---|
| `wait` | somebody has to answer in time, else it is refused | the same |
| `deny` | refused at once | refused at once |
| `allow` | allowed at once | refused at once: nobody can give an answer |

Whatever is decided here is in the log: the question, and an answer by policy.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.events import Event, Relay, RelayReply, Warning
from harness.sources.request import OnAsk

_TO_THE_MODEL = {
    "permission": "nobody is there who could allow it: find another way, or say what you would need",
    "other": "nobody is there who could answer: decide yourself, or say what you would need to know",
}


class Unattended:
    """Contract of `AgentOptions.on_ask`. Says once, as a warning, that nobody is asked."""

    def __init__(self, put: Callable[[Event], object]) -> None:
        self._put = put
        self._has_warned = False

    def deny(self, relay: Relay) -> RelayReply:
        if not self._has_warned:
            self._has_warned = True
            self._put(Warning(message=_warning(relay), code="nobody_to_ask"))
        kind = "permission" if relay.kind == "permission" else "other"
        return RelayReply(id=relay.id, approved=False, by="policy", reason=_TO_THE_MODEL[kind])

    def allow(self, relay: Relay) -> RelayReply:
        if relay.kind != "permission":
            return self.deny(relay)
        return RelayReply(id=relay.id, approved=True, by="policy", reason="everything is allowed")


def answering(on_ask: OnAsk | None, put: Callable[[Event], object]) -> Callable[[Relay], RelayReply] | None:
    """Who answers at once; None: somebody has to."""
    unattended = Unattended(put)
    return {"wait": None, "deny": unattended.deny, "allow": unattended.allow}[on_ask or "wait"]


def _warning(relay: Relay) -> str:
    what = f"{relay.tool_name} was refused" if relay.tool_name else "a question was not answered"
    return (
        f"nobody can be asked here: {what}, and so will be everything else that has to be asked about; --permissions "
        "full-access or --on-ask allow lets it happen, --on-ask wait waits for somebody"
    )
