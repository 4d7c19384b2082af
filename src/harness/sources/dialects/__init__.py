"""Formats that two or more agents share."""

from __future__ import annotations
