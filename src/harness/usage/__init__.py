"""What runs have used and cost, and the limits that a person has set: prices, the ledger, budgets."""

from __future__ import annotations
