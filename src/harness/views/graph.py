"""The conversation as a graph, as one JSON object after the end: `nodes`, `edges`, `lastNodeByRunId`.

A node is a block of the conversation (text, tool_call, tool_result, …), with its `id`, `runId` and
`kind`; edges lead from each node of a run to its next, and from a call to the sub-agent that it started.
As a picture it is the formats `mermaid` and `dot`.

In Python the fold's value is an immutable `Graph`, from which `project_thread`, `project_messages`,
`project_repl` and `run_status` read.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.events import Event
from harness.folds.conversation.data import GraphFold, graph_data
from harness.folds.conversation.graph import Graph
from harness.folds.conversation.repl import project_repl
from harness.folds.conversation.thread import project_messages, project_thread, run_status
from harness.formatting.json_text import pretty
from harness.stage import Fold, ViewOptions

__all__ = ["Graph", "GraphView", "open", "project_messages", "project_repl", "project_thread", "run_status"]


class GraphView(GraphFold):
    def finish(self) -> Sequence[bytes]:
        return (pretty(graph_data(self.value)).encode() + b"\n",)


def open(options: ViewOptions) -> Fold[Event, bytes]:
    del options
    return GraphView()
