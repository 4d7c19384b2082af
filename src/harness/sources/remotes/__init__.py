"""Runs that happen elsewhere, told over the network."""

from __future__ import annotations
