"""The doors: programs and people reach Harness through these, and they only move bytes."""

from __future__ import annotations
