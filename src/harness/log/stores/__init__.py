"""The stores that logs can be in: files, memory, PostgreSQL."""

from __future__ import annotations
