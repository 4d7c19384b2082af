"""The record: events are stamped, stored and followed here, and nowhere else."""

from __future__ import annotations
