"""A graph as a thread: messages and calls in order, with branches below them.

Rules
1. From a node the thread continues with the next node of the same run; other runs are branches. At the end of
   the run the first other run is the continuation, except after a tool call, whose result is still to come.
2. A run that is a part of another (the call of a model) is shown inline, not as a branch.
3. Consecutive texts of the same run are joined, and so is consecutive reasoning. Results and progress belong to
   their call. A call that a model asked for is shown only as long as it is not carried out.
4. Starts, ends and usage are not shown, but branches from there are, in the same position. A run that has only
   begun is `pending`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from harness.folds.conversation.entries import Node, is_part
from harness.folds.conversation.graph import Graph
from harness.folds.run_events import events as wire
from harness.folds.run_events.events import WireEvent, context_of
from harness.formatting.json_text import compact

_Status: TypeAlias = Literal["streaming", "complete", "error"]


class _Content(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel", tag_field="kind"):
    pass


class TextContent(_Content, kw_only=True, tag="text"):
    text: str


class ReasoningContent(_Content, kw_only=True, tag="reasoning"):
    text: str


class CallContent(_Content, kw_only=True, tag="tool_call"):
    name: str
    input: Any
    output: Any = msgspec.UNSET
    progress: Any = msgspec.UNSET
    """All progress of the call, joined when it is text."""


class ReplContent(_Content, kw_only=True, tag="repl"):
    """A program that a model wrote."""

    code: str
    stdout: str = ""
    error: str = ""


class UserContent(_Content, kw_only=True, tag="user"):
    content: Any


class ErrorContent(_Content, kw_only=True, tag="error"):
    message: str


class RelayContent(_Content, kw_only=True, tag="relay"):
    relay_kind: str
    tool_call_id: str
    tool: str
    params: Any


class PendingContent(_Content, kw_only=True, tag="pending"):
    pass


Content: TypeAlias = (
    TextContent
    | ReasoningContent
    | CallContent
    | ReplContent
    | UserContent
    | ErrorContent
    | RelayContent
    | PendingContent
)


class ViewNode(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    run_id: str
    role: Literal["user", "assistant"]
    content: Content
    status: _Status
    branches: list[list[ViewNode]]


def project_thread(graph: Graph) -> list[ViewNode]:
    return _Projection(graph).thread()


def run_status(graph: Graph, run_id: str) -> _Status:
    """A part of a run without a start and an end has the status of the run."""
    nodes, last = graph.nodes, graph.last_node_by_run_id
    run_ids: set[str] = set()
    while run_id not in run_ids:
        run_ids.add(run_id)
        end = nodes.get(f"{run_id}:harness_end")
        if f"{run_id}:error" in nodes and not _is_final(end):
            return "error"
        if end is not None:
            return "complete"
        if f"{run_id}:harness_start" in nodes:
            return "streaming"
        if run_id not in last or not is_part(node := nodes[last[run_id]], nodes, last):
            break
        run_id = node.event.parent_id
    return "complete"


def _is_final(end: Node | None) -> bool:
    """Whether a run that works by writing programs has found its answer: earlier errors do not count then."""
    return end is not None and isinstance(end.event, wire.HarnessEnd) and end.event.reason == "final"


class _Ways(NamedTuple):
    """Where the thread continues from a node."""

    continuation: str | None
    parts: list[str]
    branches: list[str]


class _Projection:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes = dict(graph.nodes)
        self._edges = dict(graph.edges)
        self._runs = graph.last_node_by_run_id.keys()
        self._visited: set[str] = set()
        self._statuses: dict[str, _Status] = {}
        self._view_nodes: list[ViewNode] = []
        self._texts: dict[int, list[str]] = {}
        """Texts of views made from several nodes, by the `id` of the view: joined once, at the end."""
        self._calls: dict[tuple[str, str], CallContent | ReplContent] = {}
        self._progress: dict[tuple[str, str], list[Any]] = {}

    def thread(self) -> list[ViewNode]:
        thread: list[ViewNode] = []
        led_to = {target for targets in self._edges.values() for target in targets}
        for node_id in self._nodes:
            if node_id not in led_to:
                self._walk(node_id, thread)
        for node_id in self._nodes:  # runs that are each other's parents have no root
            self._walk(node_id, thread)
        self._complete()
        return thread

    def _walk(self, start: str, thread: list[ViewNode]) -> None:
        """Without recursion: what is shown inline is pushed onto the stack after what follows it."""
        stack = [(start, thread)]
        while stack:
            node_id, out = stack.pop()
            if node_id in self._visited:
                continue
            self._visited.add(node_id)
            node = self._nodes[node_id]
            ways = self._ways(node)
            view = self._show(node, ways, out)
            if ways.continuation is not None:
                stack.append((ways.continuation, out))
            in_place = ways.parts if view is not None else [*ways.parts, *ways.branches]
            stack.extend((target, out) for target in reversed(in_place))
            if view is not None:
                for target in ways.branches:
                    branch: list[ViewNode] = []
                    view.branches.append(branch)
                    stack.append((target, branch))

    def _ways(self, node: Node) -> _Ways:
        continuation: str | None = None
        parts: list[str] = []
        branches: list[str] = []
        for target_id in self._edges.get(node.id, ()):
            target = self._nodes[target_id]
            if target.run_id == node.run_id:
                continuation = continuation or target_id
            elif self._whole_of(target) == node.run_id:
                parts.append(target_id)
            else:
                branches.append(target_id)
        if (
            continuation is None
            and branches
            and not isinstance(node.event, wire.ToolCallEvent | wire.ReplInputEvent)
        ):
            continuation = branches.pop(0)
        return _Ways(continuation, parts, branches)

    def _whole_of(self, node: Node) -> str | None:
        """The run that the node's run is a part of, if it is one."""
        parent_id = node.event.parent_id
        return parent_id if is_part(node, self._nodes, self._runs) else None

    def _show(self, node: Node, ways: _Ways, out: list[ViewNode]) -> ViewNode | None:
        event = node.event
        if isinstance(event, wire.TextEvent | wire.ReasoningEvent):
            return self._show_text(node, event, out)
        if isinstance(event, wire.ToolCallEvent):
            return self._show_call(node, event, out)
        if isinstance(event, wire.ReplInputEvent):
            program = self._calls[event.run_id, event.id] = ReplContent(code=event.code)
            return self._add(node, program, out)
        if isinstance(event, wire.HarnessStart):
            is_alone = ways == (None, [], []) and self._status(event.run_id) == "streaming"
            return self._add(node, PendingContent(), out) if is_alone else None
        content = _CONTENTS.get(type(event))
        if content is not None:
            return self._add(node, content(event), out)
        self._attach(event)
        return None

    def _show_text(
        self, node: Node, event: wire.TextEvent | wire.ReasoningEvent, out: list[ViewNode]
    ) -> ViewNode | None:
        if not event.content:
            return None
        kind = TextContent if isinstance(event, wire.TextEvent) else ReasoningContent
        last = out[-1] if out else None
        if last is not None and last.run_id == event.run_id and type(last.content) is kind:
            self._texts.setdefault(id(last), [last.content.text]).append(event.content)
            return last
        return self._add(node, kind(text=event.content), out)

    def _show_call(self, node: Node, event: wire.ToolCallEvent, out: list[ViewNode]) -> ViewNode | None:
        whole = self._whole_of(node)
        carried_out = f"{whole}/{event.id}"
        if whole is not None and carried_out in self._nodes:
            return None
        content = CallContent(name=event.name, input=event.input)
        self._calls[event.run_id, event.id] = content
        if whole is not None:
            self._calls[whole, carried_out] = content  # a refusal is the result of a call that never started
        return self._add(node, content, out)

    def _add(self, node: Node, content: Content, out: list[ViewNode]) -> ViewNode:
        view = ViewNode(
            id=node.id,
            run_id=node.run_id,
            role="user" if isinstance(content, UserContent) else "assistant",
            content=content,
            status=self._status(node.run_id),
            branches=[],
        )
        self._view_nodes.append(view)
        out.append(view)
        return view

    def _attach(self, event: WireEvent) -> None:
        if isinstance(event, wire.ToolResultEvent):
            call = self._calls.get((event.run_id, event.id))
            if isinstance(call, CallContent):
                call.output = event.output
        elif isinstance(event, wire.ToolProgressEvent):
            self._progress.setdefault((event.run_id, event.tool_call_id), []).append(event.content)
        elif isinstance(event, wire.ReplOutputEvent):
            program = self._calls.get((event.run_id, event.id))
            if isinstance(program, ReplContent):
                program.stdout, program.error = event.stdout, event.error

    def _status(self, run_id: str) -> _Status:
        if run_id not in self._statuses:
            self._statuses[run_id] = run_status(self._graph, run_id)
        return self._statuses[run_id]

    def _complete(self) -> None:
        """Join the pieces, and drop empty branches."""
        for view in self._view_nodes:
            view.branches = [branch for branch in view.branches if branch]
            pieces = self._texts.get(id(view))
            if pieces is not None and isinstance(view.content, TextContent | ReasoningContent):
                view.content.text = "".join(pieces)
        for key, progress in self._progress.items():
            call = self._calls.get(key)
            if isinstance(call, CallContent):
                call.progress = (
                    "".join(progress) if all(isinstance(piece, str) for piece in progress) else progress
                )


