"""Attempts to get out of a sealed run, made inside of one. Prints the names of those that worked, as JSON."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable

PLACES = json.loads(sys.argv[1])
GATEWAY, OTHER, DATAGRAMS = PLACES["gateway"], PLACES["other"], PLACES["datagrams"]
OUTSIDE, WORK, VICTIM = PLACES["outside"], PLACES["work"], PLACES["victim"]
LIBC = ctypes.CDLL(None, use_errno=True)
FAST_OPEN = 0x20000000
IS_X86 = os.uname().machine == "x86_64"
TRIED: dict[str, Callable[[], object]] = {}


def attempt(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    def keep(function: Callable[[], object]) -> Callable[[], object]:
        TRIED[name] = function
        return function

    return keep


def connect(host: str, port: int, family: int = socket.AF_INET, protocol: int = 0) -> bool:
    with socket.socket(family, socket.SOCK_STREAM, protocol) as one:
        one.settimeout(2)
        one.connect((host, port))
        one.sendall(b"leak")
    return True


def call(number: int, *arguments: object) -> bool:
    """False where the call does not exist: then it was not refused, but neither was it carried out."""
    if LIBC.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def write(path: str, mode: str = "w") -> bool:
    with open(path, mode) as file:
        file.write("x")
    return True


def relayed(request: bytes) -> bool:
    with socket.create_connection(("127.0.0.1", GATEWAY), timeout=5) as one:
        one.sendall(request)
        return b" 200" in one.recv(200)


TRIED |= {
    "the gateway as a proxy": lambda: relayed(
        b"CONNECT example.org:443 HTTP/1.1\r\nhost: example.org\r\n\r\n"
    ),
    "the gateway by an absolute address": lambda: relayed(
        b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % OTHER
    ),
    "the gateway without a token": lambda: relayed(
        b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
    ),
    "tcp to another port": lambda: connect("127.0.0.1", OTHER),
    "tcp to another port by name": lambda: connect("localhost", OTHER),
    "tcp to another address of the loopback": lambda: connect("127.0.0.2", OTHER),
    "tcp to all addresses": lambda: connect("0.0.0.0", OTHER),
    "tcp over IPv6": lambda: connect("::1", OTHER, socket.AF_INET6),
    "tcp over a mapped address": lambda: connect("::ffff:127.0.0.1", OTHER, socket.AF_INET6),
    "multipath tcp": lambda: connect("127.0.0.1", OTHER, protocol=262),
    "sctp": lambda: connect("127.0.0.1", OTHER, protocol=132),
    "tcp to the world": lambda: connect("192.0.2.1", 443),
    "tcp fast open by sendto": lambda: socket.socket().sendto(b"leak", FAST_OPEN, ("127.0.0.1", OTHER)),
    "tcp fast open by sendmsg": lambda: socket.socket().sendmsg(
        [b"leak"], [], FAST_OPEN, ("127.0.0.1", OTHER)
    ),
    "udp": lambda: (
        socket.socket(type=socket.SOCK_DGRAM).sendto(b"leak", ("127.0.0.1", DATAGRAMS)) and heard()
    ),
    "udp over IPv6": lambda: (
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"leak", ("::1", DATAGRAMS)) and heard()
    ),
    "names": lambda: socket.getaddrinfo("example.org", 443),
    "write outside": lambda: write(f"{OUTSIDE}/new"),
    "append outside": lambda: write(f"{OUTSIDE}/there", "a"),
    "truncate outside": lambda: os.truncate(f"{OUTSIDE}/there", 0) is None,
    "make a folder outside": lambda: os.mkdir(f"{OUTSIDE}/folder") is None,
    "remove outside": lambda: os.unlink(f"{OUTSIDE}/there") is None,
    "rename outside": lambda: os.rename(f"{OUTSIDE}/there", f"{OUTSIDE}/moved") is None,
    "a link outside": lambda: os.symlink("/", f"{OUTSIDE}/link") is None,
    "a socket file outside": lambda: os.mknod(f"{OUTSIDE}/socket", 0o140600) is None,
    "a pipe outside": lambda: os.mkfifo(f"{OUTSIDE}/pipe") is None,
    "mode outside": lambda: os.chmod(f"{OUTSIDE}/there", 0o777) is None,
    "times outside": lambda: os.utime(f"{OUTSIDE}/there", (1, 1)) is None,
    "attributes outside": lambda: os.setxattr(f"{OUTSIDE}/there", "user.x", b"1") is None,
    "a hook of another repository": lambda: write(f"{OUTSIDE}/.git/hooks/post-checkout"),
    "the sessions of harness": lambda: write(f"{PLACES['sessions']}/planted.ndjson"),
    "the system": lambda: write("/etc/hostname", "a"),
    "a device": lambda: os.mknod(f"{WORK}/device", 0o060600, os.makedev(254, 0)) is None,
    "a disk": lambda: os.open("/dev/sda", os.O_WRONLY),
    "the kernel's switches": lambda: write("/proc/sys/kernel/hostname"),
    "memory of another process": lambda: open(f"/proc/{VICTIM}/mem", "rb").read(1),  # noqa: SIM115
    "environment of another process": lambda: b"PLANTED" in open(f"/proc/{VICTIM}/environ", "rb").read(),  # noqa: SIM115
    "a file of another process": lambda: os.open(f"/proc/{VICTIM}/fd/0", os.O_RDWR),
    "the root of another process": lambda: write(f"/proc/{VICTIM}/root{OUTSIDE}/by-root"),
    "the folder of another process": lambda: write(f"/proc/{VICTIM}/cwd/by-cwd"),
    "signal to another process": lambda: os.kill(VICTIM, signal.SIGCONT) is None,
    "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "packet socket": lambda: PLACES["is_landlock"] and socket.socket(17, socket.SOCK_RAW, 3),
    "virtual socket": lambda: socket.socket(40, socket.SOCK_STREAM),
    "bluetooth socket": lambda: socket.socket(31, socket.SOCK_RAW),
    "crypto socket": lambda: socket.socket(38, 5),
    "unix socket": lambda: socket.socket(socket.AF_UNIX).connect(PLACES["unix"]) is None,
    "abstract unix socket": lambda: socket.socket(socket.AF_UNIX).connect("\0" + PLACES["abstract"]) is None,
    "unix datagram": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", PLACES["unix"]),
    "ptrace": lambda: LIBC.ptrace(16, VICTIM, 0, 0) == 0,
    "mount": lambda: LIBC.mount(b"none", WORK.encode(), b"tmpfs", 0, None) == 0,
    "pivot": lambda: LIBC.pivot_root(WORK.encode(), WORK.encode()) == 0,
    "io_uring": lambda: call(425, 1, ctypes.create_string_buffer(120)),
    "a new user namespace": lambda: PLACES["is_landlock"] and LIBC.unshare(0x10000000 | 0x40000000) == 0,
    "the namespace of another process": lambda: (
        LIBC.setns(os.open(f"/proc/{VICTIM}/ns/net", os.O_RDONLY), 0) == 0
    ),
    "typing into the terminal": lambda: fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x") == 0,
    "the descriptor of another process": lambda: call(438, call_value(434, VICTIM, 0), 0, 0),
    "reading another's memory": lambda: IS_X86 and call(310, VICTIM, *vectors(), 0),
    "a program with other rights": lambda: (
        os.getuid() != 0
        and subprocess.run(
            ["su", "-c", "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False
        ).returncode
        == 0
    ),
    "a 32-bit call": lambda: False,  # it kills: see the filter
}


@attempt("hard link of a file outside")
def _hard_link() -> bool:
    os.link(f"{OUTSIDE}/there", f"{WORK}/linked")
    return write(f"{WORK}/linked", "a")


@attempt("through a link in the workspace")
def _through_link() -> bool:
    os.symlink(OUTSIDE, f"{WORK}/way-out")
    return write(f"{WORK}/way-out/through")


@attempt("a file of the user's home")
def _file_of_home() -> bool:
    """Where the home is hidden, a file of its name can be made: what is written into it is thrown away."""
    with open(f"{PLACES['home']}/.bashrc", "a+", encoding="utf-8") as file:
        file.write("x")
        file.seek(0)
        return file.read().startswith("# mine")


@attempt("moved out of the workspace")
def _moved() -> bool:
    write(f"{WORK}/mine")
    os.rename(f"{WORK}/mine", f"{OUTSIDE}/mine")
    return True


@attempt("listening")
def _listening() -> bool:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(1)
    return bool(PLACES["is_landlock"])  # in a network of its own nobody is there to connect


@attempt("tcp fast open by an option")
def _fast_open_option() -> bool:
    with socket.socket() as one:
        one.setsockopt(6, 30, 1)
        one.connect(("127.0.0.1", OTHER))
        return bool(one.send(b"leak"))


@attempt("io_uring by its later calls")
def _io_uring_later() -> bool:
    return call(426, 0, 0, 0, 0, 0, 0) or call(427, 0, 0, 0, 0)


@attempt("a descriptor that was inherited")
def _inherited() -> bool:
    """Nothing but the program's own pipes, and files that lie where it may write: no socket, no folder, no wall's own."""
    for name in os.listdir("/proc/self/fd"):
        try:
            target, kind = os.readlink(f"/proc/self/fd/{name}"), stat.S_IFMT(os.fstat(int(name)).st_mode)
        except OSError:
            continue
        if kind == stat.S_IFSOCK or (kind == stat.S_IFDIR and not target.startswith("/proc/")):
            return True
    return False


@attempt("a descriptor of the first process")
def _of_the_first() -> bool:
    return any(
        os.readlink(f"/proc/1/fd/{name}").startswith("socket:")
        for name in os.listdir("/proc/1/fd")
        if not PLACES["is_landlock"]
    )


@attempt("a connected pair of sockets, connected again")
def _pair_connected() -> bool:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.connect(PLACES["unix"])
        return bool(one.send(b"x"))


@attempt("a pair of sockets that sends to a path")
def _pair_sends() -> bool:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        return bool(one.sendto(b"x", PLACES["unix"]))


@attempt("a pair of sockets that sends to an abstract name")
def _pair_sends_abstract() -> bool:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        return bool(one.sendto(b"x", "\0" + PLACES["abstract"]))


@attempt("tcp from a user namespace of its own")
def _from_namespace() -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            LIBC.unshare(0x10000000)
            os._exit(0 if connect("127.0.0.1", OTHER) else 1)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@attempt("what is mounted over is taken away in a user namespace")
def _unmounted() -> bool:
    pid = os.fork()
    if pid == 0:
        LIBC.unshare(0x10000000 | 0x20000)
        LIBC.umount2(PLACES["home"].encode(), 2)
        LIBC.umount2(b"/tmp", 2)
        try:
            os._exit(0 if write(f"{OUTSIDE}/unmounted") and os.path.exists(f"{OUTSIDE}/there") else 1)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@attempt("everything made writable again in a user namespace")
def _remounted() -> bool:
    pid = os.fork()
    if pid == 0:
        LIBC.unshare(0x10000000 | 0x20000)
        LIBC.mount(None, b"/", None, 32 | 4096, None)
        try:
            os._exit(0 if write("/etc/harness-escaped") else 1)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@attempt("a new proc, with the kernel's switches")
def _new_proc() -> bool:
    pid = os.fork()
    if pid == 0:
        LIBC.unshare(0x10000000 | 0x20000 | 0x20000000)
        inner = os.fork()
        if inner == 0:
            if LIBC.mount(b"proc", WORK.encode(), b"proc", 0, None) != 0:
                os._exit(1)
            try:
                os._exit(0 if write(f"{WORK}/sys/kernel/hostname") else 1)
            except OSError:
                os._exit(1)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@attempt("a handle of a file outside")
def _by_handle() -> bool:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    if LIBC.name_to_handle_at(-100, b"/etc/hostname", handle, ctypes.byref(mount), 0) != 0:
        return False
    folder = os.open("/", os.O_RDONLY)
    opened = LIBC.open_by_handle_at(folder, handle, os.O_WRONLY)
    return opened >= 0 and bool(os.write(opened, b"x"))


@attempt("shared memory of the system")
def _shared_memory() -> bool:
    if PLACES["is_landlock"]:
        return write(f"/dev/shm/harness-escaped-{os.getpid()}")
    return os.path.exists(f"/dev/shm/harness-test-{VICTIM}")


@attempt("keys of the user")
def _keys() -> bool:
    return LIBC.syscall(250 if IS_X86 else 219, 0, -4, 1) >= 0 and PLACES["is_landlock"]


@attempt("a bpf program")
def _bpf() -> bool:
    return PLACES["is_landlock"] and call(321 if IS_X86 else 280, 0, ctypes.create_string_buffer(128), 128)


@attempt("limits of another process")
def _limits() -> bool:
    return not PLACES["is_landlock"] and resource.prlimit(VICTIM, resource.RLIMIT_NOFILE) is not None


@attempt("a port below that of the gateway, by binding first")
def _bound_first() -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
        one.connect(("127.0.0.1", OTHER))
    return True


@attempt("out-of-band data that opens a connection")
def _out_of_band() -> bool:
    return bool(socket.socket().sendto(b"x", FAST_OPEN | socket.MSG_OOB, ("127.0.0.1", OTHER)))


@attempt("several messages with fast open")
def _several() -> bool:
    data = ctypes.create_string_buffer(b"leak")
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(data), 4)
    address = ctypes.create_string_buffer(
        struct.pack("=HH4s8x", 2, socket.htons(OTHER), bytes((127, 0, 0, 1)))
    )
    message = (ctypes.c_size_t * 8)(ctypes.addressof(address), 16, ctypes.addressof(vector), 1, 0, 0, 0, 0)
    with socket.socket() as one:
        return call(307 if IS_X86 else 269, one.fileno(), message, 1, FAST_OPEN)


def call_value(number: int, *arguments: object) -> int:
    return int(LIBC.syscall(number, *arguments))


def vectors() -> tuple[object, int, object, int]:
    """One byte of ours and one of theirs: EFAULT would say that it was allowed to look."""
    mine = ctypes.create_string_buffer(8)
    here = (ctypes.c_size_t * 2)(ctypes.addressof(mine), 8)
    there = (ctypes.c_size_t * 2)(0x1000, 8)
    return here, 1, there, 1


def heard() -> bool:
    """A datagram that is sent says nothing: in a network of its own it goes nowhere."""
    return bool(PLACES["is_landlock"])


def main() -> None:
    assert connect("127.0.0.1", GATEWAY), "the gateway itself is reached"
    escaped: list[str] = []
    for name, function in TRIED.items():
        try:
            if function():
                escaped.append(name)
        except (OSError, struct.error, subprocess.SubprocessError) as error:
            if isinstance(error, OSError) and error.errno == errno.EFAULT:
                escaped.append(f"{name}: {error}")
    print("ESCAPED " + json.dumps({"tried": len(TRIED), "escaped": escaped}))


if __name__ == "__main__":
    main()
