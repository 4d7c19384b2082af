"""The system prompt of `native`: how to work, facts about the place, and the instructions of user and project."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from harness.contracts.request import Request
from harness.native.loop.instructions import Instructions, in_words, repository_of
from harness.native.loop.working_rules import working_rules

_MOST_SHOWN = 60
_MOST_NEWS = 8_000
"""Characters."""
_LISTED = "In the directory: "
_CUT = "\n[the rest is left out]"


def own_prompt(
    cwd: str, tools: Collection[str], model: str, instructions: Sequence[Instructions], known_talk: str
) -> str:
    """How to work, the facts about the place, and the instructions of user and project. `tools`: their names."""
    parts = (working_rules(cwd, platform.system(), tools, model), known_talk, in_words(instructions))
    return "\n\n".join(part for part in parts if part)


def given_prompt(request: Request) -> str:
    """What was asked for instead of our own prompt, or after it."""
    return "\n\n".join(part for part in (request.system_prompt, request.append_system_prompt) if part)


def news(before: str, now: str) -> str:
    """What a prompt says that the one before does not, but for files at the top of the folder."""
    known_lines = set(before.split("\n"))
    lines = [line for line in now.split("\n") if line not in known_lines and not line.startswith(_LISTED)]
    if not lines:
        return ""
    text = "\n".join(lines)
    rest = _CUT if len(text) > _MOST_NEWS else ""
    return f"Since this conversation began, what you were told about the place has changed:\n{text[:_MOST_NEWS]}{rest}"


def facts(cwd: str, environ: Mapping[str, str], now_ms: int | None) -> str:
    """Only what is known already; no program is started to find out more."""
    lines = [f"System: {platform.system()} {platform.machine()}"]
    if now_ms is not None:
        lines.insert(0, f"Date: {time.strftime('%Y-%m-%d', time.localtime(now_ms / 1000))}")
    if shell := environ.get("SHELL"):
        lines.append(f"Shell: {os.path.basename(shell)}")
    if repository := repository_of(cwd):
        branch = _branch(repository)
        lines.append(f"Repository: {repository}" + (f", branch {branch}" if branch else ""))
    if names := _top(cwd):
        lines.append(f"{_LISTED}{names}")
    return "\n".join(lines)


def _branch(repository: str) -> str:
    try:
        with open(os.path.join(repository, ".git", "HEAD"), "rb") as file:
            head = file.read(1024).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else ""


def _top(cwd: str) -> str:
    try:
        with os.scandir(cwd) as entries:
            entries_seen = sorted(islice(entries, 5000), key=lambda entry: entry.name)
    except OSError:
        return ""
    names = [
        f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
        for entry in entries_seen
        if entry.name != ".git"
    ]
    more = f", and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return (
        ", ".join(repr(name)[1:-1] for name in names[:_MOST_SHOWN]).encode("utf-8", "replace").decode() + more
    )
