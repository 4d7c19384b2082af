"""A run of an agent program: from a request to a process, and from what it writes to events in a log."""

from __future__ import annotations
