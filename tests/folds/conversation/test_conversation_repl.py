"""A graph read as turns of a model that works by writing programs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.folds.conversation.repl import ReplAgent, project_repl
from harness.folds.run_events.events import AnyWireEvent
from wire_events import call, end, graph_after, start, text, wire_event

RUN = [
    start(maxIterations=5),
    wire_event("reasoning", id="x", content="Hm. "),
    text("t1", "Look."),
    wire_event("usage", inputTokens=10, outputTokens=2),
    wire_event("repl_input", id="p1", code="print(1)", iteration=0),
    wire_event("repl_progress", id="p1:1", chunk="1\n", stream="stdout"),
    wire_event("relay", kind="permission", id="q", toolCallId="p1", tool="exec", params={"command": "ls"}),
    wire_event("repl_progress", id="p1:2", chunk="[exec] pid=1\n", stream="stderr"),
    wire_event(
        "repl_output", id="p1", stdout="1\n", error="NameError", done=False, iteration=0, durationMs=5
    ),
    text("t2", "Again."),
    wire_event("repl_input", id="p2", code="FINAL(1)", iteration=1),
    wire_event("repl_output", id="p2", stdout="", done=True, iteration=1),
    text("t3", "The answer "),
    text("t3", "is 1."),
    end(reason="final", iterations=2, totalUsage={"inputTokens": 20, "outputTokens": 4}),
]


def agents(*events: AnyWireEvent) -> list[ReplAgent]:
    return project_repl(graph_after(*events))


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def test_nothing_has_no_agents() -> None:
    assert agents() == []


def test_each_program_is_a_turn_and_what_follows_the_last_is_the_answer() -> None:
    [agent] = agents(*RUN)

    assert (agent.status, agent.final_answer, agent.max_iterations) == ("done", "The answer is 1.", 5)
    assert plain(agent.total_usage) == {"inputTokens": 20, "outputTokens": 4}
    assert plain(agent.turns) == [
        {
            "iteration": 0,
            "phase": "error",
            "reasoning": "Hm. Look.",
            "code": "print(1)",
            "stdout": "1\n",
            "stderr": "[exec] pid=1\n",
            "output": {"stdout": "1\n", "error": "NameError", "durationMs": 5, "done": False},
            "errorMessage": None,
            "childAgents": [],
            "usage": {"inputTokens": 10, "outputTokens": 2},
        },
        {
            "iteration": 1,
            "phase": "done",
            "reasoning": "Again.",
            "code": "FINAL(1)",
            "stdout": "",
            "stderr": "",
            "output": {"stdout": "", "done": True},
            "errorMessage": None,
            "childAgents": [],
            "usage": None,
        },
    ]


@pytest.mark.parametrize(
    ("count", "phases"),
    [
        (1, []),
        (2, ["reasoning"]),
        (5, ["code"]),
        (6, ["executing"]),
        (7, ["permission"]),
        (8, ["executing"]),
        (9, ["error"]),
        (10, ["error", "reasoning"]),
        (12, ["error", "done"]),
    ],
)
def test_a_turn_is_in_the_phase_that_its_last_event_says(count: int, phases: list[str]) -> None:
    [agent] = agents(*RUN[:count])

    assert [turn.phase for turn in agent.turns] == phases
    assert agent.status == "running"


def test_an_answer_without_a_program_is_a_turn_that_failed() -> None:
    [agent] = agents(
        start(), text("t1", "No code."), wire_event("error", message="one block"), text("t2", "Oh.")
    )

    assert [(turn.phase, turn.reasoning, turn.error_message) for turn in agent.turns] == [
        ("error", "No code.", "one block"),
        ("reasoning", "Oh.", None),
    ]


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ([end(reason="max_iterations")], "max_iterations"),
        ([wire_event("error", message="boom"), end()], "error"),
        ([wire_event("error", message="boom"), end(reason="final")], "done"),
        ([end()], "done"),
        ([], "running"),
    ],
)
def test_an_agent_has_ended_as_its_end_says(ending: list[AnyWireEvent], status: str) -> None:
    assert agents(start(), *ending)[0].status == status


def test_children_are_in_the_turn_that_asked_for_them() -> None:
    kid = [
        start("kid", parentId="p2", depth=1),
        wire_event("repl_input", "kid", parentId="p2", id="k1", code="FINAL(2)"),
        wire_event("repl_output", "kid", parentId="p2", id="k1", stdout="", done=True),
        text("k2", "two", "kid", parentId="p2"),
        end("kid", parentId="p2", reason="final"),
    ]
    [agent] = agents(*RUN[:11], *kid, *RUN[11:])

    assert [len(turn.child_agents) for turn in agent.turns] == [0, 1]
    [child] = agent.turns[1].child_agents
    assert (child.run_id, child.parent_id, child.depth, child.status) == ("kid", "p2", 1, "done")
    assert child.final_answer == "two"


def test_calls_of_a_model_belong_to_the_run_that_made_them() -> None:
    [agent] = agents(
        start(), text("t1", "Thinking.", "s1", parentId="r1"), call("c1"), start("r2", parentId="c1")
    )

    assert [turn.reasoning for turn in agent.turns] == ["Thinking."]
    assert [child.run_id for child in agent.turns[0].child_agents] == ["r2"]


def test_a_child_is_kept_also_when_nothing_else_is_known_of_its_turn() -> None:
    [agent] = agents(start(), call("c1"), start("r2", parentId="c1"))

    assert [[child.run_id for child in turn.child_agents] for turn in agent.turns] == [["r2"]]
