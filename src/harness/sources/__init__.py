"""Everything that puts events into a log: agent programs, loops, remote runs."""

from __future__ import annotations
