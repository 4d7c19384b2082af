"""The two-way protocols of agent programs, one file each. `harness.sources.driver` is their contract."""

from __future__ import annotations
