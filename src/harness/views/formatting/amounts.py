"""Numbers as people read them: tokens, money, time."""

from __future__ import annotations

from harness.events import Usage


def tokens(count: int) -> str:
    """950, 1.2k, 3.4M."""
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f}M"
    if count >= 1_000:
        return f"{count / 1_000:.1f}k"
    return str(count)


def money(amount_usd: float) -> str:
    return "<$0.001" if 0 < amount_usd < 0.001 else f"${amount_usd:.3f}"


def duration(duration_ms: int) -> str:
    """0.4s, 12.3s, 2m 05s, 1h 02m."""
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f}s"
    minutes, seconds = divmod(duration_ms // 1000, 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m"


def total_line(usage: Usage, duration_ms: int | None) -> str:
    """`Total: 1.2k in / 345 out, $0.043, 12.3s`; empty when nothing was used that anybody knows of."""
    output = (usage.output or 0) + (usage.reasoning or 0)
    if not (usage.input or output or usage.cost_usd):
        return ""
    seconds = "" if duration_ms is None else f", {duration_ms / 1000:.1f}s"
    return (
        f"Total: {tokens(usage.input or 0)} in / {tokens(output)} out, ${usage.cost_usd or 0.0:.3f}{seconds}"
    )
