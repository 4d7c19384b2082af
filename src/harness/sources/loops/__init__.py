"""Agents that run in this process: loops around a model."""

from __future__ import annotations
