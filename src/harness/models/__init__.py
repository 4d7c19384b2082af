"""Model APIs, one file per wire format, and the models that need no network."""

from __future__ import annotations
