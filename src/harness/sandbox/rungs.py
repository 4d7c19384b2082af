"""The ways to build a wall around a program, the strongest first.

    own namespaces   a view of the system of its own, read-only but for the workspace, with its own /tmp, /dev and
                     processes, and a network that leads nowhere. What is protected is mounted read-only over
                     itself; where it is absent, a stand-in is (`placeholders`). See `system.namespaces`.
    bubblewrap       the same, by a program that is installed: where the kernel lets only known ones do it.
    Landlock         rights that a process gives up; see `system.confinement`. It knows no exceptions below a
                     directory, so that commands change what is in the workspace, and work below its folders, but
                     put nothing new directly into it, nor into any other folder with something protected. It hides
                     nothing.

New repositories below the workspace can be made all the same: they are looked at when the program has ended
(`git_directories`).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.config import data_directory
from harness.errors import UsageError
from harness.process.invocation import Invocation
from harness.sandbox.placeholders import SOCKET
from harness.sandbox.protected_paths import PathGuard, Survey, guards
from harness.sandbox.wall import Wall
from harness.workspace.git_directories import GIT

_INTERNET = (2, 10, 16)
"""IPv4, IPv6, and netlink, by which programs learn which networks there are. Not Unix sockets: those are files,
and would lead out."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
_KERNEL_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger")
"""Root may write to them without any capability, and bubblewrap does not always cover them."""
_OF_ROOT = ("--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE")
TEMPORARY = "/tmp"  # noqa: S108
"""Behind a wall of namespaces it is one of its own, wherever the folder for temporary files is."""


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One way to build a wall."""

    name: str
    hides: bool
    """Whether it can hide what is there: `Wall.hidden`, and settings that are blank."""
    build: Callable[[Invocation, Wall, Survey, str], Invocation]
    """(what to start, the wall around it, what is protected there, a directory for temporary files) → the same,
    confined. Raises UsageError when something cannot be protected."""


def _with_namespaces(invocation: Invocation, wall: Wall, surveyed: Survey, _temporary: str) -> Invocation:
    guarded = _mounts(wall, surveyed)
    locks = _lock_folder() if guarded and wall.confines else ""
    view = {
        "confines": wall.confines,
        "network": wall.network if wall.confines else "host",
        "hidden": _folders(wall.hidden),
        "places": _places(wall, surveyed),
        "guards": [(guard.path, _state_of(guard, wall, surveyed)) for guard in guarded],
        "blank": _more_blank(wall, guarded),
        "locks": locks,
        "listener": wall.listener,
    }
    return replace(
        invocation,
        wall=None,
        env=_with_temporary(invocation.env, TEMPORARY, wall) if wall.confines else invocation.env,
        confinement=_policy(wall, writable=None, locks=locks, guarded=guarded, view=view),
    )


NAMESPACES = Rung(name="namespaces", hides=True, build=_with_namespaces)


def bubblewrap(program: str) -> Rung:
    def build(invocation: Invocation, wall: Wall, surveyed: Survey, temporary: str) -> Invocation:
        guarded = _mounts(wall, surveyed)
        covers = [
            part
            for guard in guarded
            for part in _bubblewrap_guard(guard, _state_of(guard, wall, surveyed), temporary)
        ]
        covers += [
            part
            for path in _more_blank(wall, guarded)
            for part in _bubblewrap_guard(PathGuard(path), "empty", temporary)
        ]
        binds: list[str] = []
        for path in _folders(wall.hidden):
            binds += ("--tmpfs", path)
        for path, is_open in _places(wall, surveyed):
            how = "--ro-bind" if not is_open else "--bind" if wall.confines else "--dev-bind"
            binds += (how, path, path)
        if not wall.confines:
            whole = (program, "--die-with-parent", "--dev-bind", "/", "/", *binds, *covers)
            argv = (*whole, "--chdir", invocation.cwd, "--", *invocation.argv)
            return replace(invocation, wall=None, argv=argv, confinement=_policy(wall, writable=None))
        locks = _lock_folder() if guarded else ""
        switches = [part for path in _KERNEL_SWITCHES for part in ("--ro-bind-try", path, path)]
        argv = (
            *(program, "--die-with-parent", *_NAMESPACES),
            *(("--unshare-net",) if wall.network == "none" else ()),
            *(_OF_ROOT if os.geteuid() == 0 else ()),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", TEMPORARY),
            *(*switches, *binds, *covers, *(("--tmpfs", locks) if locks else ())),
            *("--chdir", invocation.cwd, "--", *invocation.argv),
        )
        return replace(
            invocation,
            wall=None,
            argv=argv,
            env=_with_temporary(invocation.env, TEMPORARY, wall),
            confinement=_policy(wall, writable=None, locks=locks, guarded=guarded),
        )

    return Rung(name="bubblewrap", hides=True, build=build)


def _bubblewrap_guard(guard: PathGuard, state: str, temporary: str) -> tuple[str, ...]:
    if guard.stand_in == SOCKET and not (os.path.isfile(guard.path) or os.path.isdir(guard.path)):
        return ("--dev-bind", "/dev/null", guard.path)
    if state == "discarding" and not os.path.lexists(guard.path):
        return ("--tmpfs", guard.path)
    if state != "empty":
        return ("--bind" if state == "open" else "--ro-bind", guard.path, guard.path)
    if not os.path.isfile(guard.path):
        return ("--tmpfs", guard.path)
    is_json = guard.path.endswith((".json", ".jsonc"))
    blank = os.path.join(temporary, "blank.json" if is_json else "blank")
    with open(blank, "w", encoding="ascii") as file:
        file.write("{}\n" if is_json else "")
    return ("--ro-bind", blank, guard.path)


def _with_landlock(invocation: Invocation, wall: Wall, surveyed: Survey, temporary: str) -> Invocation:
    if wall.settings == "blank" or wall.blank:
        raise UsageError(
            "Landlock, the only sandbox that works here, cannot hide the settings of a folder",
            hint="install bubblewrap (the program bwrap), or allow user namespaces",
        )
    own = [os.path.join(root, GIT) for root in surveyed.roots]
    all_paths = (*own, *surveyed.named, *surveyed.repositories(), *surveyed.pointers(), *surveyed.links())
    closed = {path for places in all_paths for path in (places, os.path.realpath(places))}
    paths = [path for root in surveyed.roots for path in _all_but(root, closed)]
    writable = (*paths, *map(os.path.realpath, wall.writable), temporary, *_DEVICES)
    return replace(
        invocation,
        wall=None,
        env=_with_temporary(invocation.env, temporary, wall),
        confinement=_policy(wall, writable=writable),
    )


LANDLOCK = Rung(name="landlock", hides=False, build=_with_landlock)


def _mounts(wall: Wall, surveyed: Survey) -> list[PathGuard]:
    """Raises UsageError for symbolic links, over which nothing can be mounted."""
    guarded = guards(surveyed)
    if not wall.confines:
        guarded = [guard for guard in guarded if guard.path in surveyed.settings]
    _require_no_links(guarded)
    return guarded


def _more_blank(wall: Wall, guarded: Sequence[PathGuard]) -> list[str]:
    covered = {guard.path for guard in guarded}
    files = [path for path in wall.hidden if not os.path.isdir(path)]
    more = [path for path in _existing((*wall.blank, *files)) if path not in covered]
    return [path for path in more if not any(path.startswith(above + os.sep) for above in covered)]


def _state_of(guard: PathGuard, wall: Wall, surveyed: Survey) -> str:
    if guard.is_open:
        return "open"
    if guard.path not in surveyed.settings:
        return "closed"
    loose = {os.path.join(root, name) for root in surveyed.roots for name in wall.discards}
    return "empty" if wall.settings == "blank" else "discarding" if guard.path in loose else "closed"


def _places(wall: Wall, surveyed: Survey) -> list[tuple[str, bool]]:
    """What is shown as it is, and whether it may be written to; those above before those below."""
    places = dict.fromkeys(_existing(wall.readable), not wall.confines)
    places |= dict.fromkeys(_existing((*wall.writable, *surveyed.roots)), True)
    if not wall.confines:  # the rest is there anyway
        hidden = _folders(wall.hidden)
        places = {
            path: True for path in places if any(path.startswith(f"{folder}{os.sep}") for folder in hidden)
        }
    return sorted(places.items(), key=lambda place: place[0].split(os.sep))


def _folders(paths: Sequence[str]) -> list[str]:
    return [path for path in _existing(paths) if os.path.isdir(path) and path != os.sep]


def _existing(paths: Sequence[str]) -> list[str]:
    return sorted({os.path.realpath(path) for path in paths if os.path.exists(path)})


def _require_no_links(guarded: Sequence[PathGuard]) -> None:
    link = next((guard.path for guard in guarded if os.path.islink(guard.path)), "")
    if link:
        raise UsageError(
            f"{link} is a symbolic link, and what is there could not be protected",
            hint="put the real thing there, or run without --sandbox",
        )


def _lock_folder() -> str:
    """For the locks of stand-ins: of the user's own, and out of reach for confined commands."""
    from harness.log.private_files import make_private_directory

    folder = os.path.join(data_directory(), "sandbox")
    try:
        make_private_directory(folder)
    except OSError:  # no home that could be written to
        folder = f"/tmp/harness-sandbox-{os.geteuid()}"  # noqa: S108 # looked at below
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UsageError(f"{folder} is not a folder of yours alone", hint=f"remove {folder}")
    return os.path.realpath(folder)


