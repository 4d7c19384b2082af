"""Threads beside the current one: a sub-agent's fork, a judge's own conversation. Lists hide them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from harness.approvals.call import READ_ONLY, ProposedCall
from harness.conversation.stored_history import stored_history
from harness.conversation.turns import TranscriptEntry
from harness.errors import UnknownSession
from harness.events import Error, Event, Result, ThreadCreated
from harness.log.hub import Hub
from harness.log.store import Metadata, Store
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.questions.permissions import PermissionPolicy, Permissions
from harness.session.goals import Judge, JudgeQuestion, ask_model

HIDDEN = "forkedSubagent"
"""The setting that hides a thread from lists."""


class ChildThreadHost(Protocol):
    """What a session provides for its child threads."""

    def store(self) -> Store | None:
        """None where nothing is stored."""
        ...

    def thread_id(self) -> str | None: ...

    def resource_id(self) -> str: ...

    def now_ms(self) -> int: ...

    def loop_context(self, hub: Hub) -> LoopContext:
        """With the working directory, the environment and the secrets of the session."""
        ...


class ChildThread:
    """A thread with its own log and conversation. Contract: the caller that opens one closes it."""

    def __init__(
        self,
        store: Store,
        metadata: Metadata,
        hub: Hub,
        loop_context: Callable[[Hub], LoopContext],
        entries: Sequence[TranscriptEntry] = (),
    ) -> None:
        self.metadata = metadata
        self.hub = hub
        self.context: LoopContext = loop_context(hub)
        self.conversation: AgentConversation = AgentConversation(self.context, entries)
        self.start_seq: int = hub.recent_start()
        """The `seq` of its first own event; nothing has been appended to the hub yet."""
        self._store = store

    @property
    def result(self) -> Result | None:
        """The result of the last run, if it has ended."""
        last = self.context.outbox.last
        return last if isinstance(last, Result) else None

    def failure(self) -> str:
        """The message of the last error in this thread; empty without one."""
        errors = [event.message for event in self._own_events() if isinstance(event, Error)]
        return errors[-1] if errors else ""

    def close(self) -> None:
        result = self.result
        self.metadata.updated_ms = self.hub.clock()
        if result is not None:
            self.metadata.success, self.metadata.outcome = result.success, result.outcome
        self.hub.close()
        self._store.save_metadata(self.metadata)

    def _own_events(self) -> list[Event]:
        follower = self.hub.follower(self.start_seq)
        events: list[Event] = []
        while batch := follower.poll():
            events += batch
        follower.close()
        return events


def create_child(
    store: Store,
    metadata: Metadata,
    loop_context: Callable[[Hub], LoopContext],
    entries: Sequence[TranscriptEntry] = (),
) -> ChildThread:
    """Create a thread, with `ThreadCreated` as its first event. Raises StoreError."""
    hub = Hub(store, metadata.session_id, store.create(metadata))
    child = ChildThread(store, metadata, hub, loop_context, entries)
    created = ThreadCreated(
        id=metadata.session_id,
        resource_id=metadata.resource_id,
        title=metadata.name,
        cloned_from=metadata.fork.log_id if metadata.fork is not None else "",
    )
    hub.source(metadata.session_id).append([created])
    return child


class _JudgePermissions(Permissions):
    """Allows reads only, except what the session denies."""

    def __init__(self, rules: PermissionPolicy | None) -> None:
        super().__init__(READ_ONLY)
        self._rules = rules

    def denial(self, call: ProposedCall) -> str | None:
        if self._rules is not None:
            verdict = self._rules.verdict(call)
            if verdict.decision == "deny":
                return verdict.reason or "denied"
        return super().denial(call)


def thread_judge(host: ChildThreadHost, rules: PermissionPolicy | None = None) -> Judge:
    """A judge with its own thread: it remembers its earlier decisions, and may look things up.

    `rules`: those of the session; what they deny is denied to the judge as well.
    """

    async def ask(question: JudgeQuestion) -> str:
        store = host.store()
        if store is None or not question.thread_id:
            return await ask_model(question)
        child = _judge_side(store, host, question)
        options = AgentOptions(
            model=question.model,
            tools=question.tools,
            permissions=_JudgePermissions(rules),
            system_prompt=question.prompt,
            max_iterations=question.max_steps,
            agent="goal-judge",
        )
        try:
            ended = await child.conversation.send(options, question.text)
            if isinstance(ended, Result) and ended.outcome in ("completed", "limit_exceeded"):
                return ended.text
            raise RuntimeError(child.failure() or "the judge did not come to an end")
        finally:
            child.close()

    return ask


def _judge_side(store: Store, host: ChildThreadHost, question: JudgeQuestion) -> ChildThread:
    try:
        metadata = store.metadata(question.thread_id)
    except UnknownSession:
        settings: dict[str, Any] = dict(question.settings)
        metadata = Metadata(
            session_id=question.thread_id,
            kind="thread",
            resource_id=host.resource_id(),
            name=question.title,
            settings=settings,
        )
        return create_child(store, metadata, host.loop_context)
    writer = store.open(question.thread_id)
    entries = stored_history(store, question.thread_id).entries
    return ChildThread(store, metadata, Hub(store, question.thread_id, writer), host.loop_context, entries)
