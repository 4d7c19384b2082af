"""What `harness` alone says on a terminal before its usage: which agents are here, what needs you, what to type next."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from harness.cli.console import Console, number_of, screen_width
from harness.errors import HarnessError
from harness.formatting.escapes import single_line
from harness.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.folds.inbox.row import InboxRow

_FEW = 3
"""So many sessions are named, and twice as many agents."""
_SUGGESTIONS = ("claude", "codex", "opencode")
"""The agents that most people come with."""
COMMANDS = {
    "work": ("run", "chat", "resume", "hand-over", "attach", "wait", "undo", "redo"),
    "look": ("tui", "top", "serve", "sessions", "usage", "budget", "histories", "replay"),
    "set up": ("init", "config", "agents", "models", "permissions", "trust", "doctor", "completion"),
    "compare": ("fleet", "lab", "translate"),
    "connect": ("acp", "mcp", "runner", "service"),
    "more": ("demo", "list", "check", "erase"),
}
"""All of them, by what people want, for a terminal that has no room for a line about each."""
_ANY_ROWS = 1000
_LEAST_SPARE_ROWS = 2
"""For the prompt that comes after it, and a line above."""


class Situation(NamedTuple):
    """What is on this machine."""

    agents: Sequence[str]
    missing: Sequence[str]
    """Agents that could be installed, each with how."""
    model: str
    """Of the built-in agent; empty: there is none that it could use."""
    rows: Sequence[InboxRow]


def first_screen(console: Console, usage: str) -> str:
    """Contract: never raises. What cannot be read is not mentioned: the usage below is what was asked for."""
    try:
        words = wrapped(words_of(_situation(console)), screen_width(os.environ))
    except (HarnessError, OSError):
        return usage
    return f"{words}\n{fitting(usage, _rows() - words.count(chr(10)) - _LEAST_SPARE_ROWS)}"


def wrapped(words: str, width: int) -> str:
    """Each line broken at its blanks, where the terminal would break it anywhere; what continues one is indented. Pure."""
    lines = [textwrap.wrap(line, width, subsequent_indent="    ") or [""] for line in words.split("\n")]
    return "\n".join(part for line in lines for part in line)


def fitting(usage: str, rows: int) -> str:
    """The usage, or its commands by name alone where it would push out of sight what matters now. Pure."""
    if usage.count("\n") <= rows:
        return usage
    commands = "".join(f"  {purpose:<9}{', '.join(names)}\n" for purpose, names in COMMANDS.items())
    return (
        f"Usage: harness COMMAND [OPTIONS]\n\n{commands}\n"
        "`harness --help` says what each does, `harness COMMAND --help` its options.\n"
    )


def _rows() -> int:
    """Some terminals do not say how many they have: they get everything."""
    try:
        return os.get_terminal_size(2).lines or _ANY_ROWS
    except OSError:
        return _ANY_ROWS


def words_of(situation: Situation) -> str:
    """Pure."""
    lines = [_agents_line(situation), *_needs_lines(situation.rows), _next_line(situation)]
    return "\n".join([f"Harness {__version__}", *lines, ""])


def _agents_line(situation: Situation) -> str:
    if situation.agents:
        own = f", and the built-in agent with {situation.model}" if situation.model else ""
        return f"Agents here: {_listed(situation.agents)}{own}."
    if situation.model:
        return f"No other agent is installed here; the built-in one uses {situation.model}."
    how = "".join(f"\n  {line}" for line in situation.missing)
    return (
        f"No agent is installed here, and there is no model key. To get an agent:{how}\n"
        "  others: `harness agents list --all`; keys: `harness models list`"
    )


def _needs_lines(rows: Sequence[InboxRow]) -> list[str]:
    from harness.folds.inbox.row import NEEDS_YOU, WORKS, state_words

    waiting = [row for row in rows if row.state in NEEDS_YOU]
    working = sum(row.state in WORKS for row in rows)
    if not rows:
        return ["Nothing has been run with Harness yet."]
    verb = "needs" if len(waiting) == 1 else "need"
    head = f"{number_of(len(waiting), 'session')} {verb} you" if waiting else "Nothing needs you"
    lines = [f"{head}{f', {working} running' if working else ''}."]
    lines += [
        f"  {single_line(row.title)[:50]} ({row.agent or 'agent'}): {state_words(row)}"
        for row in waiting[:_FEW]
    ]
    return lines


def _next_line(situation: Situation) -> str:
    from harness.folds.inbox.row import NEEDS_YOU

    if any(row.state in NEEDS_YOU for row in situation.rows):
        return f"Next: {_screen()}     answer them"
    if situation.rows:
        return f"Next: {_screen()}     all your sessions"
    if situation.agents or situation.model:
        return "Next: harness chat    talk to an agent in this folder, which asks before it changes anything"
    return "Next: harness demo    see it work without an agent or a key"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - 2 * _FEW
    return ", ".join(names[: 2 * _FEW]) + (f" and {more} more" if more > 0 else "")


def _situation(console: Console) -> Situation:
    from harness.agents.registry import load
    from harness.cli import preferences
    from harness.clients.inbox.listing import known_prices, rows_of
    from harness.clients.installed_agents import installed
    from harness.log.store import Query
    from harness.models.registry import usual_model

    store = preferences.open_store(preferences.load(console))
    recent = [metadata.session_id for metadata in store.find(Query(limit=50))]
    return Situation(
        agents=[installation.agent.title for installation in installed()],
        missing=[f"{agent.title}: {agent.install}" for agent in map(load, _SUGGESTIONS) if agent.install],
        model=usual_model() or "",
        rows=[*rows_of(store, known_prices(), recent).values()],
    )


def _screen() -> str:
    """The one that can be opened here."""
    from importlib.util import find_spec

    return "harness tui" if find_spec("textual") else "harness top"
