"""What sessions cost that agents have stored themselves, and those that were used with Harness and without it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from harness.usage.ledger import AccountedRun, Amount, Charge, Ledger, priced, total

if TYPE_CHECKING:
    from harness.histories.catalogue import Catalogue
    from harness.histories.catalogue_usage import CataloguedUsage
    from harness.usage.prices import Prices


def stored_amounts(catalogue: Catalogue, numbers: Collection[int], prices: Prices) -> dict[int, Amount]:
    """What these sessions have used, as far as they were read, by their numbers in the catalogue."""
    charges: dict[int, list[Charge]] = {}
    for row in catalogue.usage.rows(numbers) if numbers else ():
        charges.setdefault(row.session, []).append(priced(_charge(row), prices, row.rate))
    return {number: total(those) for number, those in charges.items()}


def mixed_amounts(
    sessions: Sequence[Sequence[AccountedRun]], prices: Prices, catalogue: Catalogue
) -> list[Amount]:
    """What each session has used: in its runs of Harness, which are all that it has, and without it. One may be a fork of
    another: what it has copied is counted in one of them.
    """
    from harness.clients.sessions.witnesses import join_usage

    ledger = Ledger()
    ledger.invocations = join_usage(
        [invocation for ours in sessions for invocation in ours], catalogue
    ).invocations
    charges = ledger.charges(prices, lambda _at_ms: "")
    return [total(_of_logs(charges, {invocation.log_id for invocation in ours})) for ours in sessions]


def _of_logs(charges: Iterable[Charge], logs: Collection[str]) -> list[Charge]:
    return [charge for charge in charges if charge.session_id in logs]


def _charge(row: CataloguedUsage) -> Charge:
    return Charge(
        session_id=row.session_id,
        started_ms=row.at_ms,
        run_id="",
        agent=row.agent,
        model=row.model,
        day="",
        sub_agent="",
        usage=row.usage,
        is_unpriced=False,
        project=row.cwd,
    )
