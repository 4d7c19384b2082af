"""What a process gives up for good, it and all that it starts: writing, connections, sockets, capabilities.

The watchdog loads this file by its path before it starts a program that is to be confined; so it imports
nothing of Harness. Linux only. Whatever cannot be given up is an OSError, and then nothing is started.

    writing        Landlock: only below the named paths. Reading and running stay as they are, and so does
                   what Landlock knows nothing of: mode, owner and times of one's own files.
    connections    Landlock, from its fourth version on: by TCP, only to the named ports
    sockets        seccomp: only the named families; io_uring, which could open others, is refused
    capabilities   all but those by which root writes into files of other users
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OLDEST_LANDLOCK = 3
"""The first one that knows of truncation: an older one lets any file be emptied."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_WRITE_FILE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_MAKE_DEVICES = 1 << 6 | 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_RIGHTS_SINCE = {1: _WRITE_FILE | _REMOVE_AND_MAKE, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
_FILE_RIGHTS = _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE
TCP_SINCE = 4
_BIND, _CONNECT, _TCP_RIGHTS = 0b01, 0b10, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11
"""Signals, and sockets with abstract names."""

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _DROP_FROM_BOUNDS, _AMBIENT, _CLEAR_ALL = 38, 22, 24, 47, 4
_FILTER_MODE = 2
_KEPT_CAPABILITY = 1
"""CAP_DAC_OVERRIDE: root often works in a directory that belongs to another user."""
_CAPABILITY_VERSION = 0x20080522

