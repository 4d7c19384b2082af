"""What the guards of a harness say of messages and answers, as outcomes and in the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from harness.contracts.request import Limits
from harness.events import Error
from harness.session.guards import STOPPED, GuardRunner, Stop
from harness.session.harness_parts import HarnessParts
from harness.session.run_outcomes import BLOCKED, RunOutcome, withheld
from harness.session.thread_log import ThreadLog
from harness.session.user_message import UserMessage
from harness.system.plain_text import plain_text


class MessageGuards:
    """Contract: what they do not let pass goes nowhere, also where they were stopped before they knew."""

    def __init__(
        self,
        guards: GuardRunner,
        log: ThreadLog,
        harness: HarnessParts,
        ensure_thread: Callable[[], Awaitable[object]],
    ) -> None:
        self._guards, self._log, self._harness = guards, log, harness
        self._ensure_thread = ensure_thread

    async def message(
        self, message: UserMessage, context: Mapping[str, Any] | None, limits: Limits | None = None
    ) -> UserMessage | RunOutcome[Any]:
        """The message as it may be sent, or the outcome where it may not. `limits`: of its run."""
        guards = self._guards
        if not guards.has_input:
            return message
        await self._ensure_thread()
        timeout_s = self._harness.limits.narrowed(limits).timeout_s
        text = await guards.check_text("input", message.text, context or {}, timeout_s)
        if isinstance(text, Stop):
            return self._withheld(RunOutcome(outcome="blocked"), text, self._log.hub.log_id)
        return message if text == message.text else msgspec.structs.replace(message, text=plain_text(text))

    async def answer(
        self, outcome: RunOutcome[Any], context: Mapping[str, Any], limits: Limits
    ) -> RunOutcome[Any]:
        """The outcome of a run, with the answer that may be given."""
        if not outcome.success:
            return outcome
        text = await self._guards.check_text("output", outcome.text, context, limits.timeout_s)
        if isinstance(text, Stop):
            return self._withheld(outcome, text, outcome.run_id)
        return outcome if text == outcome.text else msgspec.structs.replace(outcome, text=text)

    def stop(self) -> None:
        """End what is asked now."""
        self._guards.stop()

    def _withheld(self, outcome: RunOutcome[Any], stop: Stop, run_id: str) -> RunOutcome[Any]:
        if stop is STOPPED:
            return withheld(outcome, stop.reason, "")
        self._log.append_all([Error(message=stop.reason, code=BLOCKED)], run_id)
        return withheld(outcome, stop.reason, BLOCKED)