def _relay(event: Any) -> RelayContent:
    return RelayContent(
        relay_kind=event.kind, tool_call_id=event.tool_call_id, tool=event.tool, params=event.params
    )


_CONTENTS: Mapping[type[WireEvent], Callable[[Any], Content]] = {
    wire.UserEvent: lambda event: UserContent(content=event.content),
    wire.RunErrorEvent: lambda event: ErrorContent(message=event.message),
    wire.RelayEvent: _relay,
}


# A graph as the messages to send to a model to continue from there. Branches are left out.


def project_messages(graph: Graph) -> list[dict[str, Any]]:
    """Each with a `role`: user, assistant (with `tool_calls` where there are any), or tool."""
    messages: list[dict[str, Any]] = []
    turn = _Turn()
    for view in project_thread(graph):
        content = view.content
        if isinstance(content, UserContent):
            messages += turn.take()
            messages.append({"role": "user", "content": content.content})
        elif isinstance(content, TextContent):
            if turn.calls:
                messages += turn.take()
            turn.texts.append(content.text)
        elif isinstance(content, CallContent):
            turn.add_call(view.id, content)
        elif isinstance(content, ReplContent):
            messages += turn.take()  # what the model says next follows these results
    return [*messages, *turn.take()]


class _Turn:
    """One answer of a model, and the results of its calls."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []

    def add_call(self, call_id: str, call: CallContent) -> None:
        self.calls.append({"id": call_id, "name": call.name, "arguments": call.input})
        if call.output is not msgspec.UNSET:
            self.outputs.append({"role": "tool", "tool_call_id": call_id, "content": _for_model(call.output)})

    def take(self) -> list[dict[str, Any]]:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.texts) or None}
        if self.calls:
            message["tool_calls"] = self.calls
        nodes = [message, *self.outputs] if self.texts or self.calls else []
        self.texts, self.calls, self.outputs = [], [], []
        return nodes


def _for_model(output: Any) -> str:
    output = context_of(output)
    return output if isinstance(output, str) else compact(output)
