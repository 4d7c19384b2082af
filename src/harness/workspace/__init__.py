"""The files of the agent loop: where it may read and write, and how that is done safely."""

from __future__ import annotations
