"""The conversation graph of a log: as data, as pictures, and what holds of it on every recording."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

import recorded_runs
from harness.contracts.model import Attachment
from harness.events import (
    Error,
    Event,
    Message,
    Relay,
    SessionStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolStart,
)
from harness.folds.conversation.data import graph_data
from harness.log import codec
from harness.log.hub import Hub
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.stage import ViewOptions
from harness.testing.golden import Case
from harness.views import graph as graph_view
from harness.views.graph import (
    Graph,
    GraphView,
    project_messages,
    project_repl,
    project_thread,
    run_status,
)
from own_runs import CONCURRENT_CALLS, RUN, SINGLE_CALL, begin, ended, of, result, started, step
from showing import shown

MOST_PREFIXES = 4


def fold(*events: Event) -> GraphView:
    view = GraphView()
    for event in events:
        view.feed(event)
    return view


def test_the_view_is_the_fold() -> None:
    assert isinstance(graph_view.open(ViewOptions()), GraphView)


def test_the_graph_of_a_run_with_a_single_call() -> None:
    found = json.loads(shown("graph", *SINGLE_CALL))

    assert [(node["id"], node["kind"]) for node in found["nodes"].values()] == [
        ("run:harness_start", "harness_start"),
        ("run:user", "user"),
        ("t1", "text"),
        ("tc-1", "tool_call"),
        ("step-1:usage:1", "usage"),
        ("ask-tc-1", "relay"),
        ("run/tc-1", "tool_call"),
        ("run/tc-1:result", "tool_result"),
        ("t2", "text"),
        ("step-2:usage:2", "usage"),
        ("run:harness_end", "harness_end"),
    ]
    assert found["nodes"]["t1"] == {"id": "t1", "runId": "step-1", "kind": "text", "content": "Let me look."}
    assert found["edges"] == {
        "run:harness_start": ["run:user"],
        "run:user": ["t1", "ask-tc-1"],
        "t1": ["tc-1"],
        "tc-1": ["step-1:usage:1"],
        "ask-tc-1": ["run/tc-1"],
        "run/tc-1": ["run/tc-1:result"],
        "run/tc-1:result": ["t2", "run:harness_end"],
        "t2": ["step-2:usage:2"],
    }
    assert found["lastNodeByRunId"] == {
        "run": "run:harness_end",
        "step-1": "step-1:usage:1",
        "step-2": "step-2:usage:2",
    }


def test_the_model_of_a_run_would_be_sent_what_it_was_sent() -> None:
    graph = fold(*CONCURRENT_CALLS).value
    calls = [("run/tc-1", {"command": "ls"}), ("run/tc-2", {"command": "pwd"})]

    assert project_messages(graph) == [
        {"role": "user", "content": "What is here?"},
        {
            "role": "assistant",
            "content": "Two looks.",
            "tool_calls": [{"id": call_id, "name": "bash", "arguments": given} for call_id, given in calls],
        },
        {"role": "tool", "tool_call_id": "run/tc-1", "content": "a.py\n"},
        {"role": "tool", "tool_call_id": "run/tc-2", "content": "/w\n"},
        {"role": "assistant", "content": "Done."},
    ]


def test_files_that_a_person_gives_are_parts_of_the_message() -> None:
    parts = [Attachment("image/png", "aGk="), Attachment("application/pdf", "aGk=", "a.pdf"), {"type": "x"}]

    assert project_messages(fold(Message(role="user", text="See", parts=parts)).value) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See"},
                {"type": "image", "mediaType": "image/png", "data": "aGk="},
                {"type": "document", "mediaType": "application/pdf", "data": "aGk="},
                {"type": "x"},
            ],
        }
    ]


def test_an_answer_that_was_cut_off_is_no_message() -> None:
    events = of(RUN, TextDelta(id="m", text="Hel"), TextRetracted(id="m"), TextDelta(id="m", text="Hello"))

    assert project_messages(fold(*events).value) == [{"role": "assistant", "content": "Hello"}]


def test_a_subagent_is_a_branch_of_the_call_that_began_it() -> None:
    child = of("kid", *begin("look", parent_id="run/tc-1"), *step(2, "found"), result("found"))
    ending = of(RUN, ended("tc-1", "found"), result("done"))
    graph = fold(*of(RUN, *begin("go"), started("tc-1", {})), *child, *ending).value
    [_, call, *_] = project_thread(graph)

    assert [[view.content.__struct_config__.tag for view in branch] for branch in call.branches] == [
        ["user", "text"]
    ]
    assert run_status(graph, "kid") == "complete"


# On every recording


def _events(case: Case) -> list[Event]:
    return [codec.decode(line) for line in case.expected.read_bytes().split(b"\n") if line]


def _logged(events: Sequence[Event]) -> list[Event]:
    store = MemoryStore()
    hub = Hub(store, "log", store.create(Metadata(session_id="log")), clock=lambda: 0)
    hub.source("0198-top").append(events)
    hub.close()
    return [event for batch in hub.batches() for event in batch]


def _check(graph: Graph) -> None:
    """What holds of any graph: edges lead on to nodes that came later, and no node of a run is alone."""
    place = {node_id: number for number, node_id in enumerate(graph.nodes)}
    led_to = [target for targets in graph.edges.values() for target in targets]
    firsts: dict[str, str] = {}
    lasts: dict[str, str] = {}
    for node in graph.nodes.values():
        firsts.setdefault(node.run_id, node.id)
        lasts[node.run_id] = node.id
    assert len(led_to) == len(set(led_to))
    assert all(place[source] < place[target] for source, targets in graph.edges.items() for target in targets)
    assert graph.last_node_by_run_id == lasts
    assert {*led_to, *firsts.values()} == set(place)


@recorded_runs.each(recorded_runs.CASES)
def test_every_beginning_of_a_recording_has_a_graph_that_stays_as_it_was(case: Case) -> None:
    events = _logged(_events(case))
    distance = max(1, len(events) // MOST_PREFIXES)
    view = GraphView()
    kept: list[tuple[Graph, Any, Any]] = []
    for number, event in enumerate(events):
        if number % distance == 0:
            _check(view.value)
            kept.append((view.value, graph_data(view.value), json.loads(json.dumps(view.snapshot()))))
        view.feed(event)

    _check(view.value)
    for number, (graph, data, snapshot) in enumerate(kept):
        assert graph_data(graph) == data
        project_thread(graph)
        project_repl(graph)
        resumed = GraphView()
        resumed.restore(snapshot)
        for event in events[number * distance :]:
            resumed.feed(event)
        assert resumed.value == view.value
        assert resumed.snapshot() == view.snapshot()


@recorded_runs.each(recorded_runs.CASES)
def test_the_graph_of_a_replayed_recording_is_the_one_that_was_seen_live(case: Case) -> None:
    live = _logged(_events(case))
    replayed = [codec.decode(line) for line in codec.encode_lines(live).split(b"\n") if line]

    assert fold(*replayed).value == fold(*live).value
    assert shown("graph", *replayed) == shown("graph", *live)


@recorded_runs.each(recorded_runs.CASES)
def test_the_thread_of_a_recording_has_all_that_was_said_and_done(case: Case) -> None:
    events = _logged(_events(case))
    graph = fold(*events).value
    seen: list[str] = []
    waiting = list(project_thread(graph))
    while waiting:
        view = waiting.pop()
        seen.append(view.id)
        waiting += [inner for branch in view.branches for inner in branch]

    shown_kinds = {"tool_call", "user", "error"}
    expected = {node.id for node in graph.nodes.values() if node.kind in shown_kinds}
    assert len(seen) == len(set(seen))
    assert expected <= set(seen)
    assert {view.status for view in project_thread(graph)} <= {"complete", "error"}


# Pictures

MERMAID_LINE = re.compile(
    r'  n\d+(\(\["|\[/"|\("|\{\{"|\[\["|\{"|>"|\[")(?:\w|[ .,:/=+…()\[\]\x27!?-]|#\d+;)*("\]\)|"/\]|"\)|"\}\}|"\]\]|"\}|"\])'
    r"|  n\d+ (-->|-\.->) n\d+"
)
DOT_LINE = re.compile(
    r'  n\d+ \[label="(?:[^"\\&]|\\["\\]|&amp;)*"(, shape=[a-z]+)?\];|  n\d+ -> n\d+( \[style=dashed\])?;'
)
HOSTILE = [
    'say "hi"',
    "a\nb\r\nc\x00\x1b[31m",
    "back\\slash\\",
    "end",
    "%%{init: {}}%%",
    "`markdown` **bold**",
    "#quot; &lt; &amp;",
    "<b onclick='x'>",
    "]})>--> n0;",
    "漢字 🤖 é\u0301 \u202eexe",
    "\ud83d",
    "x" * 5000,
]


def hostile_events(text: str) -> list[Event]:
    return [
        SessionStart(agent=text, run_id="r"),
        Message(role="user", text=text, run_id="r"),
        TextDelta(id=text, text=text, run_id="r"),
        ToolStart(call_id=text, tool_name=text, input={text: [text]}, run_id="r"),
        Relay(id="q", call_id=text, tool_name=text, input=text, run_id="r"),
        SessionStart(name=text, parent_id=text, run_id="kid"),
        ToolEnd(call_id=text, tool_name=text, success=True, output=text, run_id="r"),
        Error(message=text, run_id="r"),
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_an_agent_can_leave_its_box(text: str) -> None:
    mermaid = shown("mermaid", *hostile_events(text)).split("\n")
    dot = shown("dot", *hostile_events(text)).split("\n")

    assert (mermaid[0], mermaid[-1]) == ("flowchart TD", "")
    assert [line for line in mermaid[1:-1] if not MERMAID_LINE.fullmatch(line)] == []
    assert (dot[0], dot[-2:]) == ("digraph conversation {", ["}", ""])
    assert [line for line in dot[2:-2] if not DOT_LINE.fullmatch(line)] == []
    assert max(map(len, dot)) < 200


def test_a_picture_shows_what_happens_in_a_few_words() -> None:
    events = [
        *of("r", SessionStart(agent="claude"), ToolStart(call_id="c1", tool_name="Task", input={"a": "<b>"})),
        *of("kid", SessionStart(name="Explore", parent_id="c1")),
    ]

    assert shown("mermaid", *events) == (
        "flowchart TD\n"
        '  n0(["start: claude"])\n'
        '  n1{{"call: Task a: #60;b#62;"}}\n'
        '  n2(["start: Explore"])\n'
        "  n0 --> n1\n"
        "  n1 -.-> n2\n"
    )
    assert shown("dot", *events) == (
        "digraph conversation {\n"
        '  node [shape=box, fontname="sans-serif"];\n'
        '  n0 [label="start: claude", shape=oval];\n'
        '  n1 [label="call: Task a: <b>", shape=hexagon];\n'
        '  n2 [label="start: Explore", shape=oval];\n'
        "  n0 -> n1;\n"
        "  n1 -> n2 [style=dashed];\n"
        "}\n"
    )


def test_calls_of_a_model_are_drawn_as_part_of_their_run() -> None:
    assert "-.->" not in shown("mermaid", *SINGLE_CALL)
    assert "dashed" not in shown("dot", *SINGLE_CALL)


def test_nothing_is_an_empty_picture() -> None:
    assert shown("mermaid") == "flowchart TD\n"
    assert json.loads(shown("graph")) == {"nodes": {}, "edges": {}, "lastNodeByRunId": {}}
