"""Tokens and cost of everything that was recorded, by Harness or by the agents themselves, with nothing counted twice.

A cost is stated by the agent, or computed from list prices: the table shows which. `–` means unknown, `≥` that some
of the tokens have no price.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.cli.console import Console
from harness.clients.sessions.filters import moment_ms
from harness.formatting.escapes import single_line

if TYPE_CHECKING:
    from harness.clients.sessions.histories import HistorySessions
    from harness.clients.sessions.usage import UsageBill
    from harness.log.stores.files import FileStore
    from harness.usage.ledger import Charge, Ledger, Row

SUMMARY = "tokens and cost of all sessions"
_GROUPINGS = ("agent", "model", "day", "project", "session", "sub-agent")
_QUARTER_HOUR_MS = 900_000
"""No time zone's day begins at any other time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--by", choices=_GROUPINGS, default="agent", metavar="WHAT", help=f"{', '.join(_GROUPINGS)}")
    help_text = "only what was used since then: 2026-08-31, today, 12h, 7d, 4w"
    add("--since", type=moment_ms, default=-1, metavar="TIME", help=help_text)
    add(
        "--prices",
        default="",
        metavar="FILE",
        help='TOML with [prices."MODEL"] tables, over the built-in ones',
    )
    help_text = "how full the windows of subscriptions are, and when they open again, as agents said it last"
    add("--limits", action="store_true", help=help_text)
    add("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences
    from harness.cli.output import write_json, write_text
    from harness.clients.sessions.histories import HistorySessions
    from harness.clients.sessions.usage import UsageQuestion, make_bill
    from harness.usage.ledger import Ledger
    from harness.usage.prices import load

    settings = preferences.load(console, has_verbose=arguments.verbose)
    store = preferences.open_store(settings)
    if arguments.limits:
        return _show_limits(store, console, as_json=arguments.json)
    prices = load(settings, arguments.prices)
    ledger = Ledger()
    histories = HistorySessions(say=console.warning)
    _read(store, ledger, histories, console)
    question = UsageQuestion(arguments.by, arguments.since)
    histories.read_used(console.say, question.first_ms)
    bill = make_bill(question, ledger, histories, prices, _day_of)
    charges = bill.charges
    if arguments.json:
        silent = ledger.silent(arguments.since)
        data = _as_data(bill, prices.date)
        unpriced = {"models_without_price": _unpriced(charges)}
        write_json({**data, **unpriced, "sessions_without_usage": silent})
    elif not charges:
        console.say(f"no usage was recorded in {store.directory}")
    else:
        write_text(_as_table(bill, store))
        _explain(charges, ledger, prices.date, console)
    if not arguments.json and (silent := ledger.silent(arguments.since)):
        noun = "session has" if silent == 1 else "sessions have"
        console.say(f"{silent} {noun} no usage")
    return 0


def _show_limits(store: FileStore, console: Console, *, as_json: bool) -> int:
    from harness.cli.output import write_json, write_text
    from harness.clients.sessions.limits import stated_limits

    now_ms = time.time_ns() // 1_000_000
    limits = stated_limits(store, now_ms)
    if as_json:
        write_json(limits)
    elif not limits:
        console.say("no agent has said anything of its limits")
    else:
        rows = [("agent", "window", "used", "state", "resets", "said")]
        for limit in limits:
            percent = "–" if limit.used_percent is None else f"{limit.used_percent:.0f} %"
            resets = "not said" if limit.resets_at_ms is None else _moment(limit.resets_at_ms)
            state = "?" if limit.is_past else limit.status
            window = single_line(limit.window) or "–"
            rows.append(
                (
                    limit.agent,
                    window,
                    "?" if limit.is_past else percent,
                    state,
                    resets,
                    _moment(limit.said_ms),
                )
            )
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        )
        write_text("".join(f"{line.rstrip()}\n" for line in lines))
    return 0


def _moment(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))


def _read(store: FileStore, ledger: Ledger, histories: HistorySessions, console: Console) -> None:
    """Every log of the store but replays and copies of stored sessions: nothing was used a second time."""
    from harness.clients.installed_agents import player
    from harness.clients.sessions.ids import all_ids
    from harness.log.private_files import open_private
    from harness.log.query import grep_events
    from harness.usage.ledger import WORDS

    log_ids = all_ids(store)
    replays = player() if log_ids else None
    for log_id in reversed(log_ids):
        metadata = store.metadata(log_id)
        if replays is not None and metadata.agent_name == replays.name:
            continue
        if histories.has_original(metadata):
            continue
        try:
            with os.fdopen(open_private(store.path(log_id), os.O_RDONLY), "rb", buffering=0) as file:
                ledger.add(metadata, grep_events(file, WORDS))
        except OSError as error:
            console.warning(f"session {log_id} cannot be read: {error.strerror}")


def _day_of(at_ms: int) -> str:
    return _day_of_quarter(at_ms // _QUARTER_HOUR_MS) if at_ms >= 0 else ""


@cache
def _day_of_quarter(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(number * _QUARTER_HOUR_MS / 1000))


def _as_data(bill: UsageBill, prices_date: str) -> dict[str, Any]:
    from msgspec.structs import asdict

    return {
        "by": bill.question.by,
        "rows": list(bill.as_rows()),
        "total": asdict(bill.total),
        "prices_date": prices_date,
    }


def _as_table(bill: UsageBill, store: FileStore) -> str:
    from harness.clients.sessions.ids import abbreviated, all_ids, in_order
    from harness.usage.table import table

    by = bill.question.by
    total = (
        in_order([*all_ids(store), *(charge.session_id for charge in bill.charges)])
        if by == "session"
        else []
    )

    def name_of(row: Row) -> str:
        if by == "session":
            start = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.latest_ms / 1000))
            return " ".join((abbreviated(row.key, total), start, *row.agents))
        return row.key or ("(the agents themselves)" if by == "sub-agent" else "")

    return table(by, [(name_of(row), row.amount) for row in bill.rows], bill.total)


def _unpriced(charges: list[Charge]) -> list[str]:
    return sorted({charge.model for charge in charges if charge.is_unpriced})


def _explain(charges: list[Charge], ledger: Ledger, prices_date: str, console: Console) -> None:
    if any(charge.usage.cost_source == "computed" for charge in charges):
        console.say(f"computed costs are estimates, from list prices of {prices_date}")
    if missing := _unpriced(charges):
        models = ", ".join(single_line(model) or "models that were never named" for model in missing)
        console.say(f'no price is known for {models} (set it in [prices."MODEL"])')
    if count := len({*ledger.unsettled}):
        noun = "session reports" if count == 1 else "sessions report"
        console.say(f"{count} {noun} a total from before the recording started: it is counted in full")
