"""The worker of an agent that is a program: reads it, records it, enforces its limits, until its `Result`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.contracts.agent import SessionFiles
from harness.contracts.command_line import argument_of
from harness.contracts.worker import OnEnd
from harness.errors import AgentNotFound, HarnessError
from harness.events import Event, RelayReply, Result, SessionStart, Usage, Warning
from harness.formats.json_lines import DECODE_ERRORS
from harness.log.hub import Hub
from harness.log.raw import RawAction, RawControl, RawExit, RawStart, RawWriter, read_raw
from harness.log.store import Store, read_all
from harness.log.stores.files import FileStore
from harness.process.child import Child
from harness.runs.launch import Launch, not_found
from harness.runs.recorder import Recorder, TranslatedRun
from harness.runs.run_lifecycle import RunLifecycle
from harness.usage.run_cost import CostMeter

if TYPE_CHECKING:
    from harness.log.raw import RawCall, RawEvent
    from harness.questions.budget_gate import BudgetGate
    from harness.runs.call_spending import CallSpending
    from harness.runs.run_gateway import RunGateway


# What an agent does not say about its session: the session's id, and what its earlier runs have used.
#
# The id comes from the agent's own store, which is only read. A session there is taken for that of the run if
# it alone was written since the run began, in the same directory, for the same prompt.
#
# The usage comes from our logs of the earlier runs: agents that count whole sessions need it taken off.


_VARIABLE = re.compile(r"\$(\w+)")
_LARGEST_BYTES = 4 * 1024 * 1024
_CLOCKS_DIFFER_MS = 2000
"""A file system may note the time of a file less exactly than the clock."""


def find_session(launch: Launch, started_ms: int, pid: int) -> str:
    """The session's id; empty where the agent reports it itself, and unless exactly one session fits."""
    files = launch.agent.session_files
    if files is None:
        return ""
    found = [
        record
        for record in _written_since(_folder(files, launch), started_ms - _CLOCKS_DIFFER_MS)
        if _fits(record, files, launch)
    ]
    own = [record for record in found if record.get(files.pid) == pid] or found
    session_id = own[0].get(files.id) if len(own) == 1 else ""
    return session_id if isinstance(session_id, str) else ""


def _folder(files: SessionFiles, launch: Launch) -> str:
    env = launch.invocation.env
    if files.option and (named := argument_of(launch.invocation.argv, files.option)):
        return os.path.join(launch.invocation.cwd, named, "sessions")
    folders = (_expanded(folder, env) for folder in files.folders)
    return next((folder for folder in folders if folder and os.path.isdir(folder)), "")


def _expanded(folder: str, env: Mapping[str, str]) -> str:
    """With the agent's variables; empty when it has not all of them."""
    if any(not env.get(name) for name in _VARIABLE.findall(folder)):
        return ""
    folder = _VARIABLE.sub(lambda found: env[found[1]], folder)
    home = env.get("HOME") or os.path.expanduser("~")
    return home + folder[1:] if folder.startswith("~/") else folder


def _written_since(folder: str, since_ms: int) -> Iterator[dict[str, Any]]:
    try:
        names = os.listdir(folder) if folder else []
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name, f"{name}.json")
        try:
            status = os.stat(path)
            if status.st_mtime_ns < since_ms * 1_000_000 or status.st_size > _LARGEST_BYTES:
                continue
            with open(path, "rb") as file:
                record = msgspec.json.decode(file.read())
        except (OSError, *DECODE_ERRORS):
            continue
        if isinstance(record, dict):
            yield record


def _fits(record: dict[str, Any], files: SessionFiles, launch: Launch) -> bool:
    cwd, prompt = record.get(files.cwd), record.get(files.prompt)
    if not isinstance(cwd, str) or os.path.realpath(cwd) != os.path.realpath(launch.invocation.cwd):
        return False
    return isinstance(prompt, str) and prompt.strip() == launch.request.prompt.strip()


