"""`python -m harness`: the same program as `harness`."""

from __future__ import annotations

from harness.cli.main import entry

entry()
