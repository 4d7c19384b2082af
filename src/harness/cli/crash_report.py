"""Tracebacks help developers, not users: they go into files."""

from __future__ import annotations

import os
import sys
import time
import traceback

from harness.config import cache_directory
from harness.log.private_files import make_private_directory, replace_private
from harness.version import __version__


def write_traceback(error: Exception) -> str:
    """The path of the file; empty where none can be made."""
    directory = os.path.join(cache_directory(), "crashes")
    path = os.path.join(directory, time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}.txt"))
    head = f"harness {__version__}, python {sys.version}\narguments: {len(sys.argv) - 1}\n\n"
    data = (head + "".join(traceback.format_exception(error))).encode("utf-8", "replace")
    try:
        make_private_directory(directory)
        replace_private(path, data)
    except OSError:
        return ""
    return path
