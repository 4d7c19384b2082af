"""Who writes: everything that puts events into a log."""

from __future__ import annotations
