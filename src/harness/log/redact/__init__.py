"""Masks secrets in output before it is stored or shown, and keeps them from tools."""

from __future__ import annotations
