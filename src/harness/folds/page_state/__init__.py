"""The live state of a conversation: what a client of the server shows."""

from __future__ import annotations