def _policy(
    wall: Wall,
    *,
    writable: Sequence[str] | None,
    locks: str = "",
    guarded: Sequence[PathGuard] = (),
    view: Mapping[str, Any] | None = None,
) -> str:
    """What the watchdog is told, as JSON.

    writable, tcp, sockets   what `confinement` leaves; None: everything
    is_sealed                no way around `tcp` and `sockets` is left
    may_serve                to listen on a port that the system chooses, though it is sealed
    locks, stand_ins         for `placeholders`
    view                     for `namespaces`; None: the program is started as it is
    """
    is_apart = wall.network == "none" and writable is None  # it has a network of its own
    policy = {
        "writable": writable,
        "tcp": list(wall.ports) or None if wall.network == "host" else None if is_apart else [],
        "sockets": () if wall.network == "none" and not is_apart else _INTERNET if wall.confines else None,
        "locks": locks,
        "stand_ins": [(guard.path, guard.stand_in) for guard in guarded] if wall.confines else [],
        "view": view,
        "is_sealed": wall.is_sealed,
        "may_serve": wall.may_serve,
    }
    return json.dumps(policy)  # in which also a path that is not UTF-8 has a spelling


def _with_temporary(env: Mapping[str, str], folder: str, wall: Wall) -> dict[str, str]:
    """One that the program may write to stays: some tell their model of it, and a replay is to say the same."""
    temporary_folder = os.path.realpath(env.get("TMPDIR") or os.sep)
    if any(temporary_folder.startswith(os.path.realpath(path) + os.sep) for path in wall.writable):
        return dict(env)
    return {**env, "TMPDIR": folder, "TMP": folder, "TEMP": folder}


def _all_but(folder: str, closed: set[str]) -> Iterator[str]:
    """Everything in a directory but what is closed; never the directory itself, where that could be created."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if path in closed or os.path.realpath(path) in closed:
            continue
        if (
            os.path.isdir(path)
            and not os.path.islink(path)
            and any(place.startswith(path + "/") for place in closed)
        ):
            yield from _all_but(path, closed)
        else:
            yield path
