"""What `harness` alone says on a terminal before its usage: which agents are here, what needs you, what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from harness.cli.console import Console, number_of
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


class Situation(NamedTuple):
    """What is on this machine."""

    agents: Sequence[str]
    missing: Sequence[str]
    """Agents that could be installed, each with how."""
    model: str
    """Of the built-in agent; empty: there is none that it could use."""
    rows: Sequence[InboxRow]


def first_screen(console: Console) -> str:
    """Contract: never raises. What cannot be read is not mentioned: the usage below is what was asked for."""
    try:
        return words_of(_situation(console))
    except (HarnessError, OSError):
        return ""


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
        f"No agent is installed here, and there is no model key. To get an agent, for example:{how}\n"
        "  `harness agents list --all` names the others; `harness models list` says which keys are read."
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
        return "Next: harness tui     answer them (without the extra `tui`: harness top)"
    if situation.rows:
        return "Next: harness tui     all your sessions (without the extra `tui`: harness top)"
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
        agents=[found.agent.title for found in installed()],
        missing=[f"{agent.title}: {agent.install}" for agent in map(load, _SUGGESTIONS) if agent.install],
        model=usual_model() or "",
        rows=[*rows_of(store, known_prices(), recent).values()],
    )
