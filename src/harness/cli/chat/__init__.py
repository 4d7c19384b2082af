"""A conversation in the terminal: `harness chat`, and `harness attach` to a session of this machine."""

from __future__ import annotations
