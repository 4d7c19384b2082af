"""A run: start an agent, record everything it writes, and let others follow.

    run = start(Request(agent="claude", prompt="fix the bug"))
    for event in run: ...

A run lives in a thread of its own and only ever appends to its log. Readers follow the log from a
cursor, during the run or after it. It always ends with one `Result`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from harness.config import has_limits, sessions_directory
from harness.contracts.agent import work_of
from harness.contracts.request import REMOTE_AGENT, Request
from harness.contracts.worker import Announcing, Answerable, EventNoter, OnEnd, Steerable, Worker
from harness.errors import HarnessError, StoreError, UnknownSession, UsageError
from harness.events import Error, Event, RelayReply, Result, SessionStart, SteeringQueued, Warning
from harness.log.clock import new_clock
from harness.log.hub import Hub, longest_wait_s, observers_environment
from harness.log.ids import new_run_id
from harness.log.raw import RawWriter
from harness.log.store import Metadata, Store
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.runs.launch import Launch, prepare
from harness.runs.process_worker import ProcessWorker
from harness.runs.recorder import Recorder
from harness.runs.turn_checkpoints import before_work, recorder_of

if TYPE_CHECKING:
    from typing import Unpack

    from harness.contracts.request import Options
    from harness.events import AnyEvent
    from harness.runs.program_conversation import ProgramConversation


class Run:
    """One execution of an agent, recorded in a log. Iterate over it to follow its events.

        run = harness.start(harness.Request(agent="claude", prompt="fix the bug"))
        for event in run:
            ...
        print(run.wait().outcome)

    All methods may be called at any time and from any thread. Leaving the loop does not stop the run; `cancel` does.

    Attributes:
        id: The id of the run; every event of it has this `run_id`.
        store: Where its log is stored.
        launch: What was started, as it was resolved: request, agent, program, environment. Changes without notice.
        hub: The log while it is written. Changes without notice.

    """

    def __init__(
        self, launch: Launch, store: Store, hub: Hub, worker: Worker, *, is_guest: bool = False
    ) -> None:
        """`is_guest`: the log has another owner, and continues after the run."""
        self.id: str = launch.run_id or hub.log_id
        self.launch = launch
        self.store = store
        self.hub = hub
        self._worker = worker
        self._is_guest = is_guest
        self._first_seq = hub.next_seq if is_guest else 0
        self._end_seq: int | None = None
        """Where the log continues without the run, once that is known."""
        self._thread = threading.Thread(target=self._work, name=f"run-{self.id}", daemon=True)
        self._failure: BaseException | None = None

    def __iter__(self) -> Iterator[AnyEvent]:
        """All events of its log from its first, live, until the run has ended."""
        for batch in self.batches():
            yield from batch

    def batches(self, cursor: int = 0) -> Iterator[Sequence[AnyEvent]]:
        """Iterate over the events in batches, from the event `cursor` on: cheaper for readers that write them elsewhere."""
        cursor = max(cursor, self._first_seq)
        if not self._is_read(cursor):
            for batch in self.hub.batches(cursor):
                own = self._up_to_result(batch)
                yield own
                if self._is_read(own[-1].seq + 1):
                    break
        self._raise_failure()

    async def events(self, cursor: int = 0) -> AsyncIterator[AnyEvent]:
        """Iterate over the events asynchronously, live, from the event `cursor` on, until the run has ended."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        remove = self.hub.add_waker(lambda: loop.call_soon_threadsafe(changed.set))
        follower = self.hub.follower(max(cursor, self._first_seq))
        try:
            while not self._is_read(follower.cursor):
                changed.clear()
                own = self._up_to_result(follower.poll())
                for event in own:
                    yield event
                if follower.is_ended or (own and self._is_read(own[-1].seq + 1)):
                    break
                if not self.hub.has(follower.cursor):
                    await changed.wait()
        finally:
            remove()
            follower.close()
        self._raise_failure()

    @property
    def log_id(self) -> str:
        """The log that it is written into: its own, under its own id, or that of the thread it belongs to."""
        return self.hub.log_id

    @property
    def agent_session_id(self) -> str:
        """The agent's own id of its session, with which it can be resumed; empty until it is known."""
        if self._worker.result is not None and self._worker.result.session_id:
            return self._worker.result.session_id
        follower = self.hub.follower(self._first_seq)
        try:
            named_events = (
                event for event in follower.poll() if event.run_id == self.id and event.session_id
            )
            return next((event.session_id for event in named_events if event.session_id != self.id), "")
        finally:
            follower.close()

    @property
    def is_ended(self) -> bool:
        """Whether its `Result` is in the log."""
        return self._worker.result is not None

    @property
    def is_steerable(self) -> bool:
        """Whether `steer` would be taken now, as far as is known."""
        return isinstance(self._worker, Steerable) and not self.is_ended and self._worker.is_steerable

    def wait(self) -> Result:
        """Block until the run has ended, and return its `Result`: outcome, last answer, usage, cost."""
        while self._thread.is_alive():
            self._thread.join(longest_wait_s())
        self._raise_failure()
        assert self._worker.result is not None, "a run ends with a Result"
        return self._worker.result

    def cancel(self) -> None:
        """Interrupt the agent; called again, with more force. The run still ends with its `Result`."""
        self._worker.stop()

    @property
    def untaken(self) -> Sequence[SteeringQueued]:
        """Messages of `steer` that the agent did not take before the run ended: they have to be sent again."""
        return getattr(self._worker, "untaken", ())

    def note(self, event: Event) -> bool:
        """Put an event of a tool of ours, which the program calls, into the log; False when the run is over."""
        return isinstance(self._worker, EventNoter) and self._worker.note(event)

    def steer(self, text: str, message_id: str = "") -> None:
        """Give the running agent another message. Raises UsageError where it cannot take one.

        `message_id`: that of the message in the log; empty: a new one.
        """
        if not isinstance(self._worker, Steerable):
            raise UsageError(
                f"{self.launch.agent.title} cannot be steered while it runs", hint="start another run"
            )
        self._worker.steer(text, message_id)

    def reply(
        self,
        relay_id: str,
        *,
        approved: bool,
        always: bool = False,
        answer: Any = None,
        reason: str = "",
        choice: str = "",
    ) -> bool:
        """Answer a question of the run: a `Relay` event, for which it waits.

        Args:
            relay_id: The id of the `Relay`.
            approved: Whether the call, or the plan, is allowed.
            always: Allow such calls from now on, as the question describes it.
            answer: The data that a question asks for.
            reason: Shown to the model, for example why a call was declined.
            choice: The id of one of the choices that the question offers.

        Returns:
            False when no question of that id waits any more: the first answer counts.

        Raises:
            UsageError: For an answer that does not fit the question, which then stays open.

        """
        if not isinstance(self._worker, Answerable):
            return False
        return self._worker.reply(
            RelayReply(
                id=relay_id, approved=approved, always=always, answer=answer, reason=reason, choice=choice
            )
        )

    def begin(self) -> None:
        """Start the agent; `start` has done so already."""
        self._thread.start()

    def _up_to_result(self, batch: Sequence[Event]) -> Sequence[AnyEvent]:
        """Where the log continues after the run: what belongs to the time of the run."""
        if self._is_guest:
            for place, event in enumerate(batch):
                if type(event) is Result and event.run_id == self.id:
                    self._end_seq = event.seq + 1
                    batch = batch[: place + 1]
                    break
        return cast("Sequence[AnyEvent]", batch)  # a log holds no other events

    def _is_read(self, cursor: int) -> bool:
        if self._end_seq is None and self._is_guest and self._worker.result is not None:
            self._end_seq = self._worker.result.seq + 1
        return self._end_seq is not None and cursor >= self._end_seq

    def _work(self) -> None:
        recorder = recorder_of(self.launch, self.hub, self.id)
        try:
            if recorder is not None:
                worker = self._worker if isinstance(self._worker, Announcing) else None
                recorder.begin(is_held=worker is not None)
                if worker is not None:
                    worker.before_work = partial(before_work, recorder)
            self._worker.work()
        except BaseException as error:  # noqa: BLE001 # the reader must learn of it, whatever it is
            self._failure = error
        finally:
            if recorder is not None:
                recorder.end()
            if not self._is_guest:
                self.hub.close()
            elif self._worker.result is None:
                message = f"the run broke: {self._failure!r}"
                self.hub.source(self.id).append(
                    [Error(message=message, code="internal_error"), Result(success=False, outcome="failed")]
                )

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise HarnessError(
                f"the run broke: {self._failure!r}", hint="this is a bug in harness"
            ) from self._failure


