"""Further attempts to get out of a sealed run: by what processes share beside paths and ports, and by odd calls.

It stands beside `escapes.py`, whose attempts it makes as well.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from escapes import (
    GATEWAY,
    IS_X86,
    LIBC,
    OTHER,
    PLACES,
    VICTIM,
    attempt,
    call,
    call_value,
    connect,
    main,
    write,
)


@attempt("limits set for another process")
def _limits_set() -> bool:
    limits = resource.prlimit(0, resource.RLIMIT_CORE)
    return resource.prlimit(VICTIM, resource.RLIMIT_CORE, limits) is not None


@attempt("shared memory of System V")
def _shared_segment() -> bool:
    attach = LIBC.shmat
    attach.restype = ctypes.c_void_p
    return attach(PLACES["segment"], None, 0) not in (ctypes.c_void_p(-1).value, None)


@attempt("a queue of System V")
def _queue() -> bool:
    return (
        LIBC.msgsnd(PLACES["queue"], ctypes.create_string_buffer(struct.pack("l4s", 1, b"leak")), 4, 0o4000)
        == 0
    )


@attempt("a queue of POSIX")
def _named_queue() -> bool:
    return LIBC.mq_open(PLACES["named_queue"].encode(), os.O_WRONLY) >= 0


@attempt("another protocol of netlink")
def _netlink() -> bool:
    """By the one for users, processes send to each other; in a network of its own nobody is there."""
    made = [protocol for protocol in range(1, 23) if is_made(socket.AF_NETLINK, socket.SOCK_RAW, protocol)]
    return bool(made) and PLACES["is_landlock"]


@attempt("a socket of any other family")
def _families() -> bool:
    known = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
    local = () if PLACES["is_landlock"] else (15, 17)  # of its own network: packets, and keys of it
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET, socket.SOCK_RDM)
    return any(
        is_made(family, kind, 0) for family in range(64) if family not in (*known, *local) for kind in kinds
    )


def is_made(family: int, kind: int, protocol: int) -> bool:
    try:
        socket.socket(family, kind, protocol).close()
    except OSError:
        return False
    return True


@attempt("the terminal of somebody else")
def _terminal() -> bool:
    return write(PLACES["terminal"])


@attempt("tcp bound to a device")
def _bound_to_device() -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, 25, b"lo\0")
        one.settimeout(2)
        one.connect(("127.0.0.1", OTHER))
    return True


@attempt("tcp repaired into a connection")
def _repaired() -> bool:
    with socket.socket() as one:
        one.setsockopt(6, 19, 1)
        one.connect(("127.0.0.1", OTHER))
    return True


@attempt("a connection to the gateway, connected elsewhere")
def _connected_again() -> bool:
    with socket.create_connection(("127.0.0.1", GATEWAY), timeout=5) as one:
        nowhere = ctypes.create_string_buffer(16)  # AF_UNSPEC: the connection is given up
        if LIBC.connect(one.fileno(), nowhere, 16) != 0:
            return False
        one.connect(("127.0.0.1", OTHER))
        return bool(one.send(b"leak"))


@attempt("tcp without waiting")
def _without_waiting() -> bool:
    with socket.socket() as one:
        one.setblocking(False)
        if one.connect_ex(("127.0.0.1", OTHER)) not in (0, errno.EINPROGRESS):
            return False
        select.select([], [one], [], 2)
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0 and bool(one.send(b"leak"))


@attempt("a program from memory")
def _from_memory() -> bool:
    """A program in no file, started without a path: the rules hold for it too."""
    descriptor = os.memfd_create("program", 0)
    with open(sys.executable, "rb") as file:
        os.write(descriptor, file.read())
    text = f"import socket; socket.create_connection(('127.0.0.1', {OTHER}), timeout=2).sendall(b'leak')"
    program = [f"/proc/self/fd/{descriptor}", "-I", "-c", text]
    done = subprocess.run(program, pass_fds=[descriptor], capture_output=True, check=False)
    return done.returncode == 0


@attempt("a session and a group of its own")
def _in_own_session() -> bool:
    """A grandchild that nobody waits for is sealed, too."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        try:
            os.write(writing, b"y" if connect("127.0.0.1", OTHER) else b"n")
        except OSError:
            os.write(writing, b"n")
        os._exit(0)
    os.wait()
    return os.read(reading, 1) == b"y"


