"""Sub-agents described by files, ours and those of Claude Code and OpenCode, as they are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from harness.contracts.subagent import SubagentKind
from harness.native.additions.front_matter import Fields, Value, front_matter, text_of, words_of

LONGEST_DESCRIPTION = 1024
_MOST_STEPS = 200
_OURS = {
    **{
        name: (name,) for name in ("read", "write", "list", "glob", "grep", "fetch", "agent", "todo", "skill")
    },
    "edit": ("edit", "apply_patch"),
    "apply_patch": ("apply_patch",),
    "bash": ("bash", "bash_output"),
    "bash_output": ("bash_output",),
    "ls": ("list",),
    "multiedit": ("edit", "apply_patch"),
    "patch": ("apply_patch",),
    "bashoutput": ("bash_output",),
    "killshell": ("bash_output",),
    "webfetch": ("fetch",),
    "task": ("agent",),
    "todowrite": ("todo",),
    "todoread": ("todo",),
    "notebookedit": ("notebook_edit",),
    "notebook_edit": ("notebook_edit",),
    "askuserquestion": ("ask_user",),
    "ask_user": ("ask_user",),
}
"""What others call a tool, in small letters → ours."""
_READING = ("read", "list", "glob", "grep", "fetch", "skill")

EXPLORE = SubagentKind(
    name="explore",
    description="finds and reads what you name and answers in a few lines; changes nothing, and costs little",
    prompt=(
        "You look around in a folder for another agent, and change nothing. Search widely first, then read what matters. Answer "
        "in at most forty lines what was asked, with `path:line` for each finding, and say what you did not find."
    ),
    is_small=True,
    tools=_READING,
)


class AgentFile(NamedTuple):
    kind: SubagentKind | None
    notes: tuple[str, ...] = ()
    """What of the file does not count here."""


def read_agent(path: str, text: str) -> AgentFile:
    """None for a file that describes no sub-agent."""
    fields, body = front_matter(text)
    name = text_of(fields, "name") or os.path.splitext(os.path.basename(path))[0]
    description = " ".join(text_of(fields, "description").split())
    if not description or not body or text_of(fields, "mode") == "primary" or not _is_name(name):
        return AgentFile(None)
    tools, unknown = _tools(fields)
    steps = text_of(fields, "maxTurns", "steps", "maxSteps")
    kind = SubagentKind(
        name=name,
        description=description[:LONGEST_DESCRIPTION],
        prompt=body,
        model="" if (model := text_of(fields, "model")) == "inherit" else model,
        tools=tools,
        without=_without(fields),
        most_steps=min(int(steps), _MOST_STEPS) if steps.isdecimal() and int(steps) else None,
        origin=path,
    )
    note = f"{path}: these tools are not known, or not as they are limited there: {', '.join(unknown)}"
    return AgentFile(kind, (note,) if unknown else ())


def _is_name(name: str) -> bool:
    return name.replace("-", "").replace("_", "").replace(".", "").isalnum() and len(name) <= 64


def _tools(fields: Fields) -> tuple[tuple[str, ...] | None, list[str]]:
    """Those that it has, None for all; and names that cannot be given to it."""
    value = fields.get("tools")
    if value is None or value in ("", "*"):
        return None, []
    if isinstance(value, dict):  # OpenCode: tool → whether it has it
        if value.get("*") != "false":
            return None, []
        value = [name for name, has in value.items() if has == "true"]
    names: dict[str, None] = {}
    unknown = []
    for word in words_of(value):
        ours = _named(word)
        names.update(dict.fromkeys(ours))
        unknown += [] if ours else [word]
    return tuple(names), unknown


def _without(fields: Fields) -> tuple[str, ...]:
    refused = words_of(fields.get("disallowedTools"))
    for name in ("tools", "permission"):
        refused += [
            tool for tool, note in _pairs(fields.get(name)) if note in ("false", "deny") and tool != "*"
        ]
    return tuple(_all_named(refused))


def _pairs(value: Value | None) -> Iterable[tuple[str, str]]:
    return value.items() if isinstance(value, dict) else ()


def _all_named(words: Iterable[str]) -> dict[str, None]:
    # What is refused in part (`Bash(rm *)`) is refused: less than it says is never given.
    return {tool: None for word in words for tool in _named(word.partition("(")[0])}


def _named(word: str) -> tuple[str, ...]:
    """Empty for one that is not known, and for one with conditions: without them it would give more than it says."""
    if word.startswith("mcp__"):
        return (word.removeprefix("mcp__"),)
    return _OURS.get(word.lower(), ())
