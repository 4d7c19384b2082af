"""One file per command; the file's name is the command's. Each has `SUMMARY`, `add_arguments` and `execute`."""

from __future__ import annotations
