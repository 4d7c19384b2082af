"""Observational memory: a long conversation is summarized in notes, which replace its older messages."""

from __future__ import annotations

from harness.session.memory.ask_text import MemoryFailure, RetryPolicy
from harness.session.memory.config import (
    Memory,
    MemoryConfig,
    Observation,
    Reflection,
    Retrieval,
    config_of,
    read_config,
)
from harness.session.memory.memory import ObservationalMemory
from harness.session.memory.recall import Archive, RecallTool, ThreadSummary
from harness.session.memory.record import MemoryRecord, RecordFold
from harness.session.memory.shared_memory import OtherThread, OtherThreads
from harness.session.memory.thresholds import ThresholdRange

__all__ = [
    "Archive",
    "Memory",
    "MemoryConfig",
    "MemoryFailure",
    "MemoryRecord",
    "Observation",
    "ObservationalMemory",
    "OtherThread",
    "OtherThreads",
    "RecallTool",
    "RecordFold",
    "Reflection",
    "Retrieval",
    "RetryPolicy",
    "ThreadSummary",
    "ThresholdRange",
    "config_of",
    "read_config",
]
