"""The inbox: rows of all sessions from files or from a server, their labels, and answers to what they ask."""

from __future__ import annotations
