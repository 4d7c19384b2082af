"""The conversation graph: its nodes and edges, and that a graph once made never changes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.folds.conversation.data import graph_data, graph_from, snapshot_of
from harness.folds.conversation.graph import Graph
from harness.folds.run_events.events import AnyWireEvent, RetractedEvent, TextEvent
from wire_events import call, end, graph_after, result, start, text, user, wire_event


def test_a_new_graph_is_empty() -> None:
    assert graph_data(Graph()) == {"nodes": {}, "edges": {}, "lastNodeByRunId": {}}


def test_each_text_is_a_node() -> None:
    assert graph_data(graph_after(text("t1", "Hello")))["nodes"] == {
        "t1": {"id": "t1", "runId": "r1", "kind": "text", "content": "Hello"}
    }


def test_chunks_of_one_stream_are_one_node_and_add_no_edge() -> None:
    graph = graph_after(start(), text("t1", "Hel"), wire_event("usage", inputTokens=1, outputTokens=2))
    grown = graph.reduce(text("t1", "lo"))

    assert graph_data(grown)["nodes"]["t1"]["content"] == "Hello"
    assert grown.edges == graph.edges
    assert grown.last_node_by_run_id == {"r1": "r1:usage:1"}


def test_what_follows_in_a_run_has_an_edge_from_what_came_before() -> None:
    graph = graph_after(text("t1", "a"), text("t2", "b"), text("t3", "c"))

    assert graph.edges == {"t1": ("t2",), "t2": ("t3",)}
    assert graph.last_node_by_run_id == {"r1": "t3"}


def test_there_is_no_edge_between_runs_that_have_nothing_to_do_with_each_other() -> None:
    assert graph_after(text("t1", "a"), text("t2", "b", "r2")).edges == {}


def test_the_first_event_of_a_run_hangs_on_its_parent() -> None:
    graph = graph_after(
        call("c1"), start("r2", parentId="c1"), text("t2", "b", "r2", parentId="c1"), end("r2", parentId="c1")
    )

    assert graph.edges == {
        "c1": ("r2:harness_start",),
        "r2:harness_start": ("t2",),
        "t2": ("r2:harness_end",),
    }


def test_a_result_has_the_id_of_its_call_and_more() -> None:
    nodes = graph_data(graph_after(call("c1"), result("c1", ["a.py"])))["nodes"]

    assert nodes["c1:result"] == {
        "id": "c1:result",
        "runId": "r1",
        "kind": "tool_result",
        "name": "search",
        "output": ["a.py"],
    }


def test_beginning_and_end_of_a_run_have_ids_that_can_be_known_before() -> None:
    assert list(graph_after(start(), end()).nodes) == ["r1:harness_start", "r1:harness_end"]


def test_being_connected_changes_nothing() -> None:
    graph = graph_after(text("t1", "a"))

    assert graph.reduce(msgspec.convert({"type": "connected", "sessionId": "s"}, AnyWireEvent)) is graph


def test_what_a_person_says_is_a_node() -> None:
    assert graph_data(graph_after(user("Hello")))["nodes"] == {
        "u1:user": {"id": "u1:user", "runId": "u1", "kind": "user", "content": "Hello"}
    }


def test_a_call_leads_to_what_it_spawned_and_to_its_result() -> None:
    graph = graph_after(call("c1"), start("r2", parentId="c1"), end("r2"), result("c1", "done"))

    assert graph.edges["c1"] == ("r2:harness_start", "c1:result")


def test_a_parent_that_is_a_run_is_the_last_node_of_that_run() -> None:
    graph = graph_after(
        start("agent"),
        text("t1", "a", "step-1", parentId="agent"),
        call("agent/c1", "agent"),
        result("agent/c1", "x", "agent"),
        text("t2", "b", "step-2", parentId="agent"),
    )

    assert graph.edges["agent:harness_start"] == ("t1", "agent/c1")
    assert graph.edges["agent/c1:result"] == ("t2",)


@pytest.mark.parametrize(
    ("late", "source"), [(call("p", "r1"), "p"), (start("p"), "p:harness_start")], ids=["node", "run"]
)
def test_a_parent_that_comes_later_is_joined_when_it_comes(late: AnyWireEvent, source: str) -> None:
    orphaned = graph_after(start("r2", parentId="p"), text("t2", "b", "r2", parentId="p"))

    assert orphaned.edges == {"r2:harness_start": ("t2",)}
    assert orphaned.reduce(late).edges == {"r2:harness_start": ("t2",), source: ("r2:harness_start",)}
    assert graph_from(snapshot_of(orphaned)).reduce(late) == orphaned.reduce(late)


def test_a_run_that_claims_to_be_its_own_parent_is_no_circle() -> None:
    graph = graph_after(start("r1", parentId="r1"), start("r2", parentId="c"), call("c", "r2"))

    assert graph.edges == {"r2:harness_start": ("c",)}


def test_usages_are_counted_over_the_whole_graph() -> None:
    used = {"inputTokens": 1, "outputTokens": 2}
    events = [
        wire_event("usage", "a", **used),
        wire_event("usage", "b", **used),
        wire_event("usage", "a", **used),
    ]

    assert list(graph_after(*events).nodes) == ["a:usage:1", "b:usage:2", "a:usage:3"]
    assert list(graph_after(*events).nodes) == ["a:usage:1", "b:usage:2", "a:usage:3"]


def test_a_run_may_fail_and_be_spoken_to_more_than_once() -> None:
    graph = graph_after(
        user("one", "r1"),
        wire_event("error", message="first"),
        user("two", "r1"),
        wire_event("error", message="second"),
        wire_event("error", "r2", message="other"),
    )

    assert list(graph.nodes) == ["r1:user", "r1:error", "r1:user:2", "r1:error:2", "r2:error"]
    assert graph.edges == {
        "r1:user": ("r1:error",),
        "r1:error": ("r1:user:2",),
        "r1:user:2": ("r1:error:2",),
    }


def test_a_node_that_is_emitted_again_has_the_new_content_in_the_same_place() -> None:
    graph = graph_after(call("c1", input=1), text("t1", "a"), call("c1", input=2), text("t2", "b"))

    assert graph_data(graph)["nodes"]["c1"]["input"] == 2
    assert graph.edges == {"c1": ("t1",), "t1": ("t2",)}


def test_an_id_that_is_taken_by_another_run_or_kind_is_made_unique() -> None:
    graph = graph_after(
        text("x", "a", "r1"),
        text("x", "b", "r2"),
        wire_event("reasoning", "r1", id="x", content="c"),
        text("x", "B", "r2"),
        text("x", "A", "r1"),
    )

    contents = {node_id: node["content"] for node_id, node in graph_data(graph)["nodes"].items()}
    assert contents == {"x": "aA", "r2:text:x": "bB", "r1:reasoning:x": "c"}


def test_text_that_does_not_stand_is_emptied() -> None:
    before = graph_after(text("t1", "wro"), text("t1", "ng"))
    after = before.reduce(RetractedEvent(run_id="r1", id="t1"))

    assert graph_data(before)["nodes"]["t1"]["content"] == "wrong"
    assert graph_data(after)["nodes"]["t1"]["content"] == ""
    assert graph_data(after.reduce(text("t1", "right")))["nodes"]["t1"]["content"] == "right"
    assert after.reduce(RetractedEvent(run_id="r1", id="unheard of")) is after


NODES: list[tuple[AnyWireEvent, dict[str, Any]]] = [
    (start(depth=1, maxIterations=9), {"agentId": "r1", "depth": 1, "maxIterations": 9}),
    (end(), {"agentId": "r1"}),
    (wire_event("reasoning", id="x", content="hm"), {"content": "hm"}),
    (call("x", input={"q": 1}), {"name": "search", "input": {"q": 1}}),
    (
        wire_event("tool_progress", id="x", toolCallId="c", name="bash", content="50%"),
        {"toolCallId": "c", "name": "bash", "content": "50%"},
    ),
    (wire_event("error", message="boom"), {"message": "boom"}),
    (
        wire_event("usage", inputTokens=0, outputTokens=2, cacheReadTokens=0),
        {"inputTokens": 0, "outputTokens": 2, "cacheReadTokens": 0},
    ),
    (
        wire_event("relay", kind="permission", id="x", toolCallId="c", tool="bash", params={"command": "ls"}),
        {"relayKind": "permission", "toolCallId": "c", "tool": "bash", "params": {"command": "ls"}},
    ),
    (wire_event("repl_input", id="x", code="1", iteration=0), {"code": "1", "iteration": 0}),
    (wire_event("repl_progress", id="x", chunk="1", stream="stderr"), {"chunk": "1", "stream": "stderr"}),
    (wire_event("repl_output", id="x", stdout="1", done=False), {"stdout": "1", "done": False}),
]


@pytest.mark.parametrize(("event", "carried"), NODES, ids=lambda value: str(type(value).__name__))
def test_a_node_carries_what_its_kind_has_to_say(event: AnyWireEvent, carried: dict[str, Any]) -> None:
    [node] = graph_data(graph_after(event))["nodes"].values()

    assert {name: value for name, value in node.items() if name not in {"id", "runId", "kind"}} == carried


def test_the_ids_of_programs_and_what_they_print_belong_together() -> None:
    graph = graph_after(
        wire_event("repl_input", id="p", code="1"),
        wire_event("repl_progress", id="p:1", chunk="1", stream="stdout"),
        wire_event("repl_output", id="p", stdout="1", done=True),
    )

    assert list(graph.nodes) == ["p", "p:1:progress", "p:output"]


def test_two_continuations_of_one_graph_do_not_know_of_each_other() -> None:
    common = graph_after(start(), text("t1", "a"))
    left = common.reduce(text("t1", "-left")).reduce(call("c1"))
    right = common.reduce(text("t1", "-right")).reduce(text("t2", "more"))

    assert graph_data(common)["nodes"]["t1"]["content"] == "a"
    assert graph_data(left)["nodes"]["t1"]["content"] == "a-left"
    assert graph_data(right)["nodes"]["t1"]["content"] == "a-right"
    assert (list(left.nodes)[2:], list(right.nodes)[2:]) == (["c1"], ["t2"])


def test_what_is_not_in_a_graph_yet_cannot_be_found_in_it() -> None:
    graph = graph_after(start())
    graph.reduce(text("t1", "a")).reduce(text("t2", "b", "r2"))

    assert "t1" not in graph.nodes
    for mapping, key in (
        (graph.nodes, "t1"),
        (graph.edges, "r1:harness_start"),
        (graph.last_node_by_run_id, "r2"),
    ):
        assert mapping.get(key) is None
        assert key not in mapping
    assert (len(graph.nodes), len(graph.edges), len(graph.last_node_by_run_id)) == (1, 0, 1)


# What the graph must be equal to: the rules written down once more, with copies instead of sharing.

Plain = dict[str, Any]
RUNS = ["r1", "r2", "c1", "t1"]


def plainly_reduced(graph: Plain, event: Plain) -> Plain:
    graph = json.loads(json.dumps(graph))
    nodes, edges, last = graph["nodes"], graph["edges"], graph["last"]
    kind, run_id = event["type"], event["runId"]
    node_id = event.get("id") or f"{run_id}:{kind}"
    if kind == "tool_result":
        node_id += ":result"
    elif kind == "usage":
        node_id += f":{1 + sum(node['type'] == 'usage' for node in nodes.values())}"
    elif kind in {"error", "user"}:
        number = 1 + sum((node["type"], node["runId"]) == (kind, run_id) for node in nodes.values())
        node_id += f":{number}" if number > 1 else ""
    if node_id in nodes and (nodes[node_id]["type"], nodes[node_id]["runId"]) != (kind, run_id):
        node_id = f"{run_id}:{kind}:{node_id}"
    if node_id in nodes:
        known = nodes[node_id]
        change = {"content": known["content"] + event["content"]} if kind == "text" else event
        nodes[node_id] = known | change | {"parentId": known["parentId"]}
        return graph
    nodes[node_id] = event
    if run_id in last:
        edges.setdefault(last[run_id], []).append(node_id)
    elif parent_id := event.get("parentId"):
        source = parent_id if parent_id in nodes and parent_id != node_id else last.get(parent_id)
        if source:
            edges.setdefault(source, []).append(node_id)
        else:
            graph["orphans"].append([parent_id, node_id])
    is_first = run_id not in last
    last[run_id] = node_id
    names = [node_id, run_id] if is_first else [node_id]
    for name in names:
        for parent_id, orphan in list(graph["orphans"]):
            if parent_id == name and nodes[orphan]["runId"] != run_id:
                graph["orphans"].remove([parent_id, orphan])
                edges.setdefault(node_id, []).append(orphan)
    return graph


def _events() -> st.SearchStrategy[Plain]:
    common = {
        "runId": st.sampled_from(RUNS),
        "parentId": st.sampled_from(["", "", *RUNS, "r1:harness_start", "c2"]),
    }
    kinds: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "text": {"id": st.sampled_from(["t1", "t2", "c1"]), "content": st.text(max_size=2)},
        "tool_call": {"id": st.sampled_from(["c1", "c2"]), "name": st.just("n"), "input": st.integers(0, 9)},
        "tool_result": {
            "id": st.sampled_from(["c1", "c2"]),
            "name": st.just("n"),
            "output": st.integers(0, 9),
        },
        "harness_start": {},
        "harness_end": {},
        "error": {"message": st.just("m")},
        "user": {"content": st.just("u")},
        "usage": {"inputTokens": st.just(1), "outputTokens": st.just(1)},
    }
    return st.one_of(
        [st.fixed_dictionaries({"type": st.just(kind), **common, **own}) for kind, own in kinds.items()]
    )


def _as_plain(graph: Graph) -> Plain:
    snapshot = snapshot_of(graph)
    return {
        "nodes": {node_id: {"parentId": "", **event} for node_id, event in snapshot["nodes"]},
        "edges": dict(snapshot["edges"]),
        "last": dict(graph.last_node_by_run_id),
    }


@settings(deadline=None, derandomize=True)
@given(st.lists(_events(), max_size=25), st.data())
def test_graphs_are_what_the_rules_say_and_stay_so(events: list[Plain], data: st.DataObject) -> None:
    grown: list[tuple[Graph, Plain]] = [(Graph(), {"nodes": {}, "edges": {}, "last": {}, "orphans": []})]
    for event in events:
        # Mostly onto the newest graph, now and then onto an older one, whose line then forks.
        onto = data.draw(st.integers(0, len(grown) - 1)) if data.draw(st.integers(0, 4)) == 0 else -1
        graph, plain = grown[onto]
        grown.append((graph.reduce(msgspec.convert(event, AnyWireEvent)), plainly_reduced(plain, event)))
    for graph, plain in grown:
        expected = {name: plain[name] for name in ("nodes", "edges", "last")}
        assert _as_plain(graph) == expected
        assert list(graph.nodes) == list(plain["nodes"])
        assert graph_from(json.loads(json.dumps(snapshot_of(graph)))) == graph


def test_graphs_of_one_line_share_what_they_have_in_common() -> None:
    graph = graph_after(start())
    for number in range(1000):
        graph = graph.reduce(TextEvent(run_id="r1", id=f"t{number % 10}", content="x"))
        graph = graph.reduce(TextEvent(run_id="r1", id=f"t{number % 10}", content="y"))

    assert graph._record is graph.reduce(text("t1", "z"))._record
    assert len(graph.nodes) == 11
