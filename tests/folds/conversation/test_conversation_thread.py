"""A graph read as a thread, and as messages for a model."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.folds.conversation.thread import (
    ViewNode,
    project_messages,
    project_thread,
    run_status,
)
from harness.folds.run_events.events import AnyWireEvent, RetractedEvent
from wire_events import call, end, graph_after, result, start, text, user, wire_event


def thread(*events: AnyWireEvent) -> list[ViewNode]:
    return project_thread(graph_after(*events))


def shape(views: list[ViewNode]) -> list[Any]:
    """What is said, as `kind words`, with branches as lists behind it."""
    shown: list[Any] = []
    for view in views:
        plain = msgspec.to_builtins(view.content)
        words = plain.get("text") or plain.get("content") or plain.get("message") or plain.get("name") or ""
        shown.append(f"{plain['kind']} {words}".strip())
        shown += [shape(branch) for branch in view.branches]
    return shown


def contents(views: list[ViewNode]) -> list[Any]:
    return [msgspec.to_builtins(view.content) for view in views]


def test_nothing_is_an_empty_thread() -> None:
    assert thread() == []


def test_a_simple_answer_is_one_view() -> None:
    assert msgspec.to_builtins(thread(start(), text("t1", "Hello"), end())) == [
        {
            "id": "t1",
            "runId": "r1",
            "role": "assistant",
            "content": {"kind": "text", "text": "Hello"},
            "status": "complete",
            "branches": [],
        }
    ]


def test_texts_that_follow_each_other_in_a_run_are_one() -> None:
    assert shape(thread(start(), text("t1", "Hello "), text("t2", "world"), text("t3", "!"))) == [
        "text Hello world!"
    ]


def test_reasoning_and_text_are_two() -> None:
    assert shape(thread(start(), wire_event("reasoning", id="x", content="Hmm"), text("t1", "Answer"))) == [
        "reasoning Hmm",
        "text Answer",
    ]


SUBAGENT = [
    start(),
    text("t1", "Searching"),
    call("c1"),
    start("r2", parentId="c1"),
    text("t2", "Found it", "r2", parentId="c1"),
    end("r2", parentId="c1"),
    result("c1", ["auth.ts"]),
    text("t3", "Done"),
    end(),
]


def test_a_subagent_is_a_branch_of_its_call_which_has_its_output() -> None:
    views = thread(*SUBAGENT)

    assert shape(views) == ["text Searching", "tool_call search", ["text Found it"], "text Done"]
    assert contents(views)[1] == {"kind": "tool_call", "name": "search", "input": {}, "output": ["auth.ts"]}


def test_parallel_subagents_are_two_branches() -> None:
    views = thread(
        start(),
        call("c1"),
        start("a", parentId="c1"),
        start("b", parentId="c1"),
        text("tb", "B", "b", parentId="c1"),
        text("ta", "A", "a", parentId="c1"),
        result("c1", "done"),
    )

    assert shape(views) == ["tool_call search", ["text A"], ["text B"]]


def test_a_subagent_stays_a_branch_while_the_result_of_its_call_is_to_come() -> None:
    assert shape(thread(*SUBAGENT[:5])) == ["text Searching", "tool_call search", ["text Found it"]]


def test_a_run_that_has_only_started_is_pending() -> None:
    [branch] = thread(*SUBAGENT[:4])[1].branches

    assert [(view.content, view.run_id, view.status) for view in branch] == [
        (thread(start("x"))[0].content, "r2", "streaming")
    ]
    assert contents(branch) == [{"kind": "pending"}]
    assert thread(start(), end()) == []


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([start(), text("t1", "a")], "streaming"),
        ([start(), text("t1", "a"), end()], "complete"),
        ([start(), text("t1", "a"), wire_event("error", message="boom"), end()], "error"),
        ([start(), wire_event("error", message="no code"), text("t1", "a"), end(reason="final")], "complete"),
        ([start(), wire_event("error", message="no code"), end(reason="max_iterations")], "error"),
        ([text("t1", "a")], "complete"),
        ([], "complete"),
    ],
)
def test_a_run_is_as_its_last_lifecycle_event_says(events: list[AnyWireEvent], status: str) -> None:
    graph = graph_after(*events)

    assert run_status(graph, "r1") == status
    assert {view.status for view in project_thread(graph)} <= {status}


def test_an_error_is_shown() -> None:
    views = thread(start(), wire_event("error", message="boom"))

    assert shape(views) == ["error boom"]
    assert views[0].status == "error"


def test_a_person_speaks_as_user() -> None:
    [view] = thread(user("Hello"))

    assert (view.role, contents([view])) == ("user", [{"kind": "user", "content": "Hello"}])


def test_what_does_not_hang_together_is_shown_in_the_order_in_which_it_came() -> None:
    views = thread(
        user("Hello", "u1"), start("r1"), text("t1", "Hi"), end("r1"),
        user("More", "u2"), start("r2"), text("t2", "Sure", "r2"), end("r2"),
    )  # fmt: skip

    assert shape(views) == ["user Hello", "text Hi", "user More", "text Sure"]


def test_the_reply_to_a_person_follows_flat() -> None:
    views = thread(user("Hello"), start(parentId="u1:user"), text("t1", "Hi", parentId="u1:user"), end())

    assert shape(views) == ["user Hello", "text Hi"]


def test_a_second_reply_is_a_branch() -> None:
    views = thread(
        user("Hello"),
        start("r1", parentId="u1:user"), text("t1", "A", "r1"), end("r1"),
        start("r2", parentId="u1:user"), text("t2", "B", "r2"), end("r2"),
    )  # fmt: skip

    assert shape(views) == ["user Hello", ["text B"], "text A"]


def test_text_may_have_branches_too_also_when_it_is_joined_to_other_text() -> None:
    views = thread(
        start(), text("t1", "Main "), text("t2", "text"), start("r2", parentId="t2"), text("x", "Side", "r2"),
        call("c1"),
    )  # fmt: skip

    assert shape(views) == ["text Main text", ["text Side"], "tool_call search"]


def test_progress_belongs_to_its_call() -> None:
    def progress(number: int, content: Any) -> AnyWireEvent:
        return wire_event("tool_progress", id=f"p{number}", toolCallId="c1", name="bash", content=content)

    [words] = contents(thread(start(), call("c1"), progress(1, "1\n"), progress(2, "2\n")))
    [data] = contents(thread(start(), call("c1"), progress(1, {"done": 1}), progress(2, {"done": 2})))

    assert words["progress"] == "1\n2\n"
    assert data["progress"] == [{"done": 1}, {"done": 2}]


def test_a_question_is_shown() -> None:
    relay = wire_event(
        "relay", kind="permission", id="q", toolCallId="c", tool="bash", params={"command": "ls"}
    )

    assert contents(thread(start(), relay)) == [
        {
            "kind": "relay",
            "relayKind": "permission",
            "toolCallId": "c",
            "tool": "bash",
            "params": {"command": "ls"},
        }
    ]


def test_text_that_does_not_stand_is_not_shown() -> None:
    assert shape(
        thread(start(), text("t1", "wrong"), RetractedEvent(run_id="r1", id="t1"), text("t2", "x"))
    ) == ["text x"]


def test_a_program_is_shown_with_what_it_gave_and_its_children_below_it() -> None:
    views = thread(
        start(),
        text("t1", "Let me see."),
        wire_event("repl_input", id="p1", code="llm_query(context)"),
        start("kid", parentId="p1"),
        text("t2", "42", "kid", parentId="p1"),
        wire_event("repl_output", id="p1", stdout="42\n", done=True),
        text("t3", "It is 42."),
    )

    assert shape(views) == ["text Let me see.", "repl", ["text 42"], "text It is 42."]
    assert contents(views)[1] == {"kind": "repl", "code": "llm_query(context)", "stdout": "42\n"}


def _request(call_id: str, step: str) -> AnyWireEvent:
    return call(call_id, step, name="bash", parentId="r1", input={"command": "ls"})


STEPS = [
    start(),
    user("Look", "r1"),
    text("t1", "I look.", "s1", parentId="r1"),
    _request("tc-1", "s1"),
    _request("tc-2", "s1"),
    wire_event("usage", "s1", parentId="r1", inputTokens=1, outputTokens=1),
    call("r1/tc-1", name="bash", input={"command": "ls"}),
    result("r1/tc-2", {"status": "denied", "reason": "no"}, name="bash"),
    result("r1/tc-1", {"context": "a.py", "result": {"exitCode": 0}}, name="bash"),
    text("t2", "One file.", "s2", parentId="r1"),
    end(),
]


def test_model_calls_are_emitted_in_their_place_in_the_run_that_made_them() -> None:
    views = thread(*STEPS)

    assert shape(views) == ["user Look", "text I look.", "tool_call bash", "tool_call bash", "text One file."]
    assert {view.status for view in views} == {"complete"}
    assert {view.status for view in thread(*STEPS[:-1])} == {"streaming"}


def test_a_call_is_shown_as_asked_until_it_is_carried_out() -> None:
    assert [view.id for view in thread(*STEPS[:6])[2:]] == ["tc-1", "tc-2"]
    assert [view.id for view in thread(*STEPS)[2:4]] == ["tc-2", "r1/tc-1"]


def test_runs_that_are_each_others_parents_are_shown_all_the_same() -> None:
    views = thread(start("a", parentId="cb"), call("ca", "a"), start("b", parentId="ca"), call("cb", "b"))

    assert sorted(shape(views)[:1]) == ["tool_call search"]
    assert len(shape(views)) == 2


def test_a_thread_may_be_as_deep_as_it_likes() -> None:
    events = []
    for number in range(3000):
        parent = {"parentId": f"c{number - 1}"} if number else {}
        events += [start(f"r{number}", **parent), call(f"c{number}", f"r{number}", **parent)]
    views, depth = thread(*events), 0
    while views:
        depth += 1
        views = views[0].branches[0] if views[0].branches else []

    assert depth == 3000


def messages(*events: AnyWireEvent) -> list[dict[str, Any]]:
    return project_messages(graph_after(*events))


def test_nothing_is_no_message() -> None:
    assert messages() == []


@pytest.mark.parametrize(
    "content", ["Hello", [{"type": "text", "text": "Look"}, {"type": "image", "mediaType": "image/png"}]]
)
def test_what_a_person_says_is_a_message_as_it_is(content: Any) -> None:
    assert messages(user(content)) == [{"role": "user", "content": content}]


def test_question_and_answer_are_two_messages() -> None:
    assert messages(user("Hello"), start(parentId="u1:user"), text("t1", "Hi"), end()) == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
    ]


def test_text_after_calls_is_another_turn() -> None:
    asked = [user("Run ls"), start(parentId="u1:user"), text("t1", "Sure"), call("c1", input={"q": 1})]

    assert messages(*asked, result("c1", "a.py"), text("t2", "Done"), end()) == [
        {"role": "user", "content": "Run ls"},
        {
            "role": "assistant",
            "content": "Sure",
            "tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": 1}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
        {"role": "assistant", "content": "Done"},
    ]


def test_calls_of_one_turn_are_one_message_with_the_results_behind_it() -> None:
    shown_messages = messages(
        start(), call("c1"), result("c1", "a"), call("c2"), result("c2", {"n": 1}), end()
    )

    assert [message["role"] for message in shown_messages] == ["assistant", "tool", "tool"]
    assert shown_messages[0]["content"] is None
    assert [message["content"] for message in shown_messages[1:]] == ["a", '{"n":1}']


def test_a_call_without_a_result_has_no_tool_message() -> None:
    assert [message["role"] for message in messages(start(), call("c1"))] == ["assistant"]


def test_reasoning_errors_and_branches_are_no_messages() -> None:
    extra = [wire_event("reasoning", id="x", content="Hmm"), wire_event("error", message="boom")]
    shown_messages = messages(*SUBAGENT[:2], *extra, *SUBAGENT[2:])

    assert [message["content"] for message in shown_messages] == ["Searching", '["auth.ts"]', "Done"]


def test_the_model_reads_what_is_meant_for_it_also_that_it_was_refused() -> None:
    assert messages(*STEPS)[2:4] == [
        {"role": "tool", "tool_call_id": "tc-2", "content": '{"status":"denied","reason":"no"}'},
        {"role": "tool", "tool_call_id": "r1/tc-1", "content": "a.py"},
    ]


def test_what_a_model_says_after_its_program_has_run_is_another_turn() -> None:
    ran = [
        wire_event("repl_input", id="p1", code="1"),
        wire_event("repl_output", id="p1", stdout="1", done=True),
    ]

    assert messages(start(), text("t1", "Let me see."), *ran, text("t2", "It is 1."), end()) == [
        {"role": "assistant", "content": "Let me see."},
        {"role": "assistant", "content": "It is 1."},
    ]
