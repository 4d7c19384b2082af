"""Limits that hold before a call: what it would cost at least is counted before it is forwarded. Where that is not
known, since the model has no price, the call is not made.

The thread of the run decides, as it does about everything that costs: a call waits until it has. Where a person may
answer, the call is held while they are asked; programs wait that long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.events import Usage, UsageDelta, Warning
from harness.gateway.call import GatewayCall
from harness.runs.launch import Launch
from harness.usage.budget_settings import money
from harness.usage.prices import rate_of
from harness.usage.run_cost import CostMeter, cannot_hold, has_price, how_to_price, prices_of

if TYPE_CHECKING:
    from harness.questions.budget_gate import BudgetGate, GateStep

HELD_S = 60.0
"""How long a call is held while a person is asked."""
_BYTES_PER_TOKEN = 4
_HINT = "`harness budget` shows the limits and changes them."


class CallSpending:
    """Contract: `refusal` is called by the threads of a gateway, `look` by that of the run."""

    def __init__(self, launch: Launch, cost: CostMeter) -> None:
        self._limit_usd = launch.request.limits.max_budget_usd
        self._has_gate = launch.budget is not None
        self._cost = cost
        self._cost_of = prices_of(launch.request.cwd)
        plan = launch.gateway
        self._plan = plan
        self._refused: set[str] = set()
        """Models that were not asked, since they have no price."""
        self._warnings: list[Warning] = []
        self._changed = threading.Condition()
        self._wake: Callable[[], object] = lambda: None
        self._waiting: dict[int, float] = {}
        """Calls that wait for a decision, with what each would cost at least."""
        self._reason = ""
        """Why nothing more may be asked."""
        self._sizes: dict[str, int] = {}
        """Of the latest request of each conversation: most of the next one is that again, and cached."""

    def attach(self, wake: Callable[[], object]) -> None:
        """`wake` makes the run call `look` soon."""
        self._wake = wake

    @property
    def spent_usd(self) -> float:
        """So far, and by the calls that wait."""
        return self._cost.spent_usd + sum(self._waiting.values())

    @property
    def unpriced(self) -> frozenset[str]:
        return self._cost.unpriced

    def refusal(self, call: GatewayCall) -> str:
        """Why the call must not be made; empty: it may."""
        with self._changed:
            limit = self._limit_usd
            if limit is not None and (unpriced := self._unpriced_of(call)):
                return self._refusal_of(unpriced, limit)
            least_usd = self._least_usd(call)
            if limit is not None and self.spent_usd + least_usd > limit:
                return f"This call was not made: the budget of this run ({money(limit)}) does not allow it."
            if not self._has_gate:
                return ""
            self._waiting[call.number] = least_usd
        self._wake()
        with self._changed:
            self._changed.wait_for(lambda: call.number not in self._waiting or self._reason, HELD_S)
            is_held = self._waiting.pop(call.number, None) is not None
            if self._reason:
                return f"This call was not made: {self._reason}. {_HINT}"
            if is_held:
                return f"This call was not made: nobody answered within {HELD_S:.0f} s. {_HINT}"
            return ""

    def take_warnings(self) -> list[Warning]:
        """Of models that were refused, each once: a program may keep it to itself."""
        with self._changed:
            warnings, self._warnings = self._warnings, []
        return warnings

    def look(self, gate: BudgetGate) -> GateStep:
        """What the run is to do; the calls that wait learn it."""
        with self._changed:
            numbers = list(self._waiting)
            step = gate.look(self)
            if step == "end":
                self._reason = gate.reason
            elif step == "run":
                for number in numbers:
                    self._waiting.pop(number, None)
            if step != "wait":
                self._changed.notify_all()
        return step

    def _unpriced_of(self, call: GatewayCall) -> str:
        """The model for which no limit can hold: the one of this call, or one whose answer could not be counted."""
        model, is_free = self._answering(call)
        if is_free:
            return ""
        if model and not has_price(self._cost_of, model):
            return model
        routes = self._plan.routes if self._plan is not None else ()
        free_models = {route.model.partition("/")[2] for route in routes if route.is_free}
        return min(self._cost.unpriced - free_models, default="")

    def _answering(self, call: GatewayCall) -> tuple[str, bool]:
        """The model that answers, and whether it costs nothing."""
        plan = self._plan
        if plan is None:
            return call.model, False
        if (route := plan.route_of(call.model)) is not None:
            return route.model.partition("/")[2], route.is_free
        return plan.answering_model or call.model, plan.is_free

    def _refusal_of(self, model: str, limit_usd: float) -> str:
        words = f"{cannot_hold(model, limit_usd)}: {how_to_price(model)}"
        if model not in self._refused:
            self._refused.add(model)
            message = f"calls were not made: {words}"
            self._warnings.append(Warning(message=message, code="budget_unpriced"))
        return f"This call was not made: {words}."

    def _least_usd(self, call: GatewayCall) -> float:
        """The price of its input, most of which may come from a cache, without a word of an answer."""
        size = len(call.plain)
        cached = min(self._sizes.get(call.wire_name, 0), size)
        self._sizes[call.wire_name] = size
        usage = Usage(input=(size - cached) // _BYTES_PER_TOKEN, cache_read=cached // _BYTES_PER_TOKEN)
        model, _ = self._answering(call)
        return self._cost_of(model, usage, rate_of(UsageDelta(usage=usage, model=model))) or 0.0
