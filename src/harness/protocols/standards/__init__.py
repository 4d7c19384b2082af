"""Streams in the standards of others, recorded elsewhere, as events: one file per format, with its `TRANSLATOR`."""

from __future__ import annotations
