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


def mixed_amount(ours: Sequence[AccountedRun], prices: Prices, catalogue: Catalogue) -> Amount:
    """What one session has used: in these runs of Harness, which are all that it has, and without it."""
    from harness.clients.sessions.witnesses import join_usage

    ledger = Ledger()
    ledger.invocations = join_usage(ours, catalogue).invocations
    logs = {one.log_id for one in ours}
    return total(_of_logs(ledger.charges(prices, lambda _at_ms: ""), logs))


def _of_logs(charges: Iterable[Charge], logs: Collection[str]) -> list[Charge]:
    return [one for one in charges if one.session_id in logs]


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
