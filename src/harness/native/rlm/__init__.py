"""Recursive language models: the model writes Python, which runs in a confined interpreter."""

from __future__ import annotations