def earlier_usage(hub: Hub, agent: str, session_id: str, run_id: str) -> Usage | None:
    """What all runs of the session but this one have used; None when no other is recorded, or not all that came before."""
    if not session_id or session_id == run_id:
        return None
    used: Usage | None = None
    try:
        logs = [
            log.session_id
            for log in hub.store.list()
            if log.session_id != hub.log_id and any(session_id == name for _, name in log.names_of_agents())
        ]
        is_whole = not logs or not _continues(hub.store, min(logs))
        for log_id in [*sorted(logs), hub.log_id]:
            events = list(read_all(hub.store, log_id))
            used = _used_in(events, agent, session_id, run_id, used)
            is_whole = is_whole or any(_is_total(event) for event in events)
    except (HarnessError, OSError):
        return None
    return used if is_whole else None


def _is_total(event: Event) -> bool:
    return isinstance(event, Warning) and event.code == "usage_cumulative"


def _continues(store: Store, log_id: str) -> bool:
    """Whether the run of this log went on with a session, or a copy of one: what that had used is in later totals."""
    path = store.path(log_id, RawWriter.suffix) if isinstance(store, FileStore) else ""
    if not os.path.exists(path):
        return False
    start = next(iter(read_raw(path)), None)
    return isinstance(start, RawStart) and bool(start.request.get("resume"))


def _used_in(
    events: Iterable[Event], agent: str, session_id: str, run_id: str, before: Usage | None
) -> Usage | None:
    """Add what a log says to what was used before; a run that reports its session's total replaces it."""
    runs: set[str] = set()
    totals: set[str] = set()
    used = before
    for event in events:
        if isinstance(event, SessionStart):
            if event.agent == agent and event.session_id == session_id and event.run_id != run_id:
                runs.add(event.run_id)
        elif _is_total(event):
            totals.add(event.run_id)
        elif isinstance(event, Result) and event.run_id in runs and event.usage is not None:
            used = event.usage if event.run_id in totals else (used or Usage()).plus(event.usage)
    return used


LIMIT: Final = "spending"
"""The action of a `RawControl` at a limit of `harness budget`."""
HOLD_MS = 200
"""How long a piece that may be the beginning of a secret waits for the rest."""


