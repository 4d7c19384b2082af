"""The tools that every session has, each made from what it needs of the session and nothing else."""

from __future__ import annotations
