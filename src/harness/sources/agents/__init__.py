"""One file per agent program; the file's name is the agent's."""

from __future__ import annotations
