"""What the interpreter of a REPL gives up for good, before it sees anything that a model wrote.

Afterwards it can compute, read and write the pipes it has, and start threads. There is nothing else left:
the kernel (seccomp) refuses every call that opens a file, makes a socket, starts a program, or reaches
another process, by whatever trick. What it may `import` is loaded before that.

Linux alone can do this; elsewhere, and whenever the kernel refuses, `confine` raises an OSError. It runs
inside `repl_process` and so imports little of Harness.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from typing import NamedTuple

from harness.system.confinement import Instruction, forbid_new_privileges, install_filter
from harness.system.contract import system

_LOAD, _AND, _EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000

_THREAD = 0x00010000
_NEW_NAMESPACES = 0x7E020080
"""A thread may be started, a process or a namespace not: of these bits of `clone`, that one alone is set."""

_ALLOWED = {
    # name: (x86_64, aarch64); None where the machine does not have it
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, None),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "exit": (60, 93),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "times": (100, 153),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "time": (201, None),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "ppoll": (271, 73),
    "set_robust_list": (273, 99),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "rseq": (334, 293),
}


class _Machine(NamedTuple):
    column: int
    """Of the table above."""
    architecture: int
    clone: int
    tgkill: int


_CLONE3 = 435
_MACHINES = {
    "x86_64": _Machine(0, 0xC000003E, 56, 234),
    "aarch64": _Machine(1, 0xC00000B7, 220, 131),
}


def limit(memory_bytes: int, processor_s: int) -> None:
    """Bound what it uses: more memory is a MemoryError, more time on the processor its end."""
    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, processor_s),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)  # noqa: PLW2901
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):
            if system.can_confine:
                raise


def confine() -> None:
    """Give everything up. Raises OSError where that cannot be done; the caller must then end."""
    machine = _MACHINES.get(os.uname().machine) if system.can_confine else None
    if machine is None or sys.byteorder != "little" or sys.maxsize < 2**32:
        raise OSError(errno.ENOSYS, f"{os.uname().sysname} on {os.uname().machine} is not supported")
    forbid_new_privileges()
    install_filter(_filter(machine))


def _filter(machine: _Machine) -> list[Instruction]:
    code = [
        *(Instruction(_LOAD, 0, 0, _ARCHITECTURE_AT), *_unless(machine.architecture, _KILL)),
        Instruction(_LOAD, 0, 0, _NUMBER_AT),
    ]
    for numbers in _ALLOWED.values():
        if (number := numbers[machine.column]) is not None:
            code += _when(number, Instruction(_RETURN, 0, 0, _ALLOW))
    # The newer way to start a thread keeps its flags where a filter cannot see them.
    code += _when(_CLONE3, Instruction(_RETURN, 0, 0, _REFUSE | errno.ENOSYS))
    code += _when(
        machine.clone,
        Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        Instruction(_AND, 0, 0, _THREAD | _NEW_NAMESPACES),
        *_unless(_THREAD, _REFUSE | errno.EPERM),
        Instruction(_RETURN, 0, 0, _ALLOW),
    )
    code += _when(
        machine.tgkill,
        Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        *_unless(os.getpid(), _REFUSE | errno.EPERM),
        Instruction(_RETURN, 0, 0, _ALLOW),
    )
    return [*code, Instruction(_RETURN, 0, 0, _REFUSE | errno.EPERM)]


def _when(number: int, *then: Instruction) -> list[Instruction]:
    return [Instruction(_EQUAL, 0, len(then), number), *then]


def _unless(number: int, verdict: int) -> list[Instruction]:
    return [Instruction(_EQUAL, 1, 0, number), Instruction(_RETURN, 0, 0, verdict)]
