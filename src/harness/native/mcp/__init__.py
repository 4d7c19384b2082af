"""Servers of the Model Context Protocol, whose tools a loop may call. Needs the extra `mcp`."""

from __future__ import annotations
