"""What several benches share."""

from __future__ import annotations