_MACHINES = {
    "x86_64": (0xC000003E, 41, 0x40000000),
    "aarch64": (0xC00000B7, 198, 0),
    "riscv64": (0xC00000F3, 198, 0),
}
"""Machine → its audit number, its number of `socket`, and from where on numbers are of another interface."""
_IO_URING_SETUP = 425
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_HAS_ANY, _AND = 0x45, 0x54
_NETLINK, _ROUTE, _STREAM, _TCP, _CLONE3 = 16, 0, 1, 6, 435
_FAST_OPEN, _NEW_NAMESPACES = 0x20000000, 0x7E020000
"""TCP Fast Open connects without `connect`, and so past Landlock's rule."""
_WITH_FLAGS = {
    "sendto": (3, _FAST_OPEN),
    "sendmsg": (2, _FAST_OPEN),
    "sendmmsg": (3, _FAST_OPEN),
    "clone": (0, _NEW_NAMESPACES),
}
"""Calls that are refused with some flags only: which argument, and which flags."""
_OF_ITSELF_ALONE = {True: 302, False: 261}
"""Whether it is an x86 → `prlimit64`: a limit of another process, such as the gateway's, could keep it from writing its
record. Who means itself says 0.
"""
_NEWEST = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
}
_OLDER = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "bpf",
    "perf_event_open",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    "add_key",
    "request_key",
    "keyctl",
    "userfaultfd",
    "kexec_load",
    "kcmp",
    "init_module",
    "finit_module",
    "delete_module",
    "swapon",
    "swapoff",
    "reboot",
    "kexec_file_load",
    "quotactl",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "clone",
    # What processes of one user share beside all paths and sockets.
    *("shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
]
_OF_X86 = [
    *(101, 310, 311, 321, 298, 165, 166, 155, 161, 272, 308, 248),
    *(249, 250, 323, 246, 312, 175, 313, 176, 167, 168, 169),
    *(320, 179, 44, 46, 307, 56),
    *(29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241),
]
_OF_OTHERS = [
    *(117, 270, 271, 280, 241, 40, 39, 41, 51, 97, 268, 217),
    *(218, 219, 282, 104, 272, 105, 273, 106, 224, 225, 142),
    *(294, 60, 206, 211, 269, 220),
    *(194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181),
]
_CALLS = {
    True: _NEWEST | dict(zip(_OLDER, _OF_X86, strict=True)),
    False: _NEWEST | dict(zip(_OLDER, _OF_OTHERS, strict=True)),
}
"""Whether it is an x86 → the numbers of its calls; all other machines have the same ones."""
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_REFUSE = 0x00050000


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    """The kernel reads its first 12 bytes."""

    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _NetPort(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


class Instruction(ctypes.Structure):
    """Of a seccomp filter."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("yes", ctypes.c_uint8),
        ("no", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction)))


def confine(policy: Mapping[str, Any]) -> None:
    """Give up what the policy does not keep; see `sandbox`. There is no way back."""
    forbid_new_privileges()
    if policy["writable"] is not None:
        _restrict_writing(policy["writable"], may_connect=policy["tcp"] != [])
        if os.geteuid() == 0:  # other users have none, and no new privileges means that none can be had
            drop_capabilities()
    restrict_tcp(
        policy["tcp"], may_listen=not policy.get("is_sealed"), may_serve=bool(policy.get("may_serve"))
    )
    if policy.get("is_sealed"):
        seal()
    restrict_sockets(policy["sockets"])


def landlock_version() -> int:
    """0 where there is none."""
    try:
        return int(_call(_CREATE_RULESET, None, 0, _VERSION_FLAG))
    except (OSError, AttributeError):
        return 0


def is_known_machine() -> bool:
    """Whether sockets can be refused here."""
    return os.uname().machine in _MACHINES


def _restrict_writing(paths: Sequence[str], *, may_connect: bool) -> None:
    version = landlock_version()
    if version < OLDEST_LANDLOCK:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock, or one that is too old")
    rights = sum(bits for since, bits in _RIGHTS_SINCE.items() if version >= since)
    attributes = _RulesetAttributes(
        rights,
        _TCP_RIGHTS if version >= TCP_SINCE and not may_connect else 0,
        _SCOPES if version >= _SCOPES_SINCE else 0,
    )
    ruleset = _new_ruleset(attributes, version)
    for path in paths:
        _allow_writing(ruleset, path, rights)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def restrict_tcp(ports: Sequence[int] | None, *, may_listen: bool = True, may_serve: bool = False) -> None:
    """Connect to these ports alone, wherever they are; None: to any. `may_serve`: what may not listen elsewhere may do so on
    a port that the system chooses. Raises OSError, also for an older kernel.
    """
    if not ports:
        return
    if (version := landlock_version()) < TCP_SINCE:
        raise OSError(errno.ENOSYS, "the Landlock of this kernel knows nothing of TCP")
    ruleset = _new_ruleset(_RulesetAttributes(0, _CONNECT if may_listen else _TCP_RIGHTS, 0), version)
    for port in ports:
        _call(_ADD_RULE, ruleset, _NET_PORT, ctypes.byref(_NetPort(_CONNECT, port)), 0)
    if may_serve and not may_listen:
        _call(_ADD_RULE, ruleset, _NET_PORT, ctypes.byref(_NetPort(_BIND, 0)), 0)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _new_ruleset(attributes: _RulesetAttributes, version: int) -> int:
    size = 24 if version >= _SCOPES_SINCE else 16 if version >= TCP_SINCE else 8
    return _call(_CREATE_RULESET, ctypes.byref(attributes), size, 0)


def _allow_writing(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # what is not there, or was just taken away, cannot be written to
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISLNK(mode):
            allowed = rights & ~_MAKE_DEVICES if stat.S_ISDIR(mode) else rights & _FILE_RIGHTS
            rule = _PathBeneath(allowed, descriptor)
            _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def drop_capabilities() -> None:
    """All but the one that root keeps. Needs the capability to do so: root has it, and who made a user namespace."""
    _control(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        if capability != _KEPT_CAPABILITY or os.geteuid() != 0:
            try:
                _control(_DROP_FROM_BOUNDS, capability, 0, 0, 0)
            except OSError as error:
                if error.errno == errno.EINVAL:
                    break  # there are no more
                raise
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    mask = 1 << _KEPT_CAPABILITY if os.geteuid() == 0 else 0
    _require(_libc().capget(header, current := (ctypes.c_uint32 * 6)()))
    # Effective and permitted of the lower half; root in a container may not even have this one.
    capabilities = (ctypes.c_uint32 * 6)(current[0] & mask, current[1] & mask, 0, 0, 0, 0)
    _require(_libc().capset(header, capabilities))


def restrict_sockets(families: Sequence[int] | None) -> None:
    """To these; None: any."""
    if families is None:
        return
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        raise OSError(errno.ENOSYS, "sockets cannot be refused on this machine")
    architecture, socket, foreign_from = machine
    code = _with_number(architecture, foreign_from)
    code += [
        Instruction(_EQUAL, 0, 1, _IO_URING_SETUP),
        Instruction(_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        Instruction(_EQUAL, 1, 0, socket),
        Instruction(_RETURN, 0, 0, _ALLOW),
        Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
    ]
    for family in families:
        code += [Instruction(_EQUAL, 0, 1, family), Instruction(_RETURN, 0, 0, _ALLOW)]
    code.append(Instruction(_RETURN, 0, 0, _REFUSE | errno.EACCES))
    install_filter(code)


def seal() -> None:
    """Leave no way around the rules for connections: sockets are of TCP, and nothing else can send. Raises OSError."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, "system calls cannot be refused on this machine")
    architecture, socket, foreign_from = _MACHINES[machine]
    numbers = _CALLS[machine == "x86_64"]
    code = _with_number(architecture, foreign_from)
    for name, number in numbers.items():
        if name not in _WITH_FLAGS:
            code += [Instruction(_EQUAL, 0, 1, number), Instruction(_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    # The library falls back to `clone`, whose flags can be seen.
    code += [Instruction(_EQUAL, 0, 1, _CLONE3), Instruction(_RETURN, 0, 0, _REFUSE | errno.ENOSYS)]
    for name, (argument, flags) in _WITH_FLAGS.items():
        code += [
            Instruction(_EQUAL, 0, 4, numbers[name]),
            Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT_AT + 8 * argument),
            Instruction(_HAS_ANY, 0, 1, flags),
            Instruction(_RETURN, 0, 0, _REFUSE | errno.EPERM),
            Instruction(_RETURN, 0, 0, _ALLOW),
        ]
    code += [
        Instruction(_EQUAL, 0, 4, _OF_ITSELF_ALONE[machine == "x86_64"]),
        Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        Instruction(_EQUAL, 1, 0, 0),
        Instruction(_RETURN, 0, 0, _REFUSE | errno.EPERM),
        Instruction(_RETURN, 0, 0, _ALLOW),
        Instruction(_EQUAL, 1, 0, socket),
        Instruction(_RETURN, 0, 0, _ALLOW),
        Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        # Of netlink what asks for the addresses of this machine; by others, processes talk to each other.
        Instruction(_EQUAL, 0, 4, _NETLINK),
        Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT_AT + 16),
        Instruction(_EQUAL, 0, 1, _ROUTE),
        Instruction(_RETURN, 0, 0, _ALLOW),
        Instruction(_RETURN, 0, 0, _REFUSE | errno.EACCES),
        Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT_AT + 8),
        Instruction(_AND, 0, 0, 0xF),
        Instruction(_EQUAL, 1, 0, _STREAM),
        Instruction(_RETURN, 0, 0, _REFUSE | errno.EACCES),
        Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT_AT + 16),
        Instruction(_EQUAL, 1, 0, 0),
        Instruction(_EQUAL, 0, 1, _TCP),
        Instruction(_RETURN, 0, 0, _ALLOW),
        Instruction(_RETURN, 0, 0, _REFUSE | errno.EACCES),
    ]
    install_filter(code)


