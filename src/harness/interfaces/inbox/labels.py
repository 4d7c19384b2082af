"""How a row of the inbox is worded in a terminal: its agent, state, age, cost and context."""

from __future__ import annotations

import time
from typing import Literal

from harness.views.inbox.row import NEEDS_YOU, WORKS, InboxRow, InboxState

StateStyle = Literal["yellow", "cyan", "dim", "green", "red"]
_DAY_S = 86_400
_CODES = {"native": "H", "codex": "Cx", "opencode": "Oc", "cline": "Cn", "kimi": "Km", "continue": "Ct"}
"""Where the first two letters would be those of another agent."""

STATE_SIGNS: dict[InboxState, tuple[StateStyle, str]] = {
    "needs-approval": ("yellow", "!"),
    "asks": ("yellow", "?"),
    "running": ("cyan", "●"),
    "background": ("cyan", "◌"),
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
    "idle": "idle",
    "succeeded": "done",
    "failed": "failed",
    "interrupted": "stopped",
    "lost": "lost contact",
}


def agent_code(row: InboxRow) -> str:
    """One or two letters for its agent."""
    name = row.agent_name or row.agent
    return _CODES.get(name, name[:2].capitalize())


def cost_of(row: InboxRow) -> str:
    """`$0.31`, `≥$0.31`; empty: unknown."""
    if row.cost_usd is None:
        return ""
    return f"{'' if row.is_cost_complete else '≥'}${row.cost_usd:.2f}"


def context_of(row: InboxRow) -> str:
    """`41%` of the context window; empty: unknown."""
    context = row.context
    if context is None or not context.limit:
        return ""
    return f"{100 * context.used // context.limit}%"


def when(row: InboxRow, now_ms: int) -> str:
    """How long it has been in its state; for what has ended, when that was."""
    if row.state in NEEDS_YOU | WORKS:
        return age(now_ms - row.state_since_ms) if row.state_since_ms else ""
    return clock(row.updated_ms, now_ms)


def age(duration_ms: int) -> str:
    """48s, 6m, 2h, 3d."""
    seconds = max(duration_ms, 0) // 1000
    for size, sign in ((_DAY_S, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{sign}"
    return f"{seconds}s"


def clock(at_ms: int, now_ms: int) -> str:
    """13:40, Fri, 12 Nov."""
    if at_ms <= 0:
        return ""
    then, now = time.localtime(at_ms / 1000), time.localtime(now_ms / 1000)
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    is_near = 0 <= now_ms - at_ms < 6 * _DAY_S * 1000
    return time.strftime("%a", then) if is_near else time.strftime("%d %b", then)
