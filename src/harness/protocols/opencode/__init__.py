"""OpenCode, and Kilo Code, which descends from it: stream, events, tools, driver, store and writer."""

from __future__ import annotations
