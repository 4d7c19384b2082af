"""Harness: one immutable event log, many sources, many views.

sources ──▶ log ──▶ views ──▶ interfaces
(who writes)        (who reads)

import harness

for event in harness.start(harness.Request(agent="claude", prompt="fix the bug")):
    print(event)
"""

from __future__ import annotations

import harness.moved  # noqa: F401 - it finds old names of modules
from harness.version import __version__

# `typing` itself would cost more than the rest of this file. Annotated, because jedi (IPython, Jupyter) takes a plain
# False for granted and would complete none of these names.
TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from harness.clients.span_export import export_spans
    from harness.contracts.model import Ask, Model, ToolSpec, Turn, UserTurn
    from harness.contracts.request import GatewayOptions, Limits, Request
    from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput
    from harness.conversation.turns import StepContext
    from harness.errors import HarnessError, LogLocked, UsageError
    from harness.events import AnyEvent, Event
    from harness.folds.session.events import (
        Question,
        QuestionOption,
        SessionEvent,
        TextPart,
        ToolApprovalRequiredEvent,
        ToolSuspendedEvent,
    )
    from harness.log.store import Store
    from harness.log.stores.files import FileStore
    from harness.log.stores.memory import MemoryStore
    from harness.log.stores.open_store import open_store
    from harness.models.registry import open_model
    from harness.models.scripted import Scripted
    from harness.native.tools.function_tool import tool
    from harness.runs.run import Run, run, start
    from harness.session.config import (
        BackingAgent,
        CommandAgent,
        HeartbeatHandler,
        MemoryDefaults,
        Mode,
        RequestContext,
        Subagent,
    )
    from harness.session.goals import GoalContext, GoalOptions, Score
    from harness.session.guards import GuardContext, Guards, HookedCall, Hooks, Replace, Stop
    from harness.session.harness import Harness
    from harness.session.mcp_servers import McpServer
    from harness.session.memory.config import Memory
    from harness.session.outputs import Output
    from harness.session.run_outcomes import RunOutcome
    from harness.session.run_stream import RunStream
    from harness.session.session import Session
    from harness.session.signals import File
    from harness.session.sync_harness import SyncHarness
    from harness.session.workspaces import WorkspaceConfig

__all__ = [
    "AnyEvent",
    "Ask",
    "BackingAgent",
    "CommandAgent",
    "Event",
    "File",
    "FileStore",
    "GatewayOptions",
    "GoalContext",
    "GoalOptions",
    "GuardContext",
    "Guards",
    "Harness",
    "HarnessError",
    "HeartbeatHandler",
    "HookedCall",
    "Hooks",
    "Limits",
    "LogLocked",
    "McpServer",
    "Memory",
    "MemoryDefaults",
    "MemoryStore",
    "Mode",
    "Model",
    "Output",
    "Question",
    "QuestionOption",
    "Replace",
    "Request",
    "RequestContext",
    "Run",
    "RunOutcome",
    "RunStream",
    "Score",
    "Scripted",
    "Session",
    "SessionEvent",
    "StepContext",
    "Stop",
    "Store",
    "Subagent",
    "SyncHarness",
    "TextPart",
    "Tool",
    "ToolApprovalRequiredEvent",
    "ToolContext",
    "ToolFailure",
    "ToolOutput",
    "ToolSpec",
    "ToolSuspendedEvent",
    "Turn",
    "UsageError",
    "UserTurn",
    "WorkspaceConfig",
    "__version__",
    "export_spans",
    "open_model",
    "open_store",
    "run",
    "start",
    "tool",
]

_HOMES = {
    "AnyEvent": "harness.events",
    "Ask": "harness.contracts.model",
    "BackingAgent": "harness.session.config",
    "CommandAgent": "harness.session.config",
    "Event": "harness.events",
    "File": "harness.session.signals",
    "FileStore": "harness.log.stores.files",
    "GatewayOptions": "harness.contracts.request",
    "GoalContext": "harness.session.goals",
    "GoalOptions": "harness.session.goals",
    "GuardContext": "harness.session.guards",
    "Guards": "harness.session.guards",
    "Harness": "harness.session.harness",
    "HarnessError": "harness.errors",
    "HeartbeatHandler": "harness.session.config",
    "HookedCall": "harness.session.guards",
    "Hooks": "harness.session.guards",
    "Limits": "harness.contracts.request",
    "LogLocked": "harness.errors",
    "McpServer": "harness.session.mcp_servers",
    "Memory": "harness.session.memory.config",
    "MemoryDefaults": "harness.session.config",
    "MemoryStore": "harness.log.stores.memory",
    "Mode": "harness.session.config",
    "Model": "harness.contracts.model",
    "Output": "harness.session.outputs",
    "Question": "harness.folds.session.events",
    "QuestionOption": "harness.folds.session.events",
    "Replace": "harness.session.guards",
    "Request": "harness.contracts.request",
    "RequestContext": "harness.session.config",
    "Run": "harness.runs.run",
    "RunOutcome": "harness.session.run_outcomes",
    "RunStream": "harness.session.run_stream",
    "Score": "harness.session.goals",
    "Scripted": "harness.models.scripted",
    "Session": "harness.session.session",
    "SessionEvent": "harness.folds.session.events",
    "StepContext": "harness.conversation.turns",
    "Stop": "harness.session.guards",
    "Store": "harness.log.store",
    "Subagent": "harness.session.config",
    "SyncHarness": "harness.session.sync_harness",
    "TextPart": "harness.folds.session.events",
    "Tool": "harness.contracts.tool",
    "ToolApprovalRequiredEvent": "harness.folds.session.events",
    "ToolContext": "harness.contracts.tool",
    "ToolFailure": "harness.contracts.tool",
    "ToolOutput": "harness.contracts.tool",
    "ToolSpec": "harness.contracts.model",
    "ToolSuspendedEvent": "harness.folds.session.events",
    "Turn": "harness.contracts.model",
    "UsageError": "harness.errors",
    "UserTurn": "harness.contracts.model",
    "WorkspaceConfig": "harness.session.workspaces",
    "export_spans": "harness.clients.span_export",
    "open_model": "harness.models.registry",
    "open_store": "harness.log.stores.open_store",
    "run": "harness.runs.run",
    "start": "harness.runs.run",
    "tool": "harness.native.tools.function_tool",
}


if not TYPE_CHECKING:  # a type checker would take any name for one of these, also a misspelt one

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used: `import harness` itself costs next to nothing."""
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'harness' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """What a REPL or an editor completes: the public names."""
    return sorted(__all__)
