"""What parts of Harness and libraries note with `logging`, as messages for people: one line each.

Python itself would print tracebacks; here they go into a file.
"""

from __future__ import annotations

import logging
from typing import Self

from harness.cli.console import Console
from harness.cli.crash_report import write_traceback


class LogNotes(logging.Handler):
    """Contract: within its `with` block; never raises."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text, error = record.getMessage(), record.exc_info[1] if record.exc_info else None
            if isinstance(error, Exception):
                text += f": {type(error).__name__}: {error}"
        except Exception:  # noqa: BLE001 # what was noted does not fit its own words
            text, error = str(record.msg), None
        self._console.warning(text)
        if isinstance(error, Exception):
            path = write_traceback(error)
            self._console.say(
                f"  the details are in {path}" if path else "  the details could not be written"
            )

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_error: object) -> None:
        logging.getLogger().removeHandler(self)
