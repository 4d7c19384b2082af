"""The SQLite index beside a folder of logs: finds logs and messages without reading the files."""

from __future__ import annotations