class ProcessWorker:
    """Contract: `work` runs once, in one thread; `stop` may be called from any, at any time."""

    def __init__(
        self,
        launch: Launch,
        hub: Hub,
        recorder: Recorder,
        on_end: OnEnd,
    ) -> None:
        self._launch = launch
        self._hub = hub
        self._recorder = recorder
        self._on_end = on_end
        self._log = TranslatedRun(launch, hub, recorder)
        self._child: Child | None = None
        self._gate = gate_of(launch, hub, self._give)
        self._gateway: RunGateway | None = None
        self._spending = spending_of(launch, self._log.cost)
        self._stop_requests = 0
        self._stops_done = 0

    @property
    def result(self) -> Result | None:
        return self._log.result

    def stop(self) -> None:
        self._stop_requests += 1
        if self._child is not None:
            self._child.wake()
        if self._gate is not None:
            self._gate.changed.set()

    def reply(self, reply: RelayReply) -> bool:
        """An answer at a limit of `harness budget`: such a program asks nothing itself."""
        is_taken = self._gate is not None and self._gate.reply(reply)
        if is_taken and self._child is not None:
            self._child.wake()
        return is_taken

    def work(self) -> None:
        try:
            try:
                self._gateway = open_gateway(self._launch, self._recorder, self._spending)
            finally:
                start = self._gateway.start if self._gateway is not None else None
                self._log.take(self._recorder.start_entry(self._hub.clock(), start))
            exit = self._run_child() if self._is_admitted() else RawExit(at_ms=self._hub.clock())
        except HarnessError as error:
            exit = RawExit(
                at_ms=self._hub.clock(),
                failure="agent_not_found" if isinstance(error, AgentNotFound) else "spawn_failed",
                message=error.words,
            )
        if self._gateway is not None:
            self._gateway.close()
        self._log.take(exit)
        self._recorder.close()
        if self._log.result is not None:
            self._on_end(self._log.result, self._log.session)

    def _is_admitted(self) -> bool:
        """Before it is started, at the limits of `harness budget`."""
        gate = self._gate
        if gate is None:
            return True
        step = gate.wait(lambda: self._stop_requests > 0)
        if step == "end":
            self._log.take(RawControl(at_ms=self._hub.clock(), action=LIMIT, detail=gate.reason))
        elif step == "wait":
            self._log.take(RawControl(at_ms=self._hub.clock(), action="stop"))
        return step == "run"

    def _run_child(self) -> RawExit:
        if not self._launch.binary:
            raise not_found(self._launch.agent)
        started_ms = self._hub.clock()
        invocation, gateway = self._launch.invocation, self._gateway
        if gateway is not None:
            invocation = gateway.pointed(invocation)
        self._child = child = Child(invocation)
        try:
            if gateway is not None:
                gateway.inlet.attach(child.wake)
            if self._spending is not None:
                self._spending.attach(child.wake)
            self._follow(child)
        finally:
            child.close()
            if gateway is not None:
                gateway.close()
                gateway.take(self._log.take)
        now_ms = self._hub.clock()
        self._log.take_all(self._recorder.finish(now_ms))
        end = child.exit
        assert end is not None
        session_id = find_session(self._launch, started_ms, child.pid)
        earlier = None
        if self._log.pipeline.translator.counts_whole_session:
            session = session_id or self._log.pipeline.lifecycle.session_id
            earlier = earlier_usage(self._hub, self._launch.speaks.name, session, self._log.source.run_id)
        return RawExit(
            at_ms=now_ms,
            code=end.code,
            signal=end.signal,
            survivors=end.survivors,
            refused=list(end.refused),
            session_id=session_id,
            earlier_usage=earlier,
        )

    def _follow(self, child: Child) -> None:
        clock, recorder = self._hub.clock, self._recorder
        watch = LimitWatch(self._launch, clock())
        held_until_ms = inf
        while child.exit is None:
            self._stop_as_asked(child)
            deadline_ms = min(held_until_ms, watch.deadline_ms, self._gate.deadline_ms if self._gate else inf)
            chunks = child.read(None if deadline_ms == inf else max(0.0, (deadline_ms - clock()) / 1000))
            now_ms = clock()
            if chunks:
                watch.note_output(now_ms)
                self._log.take_all(recorder.entries(chunks, now_ms))
            if self._gateway is not None:
                self._gateway.take(lambda entry: self._take_call(entry, child))
            if now_ms >= held_until_ms:
                self._log.take_all(recorder.release(now_ms))
            held_until_ms = min(held_until_ms, now_ms + HOLD_MS) if recorder.holds_back else inf
            reached = watch.reached(now_ms, self._log.pipeline.lifecycle, self._log.cost)
            if reached is not None:
                self._log.take(reached)
                child.stop()
            elif self._gate is not None:
                self._look(self._gate, child, watch)

    def _take_call(self, entry: RawCall | RawControl | RawEvent, child: Child) -> None:
        """What the gateway saw; or why the run must end."""
        self._log.take(entry)
        if isinstance(entry, RawControl):
            child.stop()

    def _look(self, gate: BudgetGate, child: Child, watch: LimitWatch) -> None:
        """At the limits of `harness budget` the program is paused while a person is asked; not one that is done."""
        did_wait = gate.waits
        if self._log.pipeline.lifecycle.has_said_end and not did_wait:
            return
        step = self._spending.look(gate) if self._spending is not None else gate.look(self._log.cost)
        watch.note_waiting(self._hub.clock(), waits=step == "wait")
        if step == "end":
            self._log.take(RawControl(at_ms=self._hub.clock(), action=LIMIT, detail=gate.reason))
            child.stop()
        elif step == "wait" and not did_wait:
            child.pause()
        elif step == "run" and did_wait:
            child.resume()

    def _give(self, event: Event) -> None:
        self._log.give(event, self._hub.clock())

    def _stop_as_asked(self, child: Child) -> None:
        """Carry out what `stop` asked for since the last time."""
        while self._stops_done < self._stop_requests:
            if not self._stops_done:
                if self._gate is not None:
                    self._gate.withdraw("the run was stopped")
                self._log.take(RawControl(at_ms=self._hub.clock(), action="stop"))
            self._stops_done += 1
            child.stop()


