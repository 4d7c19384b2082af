"""The stores that logs can be in: files, memory, PostgreSQL. `open_store` gives the one that a text names."""

from __future__ import annotations
