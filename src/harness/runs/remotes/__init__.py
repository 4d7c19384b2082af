"""Runs that happen elsewhere, received over the network."""

from __future__ import annotations
