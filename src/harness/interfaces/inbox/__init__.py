"""The inbox's data: rows of all sessions from files or from a server, and answers to what waits."""

from __future__ import annotations