def start(
    request: Request,
    *,
    store: Store | None = None,
    redact: bool = True,
    hub: Hub | None = None,
    run_id: str = "",
    conversation: ProgramConversation | None = None,
) -> Run:
    """Start a run in a thread of its own, and return at once.

    `store` records it: by default the sessions of this user. `redact=False` does not mask credentials. The others are
    for a log with several runs: `hub` writes it, `run_id` names this run, `conversation` holds the process of a two-way
    agent between runs. An agent that is not installed, or does not start, is an outcome of the run, not an exception.
    Raises UsageError for a `request` that cannot be carried out, and BudgetExceeded.
    """
    launch = prepare(request, needs_prompt=conversation is None)
    if hub is not None:
        launch = replace(launch, run_id=run_id or new_run_id(hub.clock()))
        return _start_in(hub, launch, store or hub.store, redact=redact, conversation=conversation)
    clock = new_clock()
    run_id = run_id or new_run_id(clock())
    metadata = _metadata(launch, run_id, clock())
    store = store or FileStore(sessions_directory())
    launch = _observed(_within_budget(launch, store, run_id), run_id, run_id)
    recorder = Recorder(launch, redact=redact)
    for field in ("prompt", "model", "name", "tags"):
        setattr(metadata, field, recorder.masked_all(getattr(metadata, field)))
    trouble: StoreError | None = None
    try:
        writer = store.create(metadata)
    except StoreError as error:
        # A run that cannot be recorded is still run; its stream says so.
        store, trouble = MemoryStore(), error
        writer = store.create(metadata)
    hub = Hub(store, run_id, writer, clock)
    is_program = launch.agent.work is None
    on_end: OnEnd = lambda result, session: _finish(  # noqa: E731
        store, metadata, result, session, is_program=is_program
    )
    if launch.runs_here and (work := work_of(launch.agent)) is not None:
        run = Run(launch, store, hub, _worker(work, launch, hub, on_end, redact=redact))
    else:
        if isinstance(store, FileStore):
            recorder.open(store.path(run_id, ".raw"))
        run = Run(launch, store, hub, _program_worker(launch, hub, recorder, on_end, conversation))
    if trouble is not None:
        hub.source(run_id).append([Warning(message=f"not recorded: {trouble.message}", code="not_recorded")])
    run.begin()
    return run


