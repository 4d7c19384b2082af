"""The tools of Codex as its questions and items name them, and what they do."""

from __future__ import annotations

from harness.approvals.tool_table import CallInput, ToolUse, by_prefix, edits_by
from harness.contracts.toolset import (
    KnownTool,
    Toolset,
    conversing,
    fetching,
    no_operation,
    running,
    starting,
)
from harness.formats.fields import items_of, record_of


def _changed_files(arguments: CallInput) -> list[str] | None:
    """Every file of a change, and where one is moved to; None where one is not named."""
    paths: list[object] = []
    for change in map(record_of, items_of(arguments.get("changes"))):
        paths.append(change.get("path"))
        if moved := record_of(change.get("kind")).get("move_path"):
            paths.append(moved)
    texts = [path for path in paths if isinstance(path, str) and path]
    return texts if texts and len(texts) == len(paths) else None


CODEX = Toolset(
    tools={
        "shell": running("command"),
        "file_change": KnownTool(no_operation.operations, edits_by(_changed_files)),
        # More rights than its sandbox gives.
        "request_permissions": KnownTool(no_operation.operations, ToolUse(category="execute")),
        "request_user_input": conversing,
        "web_search": fetching,
        **dict.fromkeys(("close_agent", "wait"), conversing),
        **dict.fromkeys(("resume_agent", "send_input", "spawn_agent"), starting),
    },
    shells=frozenset({"shell"}),
    server_of=by_prefix("mcp__"),
    shell_memory="fresh",
)
