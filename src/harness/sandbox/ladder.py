"""Which wall can be built here: own namespaces, else bubblewrap, else Landlock, else none.

Each is tried around a program that does nothing, once in a process: what is installed, and what the kernel's
version is, says little, least of all inside a container.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cache

from harness.errors import HarnessError, UsageError
from harness.process.invocation import Invocation
from harness.sandbox.protected_paths import Survey
from harness.sandbox.rungs import LANDLOCK, NAMESPACES, Rung, bubblewrap
from harness.sandbox.wall import Wall
from harness.system.contract import system

_USUAL_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin")
_PROBE_TIMEOUT_S = 10.0


def best_wall(environ: Mapping[str, str] | None = None) -> Rung | None:
    """The strongest that works here; None: there is none."""
    if not system.can_confine:
        return None
    return _best(bubblewrap_program(os.environ if environ is None else environ))


def find_sandbox(environ: Mapping[str, str] | None = None, *, hides: bool = False) -> Rung:
    """The same, but raises UsageError when there is none: then nothing may run. `hides`: one that can hide things."""
    rung = best_wall(environ)
    if rung is not None and (rung.hides or not hides):
        return rung
    if not system.can_confine:
        raise UsageError(
            "there is no sandbox on this system: only Linux has one", hint="run without --sandbox"
        )
    problem = why_not(NAMESPACES)
    program = bubblewrap_program(os.environ if environ is None else environ)
    wrap = "does not work either" if program else "is not installed"
    last = "and Landlock cannot hide anything" if rung else "and this kernel offers no Landlock that would do"
    raise UsageError(
        f"there is no sandbox here that would do: own namespaces are refused ({problem}), bubblewrap {wrap}, {last}",
        hint="allow user namespaces, install bubblewrap (the program bwrap), or run without --sandbox",
    )


@cache
def _best(program: str) -> Rung | None:
    # Only now: other systems cannot load it.
    from harness.system.confinement import is_known_machine

    if not is_known_machine():
        return None
    rungs = (NAMESPACES, *([bubblewrap(program)] if program else []), LANDLOCK)
    return next((rung for rung in rungs if not why_not(rung)), None)


def forget() -> None:
    """What was tried: the next one who asks tries again."""
    _best.cache_clear()


def bubblewrap_program(environ: Mapping[str, str]) -> str:
    """Empty when it is not installed. A relative folder on PATH, such as the workspace, is not looked into."""
    on_path = [folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    for folder in (*_USUAL_FOLDERS, *on_path):
        program = os.path.join(folder, "bwrap")
        if os.access(program, os.X_OK):
            return program
    return ""


def why_not(rung: Rung) -> str:
    """Why no program can be started behind it here; empty: it can."""
    from harness.process.child import Child

    nothing = Invocation(("/bin/sh", "-c", "exit 0"), {}, "/")
    try:
        child = Child(rung.build(nothing, Wall(), Survey((), (), {}, frozenset()), ""))
    except HarnessError as error:
        return error.message.partition(": ")[2] or error.message
    except OSError as error:
        return error.strerror or str(error)
    output = b""
    give_up_at = time.monotonic() + _PROBE_TIMEOUT_S
    with child:
        while child.exit is None:
            output += b"".join(chunk.data for chunk in child.read(_PROBE_TIMEOUT_S))
            if time.monotonic() > give_up_at:
                child.kill()
    if child.exit.code == 0:
        return ""
    return output.decode(errors="replace").strip() or f"it ended with {child.exit.code}"