class LimitWatch:
    """The limits of a run: when the next one is due, and which one has been reached."""

    def __init__(self, launch: Launch, now_ms: int) -> None:
        limits = launch.request.limits
        self._limits = limits
        self._watched = launch.watched_limits
        self._started_ms = self._output_ms = now_ms
        self._has_output = False
        self._is_over = False
        self._waits = False

    def note_waiting(self, now_ms: int, *, waits: bool) -> None:
        """While the run waits for a person, the agent has nothing to say; the time of the whole run counts on."""
        if self._waits and not waits:
            self._output_ms = max(self._output_ms, now_ms)
        self._waits = waits

    def note_output(self, now_ms: int) -> None:
        """The agent wrote something."""
        self._has_output = True
        self._output_ms = now_ms

    @property
    def deadline_ms(self) -> float:
        """When `reached` must be asked again even if nothing happens."""
        return inf if self._is_over else min(due for due, _, _ in self._due())

    def reached(self, now_ms: int, lifecycle: RunLifecycle, cost: CostMeter) -> RawControl | None:
        """The first limit that has been reached; after one, no other is."""
        if self._is_over:
            return None
        for due_ms, action, seconds in self._due():
            if now_ms >= due_ms:
                return self._over(now_ms, action, f"{seconds:g}s")
        turns, budget = self._limits.max_turns, self._limits.max_budget_usd
        if turns is not None and "max_turns" in self._watched and lifecycle.turns > turns:
            return self._over(now_ms, "turns", str(turns))
        tokens = self._limits.max_tokens
        if tokens is not None and cost.tokens > tokens:
            return self._over(now_ms, "tokens", f"{tokens:,}")
        if budget is not None and "max_budget_usd" in self._watched and cost.spent_usd > budget:
            return self._over(now_ms, "budget", f"${budget:g}")
        return None

    def _due(self) -> list[tuple[float, RawAction, float]]:
        limits = self._limits
        whole: tuple[float, RawAction, float] = (
            _after(self._started_ms, limits.timeout_s),
            "timeout",
            limits.timeout_s or 0.0,
        )
        if self._waits:
            return [whole]
        first = inf if self._has_output else _after(self._started_ms, limits.first_output_s)
        return [
            whole,
            (first, "first_output", limits.first_output_s or 0.0),
            (_after(self._output_ms, limits.inactivity_s), "inactivity", limits.inactivity_s or 0.0),
        ]

    def _over(self, now_ms: int, action: RawAction, detail: str) -> RawControl:
        self._is_over = True
        return RawControl(at_ms=now_ms, action=action, detail=detail)


def spending_of(launch: Launch, cost: CostMeter) -> CallSpending | None:
    """What is asked before each call of a run through a gateway; None where there is no gateway, or no limit."""
    if launch.gateway is None or (launch.budget is None and launch.request.limits.max_budget_usd is None):
        return None
    from harness.runs.call_spending import CallSpending  # only here: most runs have no gateway

    return CallSpending(launch, cost)


def open_gateway(
    launch: Launch, recorder: Recorder, spending: CallSpending | None = None
) -> RunGateway | None:
    """The gateway of a run; None where it has none. Raises UsageError for a recording that cannot be read, SpawnFailed."""
    if launch.gateway is None:
        return None
    from harness.runs.run_gateway import RunGateway  # only here: most runs have none

    may_serve = launch.two_way is not None and launch.two_way.transport == "http"
    gateway = RunGateway(
        launch.gateway, launch.invocation.cwd, recorder.masked_bytes, spending, may_serve=may_serve
    )
    recorder.hide(gateway.secrets)
    return gateway


def gate_of(launch: Launch, hub: Hub, put: Callable[[Event], object]) -> BudgetGate | None:
    """What asks at the limits of `harness budget`; None without limits."""
    if launch.budget is None:
        return None
    from harness.questions.budget_gate import BudgetGate  # only here: most runs have no limit

    return BudgetGate(launch.budget, put, hub.clock, launch.request.ask_timeout_s)


def _after(start_ms: int, seconds: float | None) -> float:
    return inf if seconds is None else start_ms + seconds * 1000
