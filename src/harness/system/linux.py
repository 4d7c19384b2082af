"""What Linux can do: subreaper, /proc, pidfd, pipe sizes, inotify, namespaces. See `contract` for the promises.

Loaded by path in the watchdog at every start of a program, so it imports little and nothing of Harness.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Any

name = "linux"
can_confine = True
traverse_only = os.O_PATH

_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36
_ENVIRONMENT_FIELDS = (50, 51)
"""Beginning and end of the environment's block, in /proc/self/stat; the first field after the name is the third."""

_MODIFY, _CLOSE_WRITE = 0x2, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_WANTED = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_LOST = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _OVERFLOW | _IGNORED
_NOTICE_HEAD = "iIII"
_BLOCK_BYTES = 64 * 1024

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _IS_UP = 0x8913, 0x8914, 0x1
_INTERFACE = "16sH14x"


def adopt_orphans() -> bool:
    return _control(_SET_CHILD_SUBREAPER, 1)


def descendants() -> tuple[set[int], set[int]]:
    try:
        entries = os.listdir("/proc")
    except OSError:
        return set(), set()
    children: dict[int, list[int]] = {}
    groups: dict[int, int] = {}
    dead: set[int] = set()
    for entry in entries:
        if entry.isdigit():
            pid = int(entry)
            state, parent, groups[pid] = _state_parent_group(entry)
            children.setdefault(parent, []).append(pid)
            if state in b"ZX":
                dead.add(pid)
    pids: set[int] = set()
    unvisited = [os.getpid()]
    while unvisited:
        below = children.get(unvisited.pop(), [])
        pids.update(below)
        unvisited.extend(below)
    return pids - dead, {groups[pid] for pid in pids} - {0, os.getpgrp()}


def watch_process(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def process_usage(pid: int) -> tuple[float, int]:
    try:
        fields = _stat_fields(str(pid))
        ticks = int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except (OSError, ValueError, IndexError):
        return 0.0, 0


def ancestors(most: int) -> list[list[bytes]]:
    lines: list[list[bytes]] = []
    for process in _parents(most):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                lines.append(file.read().split(b"\0"))
        except OSError:
            break
    return lines


def inherited_variable(name: str, most: int) -> str:
    start = os.fsencode(name) + b"="
    for process in _parents(most):
        try:
            with open(f"/proc/{process}/environ", "rb") as file:
                pairs = file.read().split(b"\0")
        except OSError:  # it keeps others from reading it
            continue
        for pair in pairs:
            if pair.startswith(start):
                return os.fsdecode(pair[len(start) :])
    return ""


def _parents(most: int) -> Iterator[int]:
    """The nearest first."""
    process = os.getppid()
    for _ in range(most):
        if process <= 1:
            return
        yield process
        try:
            process = int(_stat_fields(str(process))[1])
        except (OSError, IndexError, ValueError):
            return


def process_start(pid: int) -> str:
    try:
        return _stat_fields(str(pid))[19].decode()
    except (OSError, IndexError):
        return ""


def processes_in(folder: str) -> list[tuple[int, str]]:
    top = os.path.realpath(folder)
    processes = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            where = os.readlink(f"/proc/{entry}/cwd")
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended, or belongs to another user
        if where.startswith(top):
            processes.append((int(entry), words))
    return processes


def peer(connection: socket.socket) -> tuple[int, int] | None:
    import socket
    from struct import calcsize, unpack

    kind = "3i"
    pid, uid, _ = unpack(kind, connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, calcsize(kind)))
    return pid, uid


def refuse_inspection() -> bool:
    return _control(_SET_DUMPABLE, 0)


def wipe_environment(secrets_of: Callable[[Mapping[str, str]], Collection[str]]) -> None:
    """Needed although `refuse_inspection`: root is refused nothing. Once: nothing is written there later."""
    global _is_wiped  # noqa: PLW0603 # environment is wiped once for the process
    import ctypes

    if _is_wiped:
        return
    try:
        libc = ctypes.CDLL(None)
        fields = _stat_fields("self")
        start, end = (int(fields[number - 3]) for number in _ENVIRONMENT_FIELDS)
        if not 0 < start < end:
            return
        entries = [entry.partition(b"=") for entry in ctypes.string_at(start, end - start).split(b"\0")]
        environment = {os.fsdecode(name): os.fsdecode(value) for name, sign, value in entries if sign}
        secret = set(map(os.fsencode, secrets_of(environment)))
        place = start
        for name, sign, value in entries:
            if value and name in secret:
                _move_variable(libc, name, start, end)
                if not start <= _address(libc, name) < end:
                    ctypes.memset(place + len(name) + len(sign), 0, len(value))
            place += len(name) + len(sign) + len(value) + 1
        _is_wiped = True
    except (OSError, AttributeError, ValueError, IndexError):
        return


