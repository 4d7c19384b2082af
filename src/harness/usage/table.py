"""The table of `harness usage`: numbers in groups of three, costs with their source."""

from __future__ import annotations

from collections.abc import Sequence

from harness.formatting.columns import columns, cut
from harness.formatting.escapes import single_line
from harness.usage.ledger import Amount

_HEADINGS = ("SESSIONS", "INPUT", "CACHED", "TO CACHE", "OUTPUT", "REASONING", "COST", "")
_UNKNOWN = "–"
_LONGEST_KEY = 48


def table(heading: str, rows: Sequence[tuple[str, Amount]], total: Amount) -> str:
    """`rows`: a label and its amount. A class of tokens that is never reported has no column."""
    lines = [
        (heading.upper(), *_HEADINGS),
        *((cut(single_line(key) or "(unknown)", _LONGEST_KEY), *_cells(amount)) for key, amount in rows),
        ("total", *_cells(total)),
    ]
    cost = _HEADINGS.index("COST") + 1
    shown_columns = [at for at, cell in enumerate(lines[-1]) if cell != _UNKNOWN or at == cost]
    lines = [tuple(line[position] for position in shown_columns) for line in lines]
    widths = [max(map(columns, column)) for column in zip(*lines, strict=True)]
    rendered = [_line(line, widths) for line in lines]
    rendered.insert(-1, "─" * max(map(columns, rendered)))
    return "\n".join(rendered) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *numbers, mark = (
        cell + _gap(cell, width) if position in (0, len(cells) - 1) else _gap(cell, width) + cell
        for position, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join((first, *numbers, mark)).rstrip()


def _gap(cell: str, width: int) -> str:
    return " " * (width - columns(cell))


def _cells(amount: Amount) -> tuple[str, ...]:
    counts = (amount.input, amount.cache_read, amount.cache_write, amount.output, amount.reasoning)
    return (
        f"{amount.sessions:,}",
        *(_UNKNOWN if count is None else f"{count:,}" for count in counts),
        _cost(amount),
        amount.cost_source or "",
    )


def _cost(amount: Amount) -> str:
    """`≥` before a cost says that some of the tokens have no price."""
    if amount.cost_usd is None:
        return _UNKNOWN
    return f"{'' if amount.is_cost_complete else '≥ '}${amount.cost_usd:,.4f}"
