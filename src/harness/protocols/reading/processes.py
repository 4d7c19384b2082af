"""Whether the process that is named in a store still runs."""

from __future__ import annotations

import os
from typing import Any

from harness.system.contract import system


def is_running(pid: int | None) -> bool:
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def is_same_process(pid: int | None, start: Any) -> bool:
    """`start`: when it began, in ticks as the system counts them. Where that differs, the number was given again."""
    if pid is None or not is_running(pid):
        return False
    started_at = system.process_start(pid)
    return not started_at or start is None or str(start) == started_at
