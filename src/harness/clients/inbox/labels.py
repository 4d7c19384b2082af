"""How a row of the inbox is worded in a terminal: its agent, state, age, cost and context."""

from __future__ import annotations

import time
from typing import Literal

from harness.agents.registry import load
from harness.errors import HarnessError
from harness.folds.inbox.row import NEEDS_YOU, WORKS, InboxRow, InboxState
from harness.formatting.amounts import age, changed_lines, cost, share
from harness.formatting.escapes import single_line

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
StateStyle = Literal["yellow", "cyan", "dim", "green", "red"]
_CODES = {"native": "H", "codex": "Cx", "opencode": "Oc", "cline": "Cn", "kimi": "Km", "continue": "Ct"}
"""Where the first two letters would be those of another agent."""

STATE_SIGNS: dict[InboxState, tuple[StateStyle, str]] = {
    "needs-approval": ("yellow", "!"),
    "asks": ("yellow", "?"),
    "running": ("cyan", "●"),
    "background": ("cyan", "◌"),
    "parked": ("cyan", "◔"),
    "idle": ("dim", "○"),
    "succeeded": ("green", "✓"),
    "failed": ("red", "✗"),
    "interrupted": ("dim", "■"),
    "lost": ("dim", "~"),
}
STATE_WORDS: dict[InboxState, str] = {
    "needs-approval": "needs you",
    "asks": "asks",
    "running": "running",
    "background": "background",
    "parked": "waits for a limit",
    "idle": "idle",
    "succeeded": "done",
    "failed": "failed",
    "interrupted": "stopped",
    "lost": "lost contact",
}


def ended_words(row: InboxRow) -> str:
    """How its last run ended: what it changed, why it failed, and what it was not allowed."""
    words = STATE_WORDS[row.state]
    if row.failure is not None and row.state == "failed":
        words = single_line(row.failure.text or row.failure.code.replace("_", " "))
        if row.failure.hint:
            words = f"{words.rstrip('.')}. {row.failure.hint}"
        if row.limit is not None:
            words = f"{words.rstrip('.')} · {limit_words(row)}"
    elif row.failure is not None and row.state == "interrupted":
        words = f"{words}: {single_line(row.failure.text)}"
    elif row.state == "parked":
        words = limit_words(row)
    elif row.state in ("succeeded", "idle") and changes_of(row):
        words = changes_of(row)
    return f"{words} · {refusals_of(row)}" if row.refused else words


def limit_words(row: InboxRow) -> str:
    """Which window is full, when it opens, and who continues then; empty: its last run did not end at one."""
    limit = row.limit
    if limit is None:
        return ""
    window = limit.window.replace("_", " ")
    words = [f"the window {window} is full" if window else "a limit of its provider is reached"]
    if limit.continues_at_ms is not None:
        words.append(
            f"continues at {_time(limit.continues_at_ms, row.updated_ms)} ({limit.number} of {limit.most})"
        )
    elif limit.resets_at_ms is not None:
        words.append(f"it opens at {_time(limit.resets_at_ms, row.updated_ms)}")
    if limit.is_uncertain:
        words.append("it was to continue, and its process died: look whether it did")
    return " · ".join(words)


def _time(at_ms: int, near_ms: int) -> str:
    """With the day, where that is another one."""
    clock, day = time.strftime("%H:%M", time.localtime(at_ms / 1000)), moment(at_ms, near_ms)
    return clock if day == clock else f"{day}, {clock}"


def refusals_of(row: InboxRow) -> str:
    """`2 refused`; empty: nothing was."""
    return f"{row.refused:,} refused" if row.refused else ""


def changes_of(row: InboxRow) -> str:
    """`+12 −3`; empty: nothing is known to have changed."""
    changes = row.changes
    if changes is None or not changes.files:
        return ""
    return changed_lines(changes.added, changes.removed, is_complete=changes.is_complete)


def agent_title(agent_name: str) -> str:
    """How an agent is called wherever a person reads it."""
    try:
        return load(agent_name).title
    except HarnessError:
        return agent_name


def agent_code(row: InboxRow) -> str:
    """One or two letters for its agent."""
    name = row.agent_name or row.agent
    return _CODES.get(name, name[:2].capitalize())


def cost_of(row: InboxRow) -> str:
    """Empty: unknown."""
    return cost(row.cost_usd, is_complete=row.is_cost_complete)


def context_of(row: InboxRow) -> str:
    """How full the context window is; empty: unknown."""
    context = row.context
    return share(context.used, context.limit) if context is not None and context.limit else ""


def when(row: InboxRow, now_ms: int) -> str:
    """How long it has been in its state; for what has ended, when that was."""
    if row.state in NEEDS_YOU | WORKS:
        return age(now_ms - row.state_since_ms) if row.state_since_ms else ""
    return moment(row.updated_ms, now_ms)


def moment(at_ms: int, now_ms: int) -> str:
    """`13:40` of a moment today, else its day: `5 Nov`."""
    if at_ms <= 0:
        return ""
    then, now = time.localtime(at_ms / 1000), time.localtime(now_ms / 1000)
    is_today = then[:3] == now[:3]
    return time.strftime("%H:%M", then) if is_today else f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]}"
