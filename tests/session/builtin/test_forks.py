"""Sub-agents on a fork: the same beginning for the model, byte by byte, and a thread of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harness.approvals.call import ProposedCall
from harness.contracts.model import AssistantTurn, ToolTurn, UserTurn
from harness.conversation.history import history
from harness.errors import StoreError
from harness.events import Forked, Relay, RelayReply, Result, SessionStart, ThreadCreated, ToolEnd
from harness.lab.script_run import ScriptRun
from harness.lab.server import LabServer
from harness.log.store import Fork, Metadata, Query
from harness.models.registry import open_model
from harness.models.script_file import parse_script
from harness.native.loop.loop_context import AgentOptions
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions, PermissionVerdict
from harness.session.builtin.ask_user import AskUserTool
from harness.session.builtin.tasks import task_tools
from harness.session.config import Subagent
from thread_kit import Asked, ParentThread, calls

HELPER = Subagent(
    id="helper", name="Helper", description="Tries something.", instructions="unused", forked=True
)


def delegated(**more: Any) -> dict[str, Any]:
    return calls("subagent", {"agentType": "helper", "task": "try it", **more}, text="I fork.")


class Board:
    """It must not be asked anything from a fork."""

    def tasks(self) -> Any:
        raise AssertionError

    async def replace(self, tasks: Any) -> None:
        raise AssertionError


def play(
    model: Asked,
    *,
    messages: tuple[str, ...] = ("go",),
    definition: Subagent = HELPER,
    prepare: Callable[[ParentThread], None] = lambda thread: None,
    **options: Any,
) -> ParentThread:
    async def go() -> ParentThread:
        thread = ParentThread(model, (definition,), **options)
        prepare(thread)
        for text in messages:
            await thread.send(text)
        return thread

    return asyncio.run(go())


def test_the_model_is_sent_the_very_same_beginning() -> None:
    model = Asked("Hello.", delegated(), "Tried.", "The end.")
    play(model, messages=("hello", "go"), tools=[AskUserTool(), *task_tools(Board())])
    _first, (before, offered), (in_fork, offered_in_fork), _last = model.asked
    assert all(mine is theirs for mine, theirs in zip(before[1:], in_fork[1:], strict=False))
    assert len(offered) == len(offered_in_fork) == 6
    assert all(mine is theirs for mine, theirs in zip(offered, offered_in_fork, strict=True))
    assert msgspec.json.encode(in_fork[: len(before)]) == msgspec.json.encode(before)
    asked, started, task = in_fork[len(before) :]
    assert isinstance(asked, AssistantTurn)
    assert asked.text == "I fork."
    assert isinstance(started, ToolTurn)
    assert not started.is_error
    assert isinstance(task, UserTurn)
    assert task.text.startswith("try it\n\n")
    assert "subagent tool cannot be used" in task.text
    assert "task_write" in task.text


def test_the_request_that_reaches_a_server_begins_the_same() -> None:
    turns = [
        {"text": "Hello."},
        [{"text": "I fork."}, {"tool": "subagent", "input": {"agentType": "helper", "task": "try it"}}],
        {"text": "Done."},
    ]
    script = parse_script({"turns": turns, "side": {"toolless": False}})
    with LabServer(ScriptRun(script)) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "test-key-0123456789abcdef"}

        async def go() -> ParentThread:
            model = open_model("anthropic/claude-sonnet-4-6", environ)
            thread = ParentThread(model, (HELPER,), tools=[AskUserTool(), *task_tools(Board())])
            await thread.send("hello")
            await thread.send("go")
            return thread

        thread = asyncio.run(go())
        bodies = [entry.body for entry in server.requests if entry.outcome == "answered"]
        assert server.faults == []
    assert thread.end_of().output == "Done."
    assert len(bodies) == 4
    before, in_fork = bodies[1], bodies[2]
    assert "try it" in str(in_fork["messages"][-1])
    for name in ("model", "max_tokens", "system", "tools"):
        assert msgspec.json.encode(in_fork[name]) == msgspec.json.encode(before[name])
    # How far to cache changes each time; the rest is the same, message by message.
    assert encoded(in_fork["messages"][: len(before["messages"])]) == encoded(before["messages"])
    assert marked(in_fork["messages"][len(before["messages"]) - 1]), "what the parent cached is asked for"


def encoded(messages: list[Any]) -> bytes:
    return msgspec.json.encode(without_marks(messages))


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_marks(inner) for name, inner in value.items() if name != "cache_control"}
    return [without_marks(inner) for inner in value] if isinstance(value, list) else value


def marked(message: dict[str, Any]) -> bool:
    return any("cache_control" in block for block in message["content"])


def test_two_forks_of_one_step_know_of_each_others_calls_but_not_of_their_results() -> None:
    asked = {
        "events": [
            {"type": "tool_call", "name": "subagent", "input": {"agentType": "helper", "task": id}, "id": id}
            for id in ("a", "b")
        ]
    }
    model = Asked(asked, "Tried.", "Tried.", "The end.")
    thread = play(model)
    first, second = thread.forks()
    assert first.log_id != second.log_id
    for turns, _ in model.asked[1:3]:
        results = [turn for turn in turns if isinstance(turn, ToolTurn)]
        assert [result.call_id for result in results] == ["a", "b"]
        started = [result.text.startswith("This call started you") for result in results]
        assert sorted(started) == [False, True]
    for fork in (first, second):
        emitted = history(thread.log(fork.log_id))
        assert len([entry for entry in emitted.entries if isinstance(entry.turn, ToolTurn)]) == 2


def test_a_fork_is_a_hidden_thread_of_its_own() -> None:
    thread = play(Asked(delegated(), "Tried.", "The end."))
    (forked,) = thread.forks()
    assert (forked.agent_type, forked.task, forked.model_id) == ("helper", "try it", "test/parent")
    assert forked.call_id == thread.end_of().call_id
    assert thread.end_of().output == "Tried."
    metadata = thread.log_store.metadata(forked.log_id)
    assert metadata.name == "Fork: Helper subagent"
    assert metadata.kind == "thread"
    assert metadata.resource_id == "resource"
    assert metadata.settings == {"forkedSubagent": True, "parentThreadId": "parent"}
    assert metadata.fork == Fork("parent", forked.seq)
    shown = thread.log_store.find(Query(kind="thread", without_settings=("forkedSubagent",)))
    assert [one.session_id for one in shown] == ["parent"]
    assert not thread.log_store.is_live(forked.log_id)


def test_the_parents_log_has_nothing_of_it_but_that_it_was_forked() -> None:
    thread = play(Asked(delegated(), "Tried.", "The end."))
    log = thread.log()
    assert not thread.nested()
    assert "Tried." not in [getattr(event, "text", "") for event in log]
    assert len([event for event in log if isinstance(event, Forked)]) == 1
    ((call_id, hub),) = thread.followed
    assert (call_id, hub.log_id) == (thread.end_of().call_id, "fork-1")


def test_the_forks_own_log_is_whole_and_can_be_read_again() -> None:
    thread = play(Asked(delegated(), "Tried.", "The end."))
    (forked,) = thread.forks()
    log = thread.log(forked.log_id)
    assert [event.seq for event in log] == list(range(len(log)))
    own = log[forked.seq :]
    assert isinstance(own[0], ThreadCreated)
    assert own[0].cloned_from == "parent"
    starts = [event for event in log if isinstance(event, SessionStart)]
    results = [event for event in log if isinstance(event, Result)]
    assert [start.run_id for start in starts] == [result.run_id for result in results]
    assert starts[-1].name == "helper"
    assert results[-1].text == "Tried."
    emitted = history(log)
    assert emitted.pending is None
    kinds = [type(entry.turn).__name__ for entry in emitted.entries]
    assert kinds == ["UserTurn", "AssistantTurn", "ToolTurn", "UserTurn", "AssistantTurn"]


@pytest.mark.parametrize(
    ("by_definition", "by_call", "is_forked"),
    [(True, None, True), (False, True, True), (True, False, False), (False, None, False)],
)
def test_what_the_call_says_counts_before_the_definition(
    by_definition: bool, by_call: bool | None, is_forked: bool
) -> None:
    definition = Subagent(
        id="helper", name="Helper", description="", default_model_id="sub", forked=by_definition
    )
    more = {} if by_call is None else {"forked": by_call}
    thread = play(
        Asked(delegated(**more), "In the fork.", "The end."),
        definition=definition,
        models={"sub": Asked("Afresh.")},
    )
    assert bool(thread.forks()) is is_forked
    assert thread.end_of().output == ("In the fork." if is_forked else "Afresh.")


def test_another_model_is_not_taken_and_the_definition_does_not_count() -> None:
    used: list[str] = []

    @tool(name="own")
    async def own() -> str:
        used.append("own")
        return "x"

    definition = Subagent(
        id="helper",
        name="Helper",
        description="",
        forked=True,
        tools=[own],
        max_steps=1,
        default_model_id="sub",
    )
    thread = play(Asked(delegated(modelId="un/known"), "Tried.", "The end."), definition=definition)
    assert thread.forks()[0].model_id == "test/parent"
    assert thread.end_of().output == "Tried."


@pytest.mark.parametrize("name", ["subagent", "task_write", "task_check"])
def test_what_a_fork_must_not_do_keeps_its_spec_and_answers_with_an_error(name: str) -> None:
    input = {"agentType": "helper", "task": "deeper"} if name == "subagent" else {"tasks": []}
    model = Asked(delegated(), calls(name, input, id="c2"), "Tried.", "The end.")
    thread = play(model, tools=task_tools(Board()))
    (forked,) = thread.forks()
    (end,) = [
        event
        for event in thread.log(forked.log_id)[forked.seq :]
        if isinstance(event, ToolEnd) and event.call_id.endswith("/c2")
    ]
    assert end.success is False
    assert f"{name} tool is not available inside a forked sub-agent" in (end.output or "")
    assert thread.end_of().output == "Tried."
    assert len(thread.forks()) == 1


def test_a_fork_asks_no_one() -> None:
    model = Asked(delegated(), calls("ask_user", {"question": "Which?"}, id="c2"), "Tried.", "The end.")
    thread = play(model, tools=[AskUserTool()])
    (forked,) = thread.forks()
    log = thread.log(forked.log_id)
    (relay,) = [event for event in log if isinstance(event, Relay)]
    assert relay.question == "Which?"
    emitted = model.asked[2][0][-1]
    assert isinstance(emitted, ToolTurn)
    assert emitted.is_error
    assert "no user can be asked" in emitted.text
    assert thread.end_of().output == "Tried."


def test_a_fork_asks_in_its_parents_log_and_both_logs_have_question_and_answer() -> None:
    @tool(name="act")
    async def act() -> str:
        return "done"

    class Policy(Permissions):
        def verdict(self, call: ProposedCall) -> PermissionVerdict:
            return PermissionVerdict("allow") if call.tool == "subagent" else super().verdict(call)

    def prepare(thread: ParentThread) -> None:
        def answer() -> None:
            for event in thread.hub.recent(0):
                if isinstance(event, Relay):
                    assert thread.current is not None
                    thread.current.context.questions.reply(RelayReply(id=event.id, approved=True))

        loop = asyncio.get_running_loop()
        thread.hub.add_waker(lambda: loop.call_soon(answer))

    model = Asked(delegated(), calls("act", {}, id="c2"), "Tried.", "The end.")
    thread = play(model, tools=[act], permissions=Policy("ask"), prepare=prepare)
    log = thread.log(thread.forks()[0].log_id)
    for events in (log, thread.log()):
        (relay,) = [event for event in events if isinstance(event, Relay)]
        (reply,) = [event for event in events if isinstance(event, RelayReply)]
        assert (relay.id, relay.tool_name, reply.approved) == (reply.id, "act", True)
    (end,) = [event for event in thread.log() if isinstance(event, ToolEnd)]
    assert (relay.subagent, relay.spawn_call_id) == ("helper", end.call_id)
    assert [event.output for event in log if isinstance(event, ToolEnd)][-1] == "done"
    assert history(thread.log()).pending is None


def test_a_fork_may_take_many_steps_and_has_no_goal() -> None:
    async def goes_on(answer: str) -> str | None:
        return "more" if answer == "Tried." else None

    seen: list[AgentOptions] = []

    def prepare(thread: ParentThread) -> None:
        def hook(options: AgentOptions) -> AgentOptions:
            seen.append(options)
            return options

        thread.fork_hook = hook

    thread = play(Asked(delegated(), "Tried.", "The end."), prepare=prepare, after_answer=goes_on)
    (options,) = seen
    assert (options.max_iterations, options.stop_when, options.after_answer) == (1000, None, None)
    assert thread.end_of().output == "Tried."


def no_parent(thread: ParentThread) -> None:
    current, asked = thread.current, iter([None])
    thread.conversation = lambda: next(asked, current)  # type: ignore[method-assign]


def no_thread(thread: ParentThread) -> None:
    thread.id = None


def no_store(thread: ParentThread) -> None:
    thread.kept = None


@pytest.mark.parametrize(
    ("missing", "words"),
    [(no_parent, "parent agent"), (no_thread, "active parent thread"), (no_store, "store")],
)
def test_what_is_missing_is_reported_in_a_result(missing: Callable[[ParentThread], None], words: str) -> None:
    end = play(Asked(delegated(), "The end."), prepare=missing).end_of()
    assert end.success is False
    assert words in (end.output or "")


def test_a_store_that_refuses_is_reported_in_a_result() -> None:
    def prepare(thread: ParentThread) -> None:
        def refuse(metadata: Metadata) -> Any:
            raise StoreError("no room")

        assert thread.kept is not None
        thread.kept.create = refuse  # type: ignore[method-assign]

    end = play(Asked(delegated(), "The end."), prepare=prepare).end_of()
    assert (end.success, end.output) == (False, "Failed to fork the parent thread: no room")


def test_what_cannot_be_flushed_does_not_keep_it_from_forking() -> None:
    def prepare(thread: ParentThread) -> None:
        assert thread.current is not None
        outbox = thread.current.context.outbox
        flush, is_broken = outbox.flush, [False]

        def breaks() -> None:
            flush()
            if is_broken[0]:
                is_broken[0] = False
                raise OSError("disk full")

        outbox.flush = breaks  # type: ignore[method-assign]
        own = thread.options

        def options() -> Any:
            is_broken[0] = True
            return own()

        thread.options = options  # type: ignore[method-assign]

    assert play(Asked(delegated(), "Tried.", "The end."), prepare=prepare).end_of().output == "Tried."


def test_a_fork_that_fails_is_an_error_result() -> None:
    model = Asked(delegated(), {"events": [{"type": "error", "message": "overloaded"}]}, "The end.")
    thread = play(model)
    end = thread.end_of()
    assert (end.success, end.output) == (False, 'Subagent "Helper" failed: overloaded')
    assert not thread.log_store.is_live("fork-1")


def test_a_fork_that_is_stopped_with_its_parent_gives_what_it_said() -> None:
    async def go() -> ParentThread:
        reached = asyncio.Event()

        @tool(name="wait")
        async def wait() -> str:
            reached.set()
            await asyncio.sleep(60)
            return "never"

        model = Asked(delegated(), calls("wait", {}, id="c2", text="I found one."))
        thread = ParentThread(model, (HELPER,), tools=[wait])
        running = asyncio.create_task(thread.send("go"))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return thread

    thread = asyncio.run(go())
    assert thread.end_of().output == "[Aborted by user]\n\nPartial output:\nI found one."
    log = thread.log("fork-1")
    assert isinstance(log[-1], Result)
    assert log[-1].outcome == "interrupted"
    assert not thread.log_store.is_live("fork-1")