def _observed(launch: Launch, log_id: str, run_id: str) -> Launch:
    """With what observers of logs tell the program, such as the span that it works in."""
    if not (about_run := observers_environment(log_id, run_id)):
        return launch
    env = {**launch.invocation.env, **about_run}
    return replace(launch, run_variables=tuple(about_run), invocation=replace(launch.invocation, env=env))


def _within_budget(launch: Launch, store: Store, log_id: str) -> Launch:
    """With the limits of `harness budget`. Raises BudgetExceeded when one is reached and cannot be asked about."""
    request = launch.request
    if request.recording or not has_limits(request.cwd):
        return launch
    from harness.usage.budget import guard_of  # only here: most runs have no limit

    is_remote = launch.agent.name == REMOTE_AGENT  # it cannot be paused there
    guard = guard_of(request.cwd, store, log_id, asks=request.asks_at_limit and not is_remote)
    if guard is None:
        return launch
    guard.look()  # logs that cannot be read are an error of the caller, and not of the run
    if not guard.asks:
        guard.refuse_if_reached()
    if is_remote:
        left_usd = min(guard.left_usd(), request.limits.max_budget_usd or float("inf"))
        launch = replace(
            launch, request=replace(request, limits=replace(request.limits, max_budget_usd=left_usd))
        )
    return replace(launch, budget=guard)