def _with_number(architecture: int, foreign_from: int) -> list[Instruction]:
    """The beginning of a filter: a call for another machine does not pass, and the number of any other is loaded."""
    code = [
        Instruction(_LOAD, 0, 0, _ARCHITECTURE_AT),
        Instruction(_EQUAL, 1, 0, architecture),
        Instruction(_RETURN, 0, 0, _KILL),
        Instruction(_LOAD, 0, 0, _NUMBER_AT),
    ]
    if foreign_from:
        code += [
            Instruction(_AT_LEAST, 0, 1, foreign_from),
            Instruction(_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        ]
    return code


def forbid_new_privileges() -> None:
    """Required before a filter can be installed by anyone but root. Raises OSError."""
    _control(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def install_filter(code: list[Instruction]) -> None:
    """From now on, every system call of this process and of all it starts goes through it. Raises OSError."""
    program = _Program(len(code), (Instruction * len(code))(*code))
    _control(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: Any) -> int:
    return _require(_libc().syscall(ctypes.c_long(number), *arguments))


def _control(option: int, *arguments: Any) -> int:
    return _require(_libc().prctl(option, *(_widened(argument) for argument in arguments)))


def _widened(argument: Any) -> Any:
    return ctypes.c_ulong(argument) if isinstance(argument, int) else argument


def _require(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
