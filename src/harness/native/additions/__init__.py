"""What a person and a project add to the agent as files: sub-agents, commands, and hooks around calls."""

from __future__ import annotations
