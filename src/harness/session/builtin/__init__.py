"""The tools of every session; each gets only what it needs of the session."""

from __future__ import annotations