@attempt("a namespace by clone3")
def _clone3() -> bool:
    arguments = ctypes.create_string_buffer(struct.pack("8Q", 0x10000000 | 0x40000000, 0, 0, 0, 17, 0, 0, 0))
    pid = LIBC.syscall(435, arguments, 64)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        os.waitpid(pid, 0)
    return pid > 0 and PLACES["is_landlock"]


@attempt("a call by the numbers of another interface")
def _x32() -> bool:
    return IS_X86 and LIBC.syscall(0x40000000 | 41, 1, 2, 0) >= 0


@attempt("a call of 32 bits, in a process of its own")
def _thirty_two_bits() -> bool:
    """`getpid` by the old gate: a kernel that has it must kill who uses it. In namespaces it may be used: no rule is a filter."""
    if not IS_X86 or not PLACES["is_landlock"]:
        return False
    pid = os.fork()
    if pid == 0:
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        os._exit(0 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@attempt("a signal by a descriptor of the process")
def _by_pidfd() -> bool:
    return call(424, call_value(434, VICTIM, 0), signal.SIGURG, None, 0)


@attempt("a signal to everybody")
def _to_everybody() -> bool:
    """Whether the one who watches got it is looked at from outside."""
    os.kill(-1, signal.SIGURG)
    return False


@attempt("a signal for what arrives on a descriptor")
def _by_arrival() -> bool:
    one, other = socket.socketpair()
    with one, other:
        fcntl.fcntl(one, 10, signal.SIGURG)  # F_SETSIG
        fcntl.fcntl(one, fcntl.F_SETOWN, VICTIM)
        fcntl.fcntl(one, fcntl.F_SETFL, fcntl.fcntl(one, fcntl.F_GETFL) | os.O_ASYNC)
        other.send(b"x")
        time.sleep(0.05)
    return False


@attempt("memory that pages are asked for")
def _userfault() -> bool:
    return PLACES["is_landlock"] and call(323 if IS_X86 else 282, 1)


@attempt("hints about the memory of another process")
def _hints() -> bool:
    mine = (ctypes.c_size_t * 2)(0, 4096)
    return call(440, call_value(434, VICTIM, 0), mine, 1, 4, 0)


@attempt("the clock of the system")
def _clock() -> bool:
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))
    return True


@attempt("upwards through the gateway")
def _upwards() -> bool:
    """What arrived at the provider is looked at from outside."""
    token = os.environ.get("ANTHROPIC_API_KEY", "")
    for target in (
        "/v1/messages/../../admin/keys",
        "/v1/%2e%2e/admin/keys",
        "/v1/messages%2f..%2f..%2fadmin",
        "//example.org/v1/messages",
        "/v1/messages;/../../admin",
        "http://example.org/v1/messages",
        f"http://127.0.0.1:{OTHER}/v1/messages",
        "/v1/files",
        "/v1/organizations/api_keys",
    ):
        with socket.create_connection(("127.0.0.1", GATEWAY), timeout=5) as one:
            head = f"POST {target} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {token}\r\ncontent-length: 2\r\n\r\n{{}}"
            one.sendall(head.encode())
            if b" 200" in one.recv(200):
                return True
    return False


@attempt("the record that the gateway writes")
def _record() -> bool:
    """Also by what of it is open somewhere."""
    names = [f"{PLACES['sessions']}/{name}" for name in os.listdir(PLACES["sessions"])]
    return bool(names) and write(names[0], "a")


main()