_is_wiped = False
"""Whether this process, or the one of which it is a copy, has wiped its environment."""


def widen_pipe(writer: int, size: int) -> None:
    import fcntl

    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, size)
    except (AttributeError, OSError):
        pass  # the user's share of pipe memory is used up


def lock_holder(descriptor: int) -> int | None:
    status = os.fstat(descriptor)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            for line in locks:
                _number, kind, *_, pid, locked, _start, _end = line.split()
                if (kind, locked) == ("FLOCK", file) and int(pid) > 0:
                    return int(pid)
    except (OSError, ValueError):
        pass  # another kind of line
    return None


def locked_inodes() -> frozenset[int]:
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            places = [field for line in file for field in line.split() if field.count(":") == 2]
    except OSError:
        return frozenset()
    inodes = (place.rpartition(":")[2] for place in places)
    return frozenset(int(inode) for inode in inodes if inode.isdecimal())


def descriptor_path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def change_mode(folder: int, mode: int) -> None:
    os.chmod(f"/proc/self/fd/{folder}", mode)


class FolderNotices:
    """inotify. For a folder of the network only what this machine does is reported."""

    def __init__(self, directory: str) -> None:
        """Raises OSError where that cannot be watched."""
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no more folders can be watched")
        if libc.inotify_add_watch(self._fd, os.fsencode(directory), _WANTED) < 0:
            error = OSError(ctypes.get_errno(), f"cannot watch {directory}")
            self.close()
            raise error

    def changed(self) -> set[str] | None:
        from struct import Struct

        head = Struct(_NOTICE_HEAD)
        names: set[str] = set()
        while True:
            try:
                block = os.read(self._fd, _BLOCK_BYTES)
            except BlockingIOError:
                return names
            except OSError:
                return None
            place = 0
            while place < len(block):
                _watch, mask, _cookie, size = head.unpack_from(block, place)
                if mask & _LOST:
                    return None
                place += head.size
                names.add(os.fsdecode(block[place : place + size].rstrip(b"\0")))
                place += size

    def wait(self, timeout_s: float) -> bool:
        import select

        poll = select.poll()
        try:
            poll.register(self._fd, select.POLLIN)
            return bool(poll.poll(timeout_s * 1000))
        except (OSError, ValueError, OverflowError):
            return True  # it was closed: `changed` says so

    def close(self) -> None:
        if self._fd >= 0:
            try:
                os.close(self._fd)
            except OSError:
                pass
            self._fd = -1


def watch_directory(path: str) -> FolderNotices:
    return FolderNotices(path)


def enter_own_network() -> str:
    import ctypes

    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.unshare(_NEW_NETWORK) != 0:
            if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
                return os.strerror(ctypes.get_errno())
            _keep_identity(user, group)
        _raise_loopback()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _control(option: int, value: int) -> bool:
    """`prctl`, by the small inner part of ctypes: loading all of it would slow down every start of a program."""
    try:
        from _ctypes import call_function, dlopen, dlsym

        libc = dlopen(None, 0)  # type: ignore[arg-type] # the C library of this process
        status: int = call_function(dlsym(libc, "prctl"), (option, value, 0, 0, 0))
    except (OSError, ImportError):
        return False
    return status == 0


def _stat_fields(pid: str) -> list[bytes]:
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        line = os.read(file, 4096)
    finally:
        os.close(file)
    # The program's name stands in parentheses and may itself contain spaces and parentheses.
    return line.rpartition(b")")[2].split()


def _state_parent_group(pid: str) -> tuple[bytes, int, int]:
    try:
        fields = _stat_fields(pid)
        return fields[0], int(fields[1]), int(fields[2])
    except (OSError, IndexError):
        return b"X", 0, 0


def _move_variable(libc: Any, name: bytes, start: int, end: int) -> None:
    """Let the C library store the variable elsewhere, as it does with every variable that is set again."""
    if start <= _address(libc, name) < end and (value := os.environb.get(name)) is not None:
        os.environb[name] = value


def _address(libc: Any, name: bytes) -> int:
    import ctypes

    getenv = libc.getenv
    getenv.restype = ctypes.c_void_p
    return getenv(name) or 0


def _keep_identity(user: int, group: int) -> None:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _raise_loopback() -> None:
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        flags = struct.unpack(_INTERFACE, fcntl.ioctl(handle, _GET_FLAGS, struct.pack(_INTERFACE, b"lo", 0)))[
            1
        ]
        fcntl.ioctl(handle, _SET_FLAGS, struct.pack(_INTERFACE, b"lo", flags | _IS_UP))
