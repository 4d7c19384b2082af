"""Tools for testing agents and stores, ours and those of plugins."""

from __future__ import annotations
