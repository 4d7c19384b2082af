"""One file per model API; the file's name is its name, and each defines one `WIRE`."""

from __future__ import annotations
