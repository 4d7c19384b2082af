"""A ledger as people read it."""

from __future__ import annotations

from typing import Any

from harness.formatting.columns import columns
from harness.usage.ledger import Amount
from harness.usage.table import table


def amount(**fields: Any) -> Amount:
    empty = dict.fromkeys(Amount.__struct_fields__)
    return Amount(**{**empty, "sessions": 1, "is_cost_complete": True, **fields})


def test_numbers_stand_under_each_other_whatever_the_names_are() -> None:
    rows = [("模型", amount(input=5)), ("a", amount(input=5_000_000, cost_usd=1234.5, cost_source="stated"))]
    lines = table("model", rows, amount(sessions=2, input=5_000_005)).split("\n")

    end = columns(lines[0][: lines[0].index("INPUT") + len("INPUT")])
    for line, number in zip((*lines[1:3], lines[4]), ("5", "5,000,000", "5,000,005"), strict=True):
        assert columns(line[: line.index(number) + len(number)]) == end
    assert "$1,234.5000  stated" in lines[2]


def test_a_name_that_was_not_reported_is_shown_as_unknown() -> None:
    assert table("model", [("", amount(input=1))], amount(input=1)).split("\n")[1].startswith("(unknown)")
