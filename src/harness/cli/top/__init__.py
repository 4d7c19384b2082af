"""`harness top`: the inbox in a plain terminal."""

from __future__ import annotations
