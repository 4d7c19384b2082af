"""A graph as labelled boxes and arrows, from which every kind of picture is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from harness.folds.conversation.entries import Node, is_part
from harness.folds.conversation.graph import Graph
from harness.folds.run_events import events as wire
from harness.folds.run_events.events import WireEvent, context_of
from harness.formatting.amounts import tokens
from harness.formatting.calls import gist
from harness.formatting.escapes import single_line

_MOST_CHARACTERS = 60


class Box(NamedTuple):
    name: str
    """n0, n1 …: safe in any language."""
    kind: str
    label: str
    """One short line without control characters; otherwise any characters."""


class Arrow(NamedTuple):
    source: str
    target: str
    is_spawn: bool
    """Leads into another run."""


class Drawing(NamedTuple):
    boxes: list[Box]
    arrows: list[Arrow]


def drawing(graph: Graph, names: Mapping[str, str]) -> Drawing:
    """`names`: the name of each run, if known."""
    nodes, runs = dict(graph.nodes), graph.last_node_by_run_id
    boxes = {
        node.id: Box(f"n{number}", node.kind, _label(node, names))
        for number, node in enumerate(nodes.values())
    }
    arrows = [
        Arrow(boxes[source].name, boxes[target].name, _is_spawn(nodes[source], nodes[target], nodes, runs))
        for source, targets in graph.edges.items()
        for target in targets
    ]
    return Drawing(list(boxes.values()), arrows)


def _is_spawn(source: Node, target: Node, nodes: Mapping[str, Node], runs: Mapping[str, str]) -> bool:
    return source.run_id != target.run_id and not is_part(target, nodes, runs)


def _label(node: Node, names: Mapping[str, str]) -> str:
    if isinstance(node.event, wire.HarnessStart | wire.HarnessEnd):
        word = "start" if isinstance(node.event, wire.HarnessStart) else "end"
        return _short(word, names.get(node.run_id, ""))
    word, words_of = _WORDS[type(node.event)]
    return _short(word, words_of(node.event))


def _short(word: str, words: str) -> str:
    text = " ".join(single_line(words[: 4 * _MOST_CHARACTERS]).split())
    if len(text) > _MOST_CHARACTERS:
        text = text[:_MOST_CHARACTERS] + "…"
    return f"{word}: {text}" if text else word


def _of_call(event: Any) -> str:
    return f"{event.name} {gist(event.input)}" if event.input is not None else event.name


def _of_result(event: Any) -> str:
    return f"{event.name} {_gist(context_of(event.output))}"


def _gist(value: Any) -> str:
    return value if isinstance(value, str) else gist(value)


def _of_usage(event: Any) -> str:
    return f"{tokens(event.input_tokens)} in / {tokens(event.output_tokens)} out"


_WORDS: Mapping[type[WireEvent], tuple[str, Callable[[Any], str]]] = {
    wire.TextEvent: ("text", lambda event: event.content),
    wire.ReasoningEvent: ("reasoning", lambda event: event.content),
    wire.UserEvent: ("user", lambda event: _gist(event.content)),
    wire.ToolCallEvent: ("call", _of_call),
    wire.ToolResultEvent: ("result", _of_result),
    wire.ToolProgressEvent: ("progress", lambda event: _gist(event.content)),
    wire.UsageEvent: ("usage", _of_usage),
    wire.RunErrorEvent: ("error", lambda event: event.message),
    wire.RelayEvent: ("asks", lambda event: f"{event.tool} {gist(event.params)}"),
    wire.ReplInputEvent: ("runs", lambda event: event.code),
    wire.ReplProgressEvent: ("prints", lambda event: event.chunk),
    wire.ReplOutputEvent: ("gives", lambda event: event.error or event.stdout),
}
