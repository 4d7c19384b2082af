"""Who steers: conversations that last, and what happens in them besides the agents' own work."""

from __future__ import annotations
