"""How agents' stores are read: files and databases, in place, without changing anything."""

from __future__ import annotations
