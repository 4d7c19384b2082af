"""The Agent Client Protocol: its stream, its calls, its questions, and the driver of a conversation."""

from __future__ import annotations
