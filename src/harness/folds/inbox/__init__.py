"""The inbox: one row for each session, with its state and what it asks, folded from its log."""

from __future__ import annotations
