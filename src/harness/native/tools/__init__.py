"""The tools of the agent loop: one file per tool, and the registry that assembles them."""

from __future__ import annotations
