"""Work done by a process of its own, for tests of what processes see of each other."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable


def begin(work: Callable[[], object]) -> int:
    """The id of a child that does it, and ends with 0 if nothing was raised."""
    with warnings.catch_warnings():
        # Newer Pythons warn of threads at a fork; those of other tests are none of the child's business.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def end(child: int) -> int:
    """Wait for it; its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
