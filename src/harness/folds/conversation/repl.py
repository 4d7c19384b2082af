"""A graph as turns of models that work by writing programs: the reasoning, program and output of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from harness.folds.conversation.entries import Node, is_part
from harness.folds.conversation.graph import Graph
from harness.folds.run_events import events as wire
from harness.folds.run_events.events import TotalUsage, WireEvent

_Phase: TypeAlias = Literal["idle", "reasoning", "code", "executing", "done", "error", "permission"]


class ReplResult(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    stdout: str
    error: str = ""
    duration_ms: int | None = None
    truncated: bool = False
    done: bool


class ReplTurn(msgspec.Struct, kw_only=True, rename="camel"):
    iteration: int
    phase: _Phase = "idle"
    reasoning: str | None = None
    code: str | None = None
    stdout: str = ""
    stderr: str = ""
    output: ReplResult | None = None
    error_message: str | None = None
    child_agents: list[ReplAgent] = []
    usage: TotalUsage | None = None


class ReplAgent(msgspec.Struct, kw_only=True, rename="camel"):
    run_id: str
    parent_id: str = ""
    status: Literal["running", "done", "error", "max_iterations"] = "running"
    depth: int = 0
    max_iterations: int | None = None
    turns: list[ReplTurn] = []
    final_answer: str | None = None
    total_usage: TotalUsage | None = None


def project_repl(graph: Graph) -> list[ReplAgent]:
    """The agents without a parent; each other agent is in the turn that started it."""
    nodes, runs = graph.nodes, graph.last_node_by_run_id
    builders: dict[str, _TurnBuilder] = {}
    turns: dict[str, ReplTurn] = {}
    children: list[tuple[str, ReplAgent]] = []
    for node in nodes.values():
        event = node.event
        has_whole = is_part(node, nodes, runs)
        run_id = event.parent_id if has_whole else event.run_id
        builder = builders.get(run_id)
        if builder is None:
            parent_id = "" if has_whole else event.parent_id
            builder = builders[run_id] = _TurnBuilder(run_id, parent_id)
            children.append((parent_id, builder.agent))
        turns[node.id] = builder.take(node)
    roots = [agent for parent_id, agent in children if not _give_to(turns.get(parent_id), agent)]
    for builder in builders.values():
        builder.complete()
    return roots


def _give_to(turn: ReplTurn | None, agent: ReplAgent) -> bool:
    if turn is not None:
        turn.child_agents.append(agent)
    return turn is not None


class _TurnBuilder:
    """Builds turns from the nodes of one run."""

    def __init__(self, run_id: str, parent_id: str) -> None:
        self.agent = ReplAgent(run_id=run_id, parent_id=parent_id)
        self._turn = ReplTurn(iteration=0)
        self._printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._thoughts: list[str] = []
        self._answer: list[str] = []
        self._is_answering = False
        self._has_failed = False

    def take(self, node: Node) -> ReplTurn:
        """The turn that the node belongs to."""
        handler = _HANDLERS.get(type(node.event))
        if handler is not None:
            handler(self, node.event)
        return self._turn

    def complete(self) -> None:
        self._close_turn()
        if self._answer:
            self.agent.final_answer = "".join(self._answer)

    def say(self, event: wire.TextEvent | wire.ReasoningEvent) -> None:
        if self._is_answering:
            self._answer.append(event.content)
            return
        if self._turn.output is not None or self._turn.error_message is not None:
            self._next_turn()
        self._turn.phase = "reasoning"
        self._thoughts.append(event.content)

    def run(self, event: wire.ReplInputEvent) -> None:
        if self._turn.code is not None:
            self._next_turn()
        self._is_answering = False
        self._turn.code = event.code
        self._turn.phase = "code"
        if event.iteration is not None:
            self._turn.iteration = event.iteration

    def print(self, event: wire.ReplProgressEvent) -> None:
        self._turn.phase = "executing"
        self._printed[event.stream].append(event.chunk)

    def give(self, event: wire.ReplOutputEvent) -> None:
        self._turn.output = ReplResult(
            stdout=event.stdout,
            error=event.error,
            duration_ms=event.duration_ms,
            truncated=event.truncated,
            done=event.done,
        )
        self._turn.phase = "error" if event.error else "done"
        self._is_answering = event.done

    def fail(self, event: wire.RunErrorEvent) -> None:
        self._has_failed = True
        self._turn.phase = "error"
        self._turn.error_message = event.message

    def ask(self, event: wire.RelayEvent) -> None:
        del event
        self._turn.phase = "permission"

    def use(self, event: wire.UsageEvent) -> None:
        before = self._turn.usage or TotalUsage(0, 0)
        self._turn.usage = TotalUsage(
            before.input_tokens + event.input_tokens, before.output_tokens + event.output_tokens
        )

    def begin(self, event: wire.HarnessStart) -> None:
        self.agent.depth = event.depth
        self.agent.max_iterations = event.max_iterations

    def end(self, event: wire.HarnessEnd) -> None:
        if event.reason == "max_iterations":
            self.agent.status = "max_iterations"
        else:
            is_error = self._has_failed and event.reason != "final"
            self.agent.status = "error" if is_error else "done"
        self.agent.total_usage = event.total_usage

    def _next_turn(self) -> None:
        self._close_turn()
        self._turn = ReplTurn(iteration=len(self.agent.turns))
        self._printed = {"stdout": [], "stderr": []}
        self._thoughts = []

    def _close_turn(self) -> None:
        turn = self._turn
        if self._thoughts:
            turn.reasoning = "".join(self._thoughts)
        turn.stdout = "".join(self._printed["stdout"])
        turn.stderr = "".join(self._printed["stderr"])
        if turn.phase != "idle" or turn.child_agents:
            self.agent.turns.append(turn)


_HANDLERS: Mapping[type[WireEvent], Callable[[_TurnBuilder, Any], None]] = {
    wire.HarnessStart: _TurnBuilder.begin,
    wire.HarnessEnd: _TurnBuilder.end,
    wire.TextEvent: _TurnBuilder.say,
    wire.ReasoningEvent: _TurnBuilder.say,
    wire.ReplInputEvent: _TurnBuilder.run,
    wire.ReplProgressEvent: _TurnBuilder.print,
    wire.ReplOutputEvent: _TurnBuilder.give,
    wire.RunErrorEvent: _TurnBuilder.fail,
    wire.RelayEvent: _TurnBuilder.ask,
    wire.UsageEvent: _TurnBuilder.use,
}
