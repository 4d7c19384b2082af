"""The tools of Gemini CLI and its relatives, also under the names of earlier versions."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from harness.approvals.tool_table import EXECUTES, NETWORK, by_prefix, edits, reads
from harness.contracts.toolset import (
    ExitStatus,
    Input,
    KnownTool,
    PendingCall,
    Toolset,
    asking_server,
    conversing,
    fetching,
    globbing,
    lines_of,
    listing,
    running,
    searching,
    spawning,
    starting,
    tracking_tasks,
    using_skill,
    writing,
)
from harness.events.operation import Fetch, Operation, Read, Search, Skill, Spawn, Write
from harness.formats.fields import absolute, count_of, first_text, items_of, text_of

APPROVED = frozenset({"replace", "run_shell_command", "save_memory", "web_fetch", "write_file"})
"""Tools that do not exist for a run that may not use them without asking."""

_PATHS = ("file_path", "absolute_path", "path")
_DIRECTORIES = ("dir_path", "path", "directory")
_GLOB = frozenset("*?[{")
_ADDRESS = re.compile(r"https?://[^\s\"'<>]+")
_SKILL_DIRECTORY = re.compile(r"Resources loaded from `([^`\n]+)`")
_COMMAND_EXIT = re.compile(r"Command exited with code: (\d{1,9})")
_COMMAND_FAILED = re.compile(
    r"Command (?:terminated by signal|failed|cancelled|was automatically cancelled)\b.*", re.DOTALL
)
_IN_BACKGROUND = "Command moved to background"
_SAYING = re.compile(r"Command (?:exited|terminated|failed|cancelled|was automatically)\b")


def read_file(arguments: Input, cwd: str) -> list[Operation] | None:
    """Lines from 1, first and last; once it was an offset from 0 and a number of lines."""
    path = absolute(first_text(arguments, *_PATHS), cwd)
    if not path:
        return None
    start, end = count_of(arguments.get("start_line")) or None, count_of(arguments.get("end_line")) or None
    offset, limit = count_of(arguments.get("offset")), count_of(arguments.get("limit")) or None
    if start is None and end is None and (offset or limit):
        start = (offset or 0) + 1
        end = start + limit - 1 if limit else None
    return [Read(path=path, start_line=start, end_line=end)]


def write_file(arguments: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(arguments, *_PATHS), cwd)
    start, end = lines_of(text_of(arguments.get("content")))
    return [Write(path=path, start_line=start, end_line=end)] if path else None


def _read_many(arguments: Input, cwd: str) -> list[Operation] | None:
    texts = [text for text in _texts(arguments.get("include", arguments.get("paths"))) if text]
    return [_read_or_search(text, cwd) for text in texts] or None


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [text_of(item) for item in items_of(value)]


def _read_or_search(text: str, cwd: str) -> Operation:
    return Search(query=text) if _GLOB & set(text) else Read(path=absolute(text, cwd))


def _fetch(arguments: Input, cwd: str) -> list[Operation] | None:
    """The addresses stand in the question about them."""
    prompt = text_of(arguments.get("prompt"))
    fetches: list[Operation] = [Fetch(url=url.rstrip(").,;")) for url in _ADDRESS.findall(prompt)]
    return fetching(arguments, cwd) or fetches or ([Fetch(query=prompt)] if prompt else None)


def _named_agent(name: str) -> KnownTool:
    """Agents that were tools of their own before there was one tool for all."""

    def mapping(arguments: Input, _cwd: str) -> list[Operation]:
        return [Spawn(name=name, task=first_text(arguments, "objective", "request", "question", "prompt"))]

    return KnownTool(mapping, EXECUTES)


def _skill_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    operation, match = call.operation, _SKILL_DIRECTORY.search(output)
    if match is None or not isinstance(operation, Skill):
        return None
    return [replace(operation, path=f"{match[1].rstrip('/')}/SKILL.md")]


_NAMED_AGENTS = ("codebase_investigator", "cli_help", "generalist", "browser_agent")

GEMINI = Toolset(
    tools={
        "read_file": KnownTool(read_file, reads(*_PATHS)),
        "read_many_files": KnownTool(_read_many, globbing("include", "paths", lists=False)),
        "write_file": KnownTool(write_file, edits(*_PATHS)),
        "replace": writing(*_PATHS, change="update"),
        "grep_search": searching("pattern", paths=_DIRECTORIES),
        "search_file_content": searching("pattern", paths=_DIRECTORIES),
        "glob": searching("pattern", paths=_DIRECTORIES, globs=("pattern",)),
        "list_directory": listing(*_DIRECTORIES),
        "run_shell_command": running("command", directory="dir_path"),
        "activate_skill": using_skill("name"),
        "invoke_agent": spawning("prompt", "objective", names=("agent_name",)),
        "delegate_to_agent": spawning("prompt", "objective", names=("agent_name",)),
        "web_fetch": KnownTool(_fetch, NETWORK),
        "google_web_search": fetching,
        "write_todos": tracking_tasks,
    }
    | {name: _named_agent(name) for name in _NAMED_AGENTS}
    | dict.fromkeys(
        (
            "tracker_add_dependency",
            "tracker_create_task",
            "tracker_get_task",
            "tracker_list_tasks",
            "tracker_update_task",
            "tracker_visualize",
            "update_topic",
        ),
        tracking_tasks,
    )
    | dict.fromkeys(
        (
            "ask_user",
            "complete_task",
            "enter_plan_mode",
            "exit_plan_mode",
            "get_internal_docs",
            "list_background_processes",
            "read_background_output",
        ),
        conversing,
    )
    # What it remembers is an instruction to every later session.
    | {"save_memory": starting}
    | dict.fromkeys(("list_mcp_resources", "read_mcp_resource"), asking_server),
    results={"activate_skill": _skill_result},
    shells=frozenset({"run_shell_command"}),
    spawners=frozenset({"invoke_agent", "delegate_to_agent", *_NAMED_AGENTS}),
    server_of=by_prefix("mcp_", "_"),
    shell_memory="fresh",
)


def exit_status_of(call: PendingCall, output: str | None) -> ExitStatus:
    """The exit status of a command: stated only of commands that wrote nothing.

    No output is not an empty one: some versions show none at all, whatever a command has written.
    """
    if output is None:
        return None, None
    if call.input.get("is_background") is True or output.startswith(_IN_BACKGROUND):
        return True, None
    if not output:
        return True, None
    if _SAYING.search(text_of(call.input.get("command"))):
        return None, None  # the command itself may have written it
    exited = _COMMAND_EXIT.fullmatch(output)
    if exited is not None:
        return False, int(exited[1])
    return (False, None) if _COMMAND_FAILED.fullmatch(output) else (None, None)
