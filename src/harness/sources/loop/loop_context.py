"""What all runs of one conversation share: the log, open questions, files that were read, money that was spent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.events import Outcome, RelayReply, Usage
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.redact.withheld import withheld_from_tools
from harness.sources.loop.approvals import OpenQuestions
from harness.sources.loop.outbox import LogChannel, Outbox
from harness.sources.tools.file_times import FileTimes
from harness.system.contract import system


class LoopContext:
    """Made inside a running event loop, and used in its thread alone but for `reply`."""

    def __init__(
        self,
        hub: Hub,
        *,
        cwd: str,
        env: Mapping[str, str],
        secrets: Mapping[str, str] | None,
        cost_of: Callable[[str, Usage], float | None] | None = None,
    ) -> None:
        """`env`: what tools get. `secrets`: what is masked in the log; None when nothing is."""
        loop = asyncio.get_running_loop()
        self.hub = hub
        self.cwd = cwd
        self.env = env
        self.files = FileTimes()
        self.outbox = Outbox(hub, loop, secrets)
        self.relays = OpenQuestions(loop)
        self.runs: dict[str, asyncio.Task[Any]] = {}
        """Runs under way, by run id; cancelling the task stops the run."""
        self.stopped: Outcome | None = None
        """Set when the conversation was ended from outside: how its runs are to end."""
        self.has_output = False
        """Whether any model has said anything yet."""
        self.spent_usd = 0.0
        self.unpriced: set[str] = set()
        """Models that were used without a known price."""
        self.cost_of = cost_of
        """The price of a use of a model, where the provider does not say; None: it is not computed."""
        self._abandoned: set[asyncio.Task[Any]] = set()

    def new_id(self) -> str:
        return new_run_id(self.hub.clock())

    def channel(self, run_id: str) -> LogChannel:
        return self.outbox.channel(run_id)

    def reply(self, reply: RelayReply) -> bool:
        """Answer a `Relay`, from any thread."""
        return self.relays.reply(reply)

    def abandon(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Stop waiting for these; they are referenced until they end, or the loop does."""
        for task in tasks:
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)

    def priced(self, model: str, usage: Usage) -> Usage:
        """The usage with its price, where the provider did not say and `cost_of` knows."""
        if usage.cost_usd is None and self.cost_of is not None:
            cost_usd = self.cost_of(model, usage)
            if cost_usd:  # a price of 0 is left out
                usage = usage.plus(Usage(cost_usd=cost_usd, cost_source="computed"))
            elif cost_usd is None and usage:
                self.unpriced.add(model)
        self.spent_usd += usage.cost_usd or 0.0
        return usage


def environment_for_tools(environ: Mapping[str, str], asked_for: Mapping[str, str]) -> dict[str, str]:
    """Without what looks like a secret, but with everything that was asked for by name.

    From now on tools may run: what they are not given they must not be able to read from this process either.
    """
    system.refuse_inspection()
    system.wipe_environment(withheld_from_tools)
    withheld = withheld_from_tools(environ)
    return {**{name: value for name, value in environ.items() if name not in withheld}, **asked_for}
