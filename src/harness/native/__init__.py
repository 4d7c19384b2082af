"""The agents of Harness itself: the loop, its tools, MCP servers, and the recursive language model."""

from __future__ import annotations
