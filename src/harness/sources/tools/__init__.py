"""What a loop may call: one file per tool, and the registry that puts them together."""

from __future__ import annotations
