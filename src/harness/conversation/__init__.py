"""A log as turns of a conversation with a model: history, compaction, messages that wait."""

from __future__ import annotations