def _worker(
    work: Callable[[Launch, Hub, OnEnd, bool], Worker],
    launch: Launch,
    hub: Hub,
    on_end: OnEnd,
    *,
    redact: bool,
) -> Worker:
    """What cannot be asked leaves no session behind."""
    try:
        return work(launch, hub, on_end, redact)
    except HarnessError:
        hub.close()
        hub.store.delete(hub.log_id)
        raise


def _program_worker(
    launch: Launch, hub: Hub, recorder: Recorder, on_end: OnEnd, conversation: ProgramConversation | None
) -> Worker:
    if launch.two_way is None:
        return ProcessWorker(launch, hub, recorder, on_end)
    # Only now: most runs of the command line are one-way, and start faster without it.
    from harness.runs.dialogue import Dialogue

    return Dialogue(launch, hub, recorder, on_end, conversation)


def _start_in(
    hub: Hub, launch: Launch, store: Store, *, redact: bool, conversation: ProgramConversation | None
) -> Run:
    """Begin a run in a log that outlives it."""
    launch = _observed(_within_budget(launch, store, hub.log_id), hub.log_id, launch.run_id)
    if launch.runs_here and (work := work_of(launch.agent)) is not None:
        worker = work(launch, hub, _ignore, redact)
    else:
        recorder = Recorder(launch, redact=redact)
        if isinstance(store, FileStore):
            recorder.open(store.path(hub.log_id, f".{launch.run_id}{RawWriter.suffix}"))
        worker = _program_worker(launch, hub, recorder, _ignore, conversation)
    run = Run(launch, store, hub, worker, is_guest=True)
    run.begin()
    return run


async def run(
    *, agent: str, prompt: str, store: Store | None = None, redact: bool = True, **options: Unpack[Options]
) -> Run:
    """Start a run from asyncio, and return at once: `run = await harness.run(agent="claude", prompt="…")`.

    Args:
        agent: The name of an agent, as `harness agents` lists them.
        prompt: The task, in words.
        store: Where to record it; by default the sessions of this user.
        redact: False records the values of credential variables as they are, instead of masking them.
        options: The other fields of `Request`: `cwd`, `model`, `permissions`, `limits` …

    Returns:
        The run; follow it with `async for event in run.events()`. Raises as `start` does.

    """
    request = Request(agent=agent, prompt=prompt, **options)
    return await asyncio.to_thread(start, request, store=store, redact=redact)


def _metadata(launch: Launch, run_id: str, now_ms: int) -> Metadata:
    request = launch.request
    return Metadata(
        session_id=run_id,
        agent=launch.agent.title,
        agent_name=launch.agent.name,
        prompt=request.prompt,
        model=request.model,
        cwd=request.cwd,
        start_time=str(now_ms // 1000),
        version=launch.version,
        name=request.name,
        tags=list(request.tags),
    )


def _ignore(result: Result, session: SessionStart | None) -> None:
    del result, session


def _finish(
    store: Store, metadata: Metadata, result: Result, session: SessionStart | None, *, is_program: bool
) -> None:
    metadata.success = result.success
    metadata.outcome = result.outcome
    metadata.duration_ms = result.duration_ms
    metadata.total_cost_usd = result.total_cost_usd
    is_computed = result.usage is not None and result.usage.cost_source == "computed"
    metadata.cost_source = "computed" if is_computed else ""
    if session is not None:
        reported = result.session_id or session.session_id
        # Where a program has not reported its id, events have the run's own.
        metadata.agent_session_id = "" if is_program and reported == session.run_id else reported
        metadata.model = session.model or metadata.model
        metadata.version = session.version or metadata.version
    with suppress(StoreError, UnknownSession):
        # The disk is full, or the session was deleted: the log, as far as it is there, says it all.
        store.save_metadata(metadata)
