"""The tools of Kimi Code. Results are text: whether a call succeeded is read from its words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from harness.events.operation import Operation, Read, Spawn
from harness.sources.formats.fields import text_of
from harness.sources.formats.toolset import (
    ExitStatus,
    Input,
    PendingCall,
    ToolMapping,
    Toolset,
    fetching,
    no_operation,
    reading,
    running,
    searching,
    spawning,
    tracking_tasks,
    using_skill,
    writing,
)

SHELLS = frozenset({"Bash", "Shell"})
SPAWNER = "Agent"
SWARM = "AgentSwarm"
TODO_LISTS = frozenset({"TodoList", "SetTodoList"})

_EXIT_CODE = re.compile(r"(?:\A|\n)Command failed with exit code: (\d{1,9})\.?\s*\Z")
_FAILED_COMMAND = re.compile(r"(?:\A|\n)(?:Command killed by timeout \(.*\)|Interrupted by user)\s*\Z")
_FAILURE_WORDS = re.compile(r"Command (?:failed with exit code|killed by timeout)|Interrupted by user")
_TRAILER_LENGTH = 400
_REFUSED = re.compile(
    r"Invalid args for tool \"|Tool \"[^\"\n]*\" not found|Session closed\s*$|Aborted before command started"
    r"|AgentSwarm must be the only tool call"
)
"""How any tool answers that was not even begun, or was cut off."""
_NUMBERED_LINE = re.compile(r"^ *(\d{1,9})\t", re.MULTILINE)
_FIELD = re.compile(r"^(agent_id|actual_subagent_type|status): *(\S+)", re.MULTILINE)
_SWARM_MEMBER = re.compile(r"<subagent ([^>]*)>(.*?)</subagent>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_SUMMARY = "\n[summary]\n"
_RESUME_HINT = "\n\nresume_hint: "

_WORDS: dict[str, tuple[str, str]] = {
    "Edit": (r"Replaced \d", r"old_string |Failed |No |\"[^\"\n]*\" (?:does not exist|is not)"),
    "FetchURL": ("", r"Failed to fetch|.*(?:network error|HTTP [45])"),
    "Glob": (
        "",
        r"ripgrep \(rg\) is not available|Glob timed out|Failed |\"[^\"\n]*\" (?:does not exist|is not)",
    ),
    "Grep": (
        "",
        r"ripgrep \(rg\) is not available|Search timed out|Failed |\"[^\"\n]*\" (?:does not exist|is not)",
    ),
    "Read": (r" *\d+\t", r"\"[^\"\n]*\" (?:does not exist|is )|Failed "),
    "Skill": (r"Skill \"[^\"]*\" loaded", r"Skill \"[^\"]*\" (?:not found|is )"),
    "TodoList": (r"Todo list", ""),
    "Write": (r"(?:Wrote|Appended) \d", r"Failed "),
}
_PATTERNS = {
    name: tuple(re.compile(words) if words else None for words in pair) for name, pair in _WORDS.items()
}
"""Tool → how a success begins, and how a failure does."""

_TOOLS: dict[str, ToolMapping] = {
    **dict.fromkeys(SHELLS, running("command")),
    "Read": reading("path", start="line_offset", count="n_lines"),
    "ReadFile": reading("path", start="line_offset", count="n_lines"),
    "ReadMediaFile": reading("path"),
    "Write": writing("path"),
    "WriteFile": writing("path"),
    "Edit": writing("path", change="update"),
    "StrReplaceFile": writing("path", change="update"),
    "Grep": searching("pattern"),
    "Glob": searching("pattern", paths=("path", "directory")),
    "Skill": using_skill("skill"),
    SPAWNER: spawning("description", "prompt", names=("subagent_type",)),
    "Task": spawning("description", "prompt", names=("subagent_name",)),
    SWARM: spawning("description", "prompt_template", names=("subagent_type",)),
    "FetchURL": fetching,
    "SearchWeb": fetching,
    **dict.fromkeys(TODO_LISTS, tracking_tasks),
} | dict.fromkeys(
    (
        "AskUserQuestion",
        "CreateGoal",
        "CronCreate",
        "CronDelete",
        "CronList",
        "EnterPlanMode",
        "ExitPlanMode",
        "GetGoal",
        "SetGoalBudget",
        "TaskList",
        "TaskOutput",
        "TaskStop",
        "Think",
        "UpdateGoal",
        "WaitFor",
    ),
    no_operation,
)


@dataclass(frozen=True, slots=True)
class SpawnedAgent:
    """An agent that a call spawned, from the text of its result."""

    id: str = ""
    name: str = ""
    status: str = ""
    text: str = ""
    item: str = ""


def exit_status_of(call: PendingCall, output: str) -> ExitStatus:
    """Reported as text only: of commands only that they failed, by the last line of what they give back."""
    if _REFUSED.match(output):
        return False, None
    if call.name not in SHELLS:
        return _success_of(call.name, output), None
    if _FAILURE_WORDS.search(text_of(call.input.get("command"))):
        return None, None  # the command itself may have written it
    trailer = output[-_TRAILER_LENGTH:]
    if (matched := _EXIT_CODE.search(trailer)) is not None:
        return False, int(matched[1])
    return (False, None) if _FAILED_COMMAND.search(trailer) else (None, None)


def _success_of(name: str, output: str) -> bool | None:
    if name == SPAWNER:
        return agent_of(output).status in ("completed", "running")
    if name == SWARM:
        return output.startswith("<agent_swarm_result>")
    good, bad = _PATTERNS.get(name, (None, None))
    if bad is not None and bad.match(output):
        return False
    return True if good is not None and good.match(output) else None


def agent_of(output: str) -> SpawnedAgent:
    stated: dict[str, str] = dict(reversed(_FIELD.findall(output)))
    summary = output.partition(_SUMMARY)[2].partition(_RESUME_HINT)[0]
    return SpawnedAgent(
        id=stated.get("agent_id", ""),
        name=stated.get("actual_subagent_type", ""),
        status=stated.get("status", ""),
        text=summary.strip(),
    )


def members_of_swarm(output: str) -> Iterator[SpawnedAgent]:
    for attributes, text in _SWARM_MEMBER.findall(output):
        stated = dict(_ATTRIBUTE.findall(attributes))
        yield SpawnedAgent(
            id=stated.get("agent_id", ""),
            status=stated.get("outcome", ""),
            text=text.strip(),
            item=stated.get("item", ""),
        )


def _read_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    lines = _NUMBERED_LINE.findall(output)
    asked = call.operation
    is_part = not {"line_offset", "n_lines"}.isdisjoint(call.input)
    if not lines or not is_part or not isinstance(asked, Read):
        return None
    return [replace(asked, start_line=int(lines[0]), end_line=int(lines[-1]))]


def _spawn_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    agent = agent_of(output)
    asked = call.operation
    if not isinstance(asked, Spawn) or not agent.id:
        return None
    return [replace(asked, agent_id=agent.id, name=asked.name or agent.name)]


def _swarm_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    asked = call.operation
    if not isinstance(asked, Spawn):
        return None
    return [
        replace(asked, agent_id=agent.id, success=agent.status == "completed")
        for agent in members_of_swarm(output)
    ] or None


KIMI = Toolset(
    tools=_TOOLS,
    results={"Read": _read_result, SPAWNER: _spawn_result, SWARM: _swarm_result},
)
"""Results are text without any flag: whether a call succeeded is read from the text, and None where it does not say."""
