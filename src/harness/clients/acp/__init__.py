"""The other side of the Agent Client Protocol: any agent as an ACP agent, for editors."""

from __future__ import annotations
