"""One way to list, read and command sessions, for the server, the terminal and the command line."""

from __future__ import annotations
