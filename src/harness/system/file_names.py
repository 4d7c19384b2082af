"""How names of files are compared here, and which folders hold no files."""

from __future__ import annotations

import sys

FOLDS_CASE = sys.platform in ("darwin", "win32")
"""The file system takes capitals for small letters."""
HAS_POSIX_SHELL = sys.platform != "win32"
NOT_FILES = ("/proc", "/dev", "/sys")
"""Folders of the system whose entries are no files of anyone's."""
