"""A program behind a wall of the kernel's own namespaces: the rung of `sandbox` that needs nothing to be installed.

The watchdog loads this file by its path, as it does `confinement`, and calls `spawn`; so it imports nothing of
Harness. Linux 5.12 or later. Whatever cannot be built is an OSError, and then nothing was started.

    watchdog ──▶ keeper ──▶ first ──▶ program ──▶ whatever it starts
     outside     makes the   number 1 inside: builds what
                 namespaces  is seen there, and reaps

The keeper stands for the program: it leads its process group and ends as the program ended. When it is killed,
or the watchdog is, the first process inside is too, and the kernel ends everything else there with it.

What is seen inside: the whole system, read-only; a /tmp, a /dev and a /proc of its own; of the `hidden` folders
nothing but what is in `places`; and in the workspace, over all that is guarded, a mount that keeps it as it is.
An ordinary user gets a user namespace in which they stay themselves. Root does not where it can be avoided:
there the files of everybody else would be nobody's.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import socket
import stat
import struct
from typing import Any, NoReturn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_NEW_MOUNTS, _NEW_CGROUPS, _NEW_NAMES, _NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
_NEW_USERS, _NEW_PROCESSES, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_MOUNT_SETATTR, _HERE, _ALL_BELOW = 442, -100, 0x8000
_ATTR_READ_ONLY, _ATTR_NO_SETUID, _ATTR_NO_DEVICES = 1, 2, 4
_DETACH = 2
_DIE_WITH_PARENT, _SET_DUMPABLE = 1, 4
_SET_INTERFACE, _IS_UP, _IS_RUNNING = 0x8914, 0x1, 0x40

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "fd/0",
    "stdout": "fd/1",
    "stderr": "fd/2",
    "ptmx": "pts/ptmx",
}
_KERNEL_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
"""Root may write to them without any capability."""
_TEMPORARY = "/tmp"  # noqa: S108 # one of its own
_STAGE = "/sys"
"""Where a file of ours lies for a moment, in a file system of its own: what is there is needed by nobody then."""
_HIGHEST_DESCRIPTOR = 1024
_HAND_OUT_S = 10.0


class WallError(OSError):
    """Which step failed: `sandbox`, or `program` once the wall stood."""

    def __init__(self, stage: str, number: int, words: str) -> None:
        super().__init__(number, words)
        self.stage = stage


def spawn(
    policy: Mapping[str, Any],
    confinement: Any,
    program: bytes,
    argv: Sequence[bytes],
    env: Mapping[bytes, bytes],
) -> int:
    """Start it in the current directory; returns the keeper's process id. `policy["view"]`: see `Wall.view`.

    `confinement`: that module. Raises WallError.
    """
    reader, writer = os.pipe()
    watchdog, cwd = os.getpid(), os.getcwd()
    keeper = os.fork()
    if keeper == 0:
        _or_report(writer, lambda: _keep(policy, confinement, (program, argv, env, cwd), watchdog, writer))
    os.close(writer)
    with open(reader, "rb") as file:
        failure = file.read().decode(errors="replace")
    if failure:
        os.waitpid(keeper, 0)
        stage, number, words = failure.split(" ", 2)
        raise WallError(stage, int(number), words)
    return keeper


def _or_report(writer: int, act: Callable[[], object]) -> NoReturn:
    """A process of ours ends here, whatever happens. What went wrong is told as `STAGE ERRNO WORDS`."""
    try:
        act()
    except WallError as error:
        words = f"{error.stage} {error.errno} {error.strerror}"
    except OSError as error:
        words = f"sandbox {error.errno or errno.EINVAL} {error.strerror or error}"
    except BaseException as error:  # noqa: BLE001 # the process ends here: all that is left is to report it
        words = f"sandbox {errno.EINVAL} {error!r}"
    else:
        os._exit(127)
    os.write(writer, words.encode(errors="replace"))
    os._exit(127)


def _keep(policy: Mapping[str, Any], confinement: Any, program_call: Any, watchdog: int, writer: int) -> None:
    """The keeper's whole life."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.closerange(3, writer)
    os.closerange(writer + 1, _HIGHEST_DESCRIPTOR)
    nowhere = os.open(os.devnull, os.O_RDWR)  # now: the first process is going to put another /dev there
    _enter(own_network=policy["view"]["network"] != "host")
    listener = policy["view"]["listener"]
    outside = _hand_out_listener(*listener) if listener is not None else None
    _die_with(watchdog)
    status_reader, status_writer = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(status_reader)
        if outside is not None:
            outside.close()
        _or_report(
            writer, lambda: _first(policy, confinement, program_call, (status_writer, writer, nowhere))
        )
    for descriptor in (writer, status_writer):
        os.close(descriptor)
    _let_go_of_files(nowhere)
    status_bytes = _status_of_program(status_reader, outside)
    _, status = os.waitpid(first, 0)
    _end_as(struct.unpack("i", status_bytes)[0] if len(status_bytes) == 4 else status)


def _enter(*, own_network: bool) -> None:
    user, group = os.geteuid(), os.getegid()
    flags = _NEW_MOUNTS | _NEW_PROCESSES | _NEW_IPC | _NEW_NAMES | _NEW_CGROUPS
    flags |= _NEW_NETWORK if own_network else 0
    if user != 0 or _libc().unshare(flags) != 0:
        _require(_libc().unshare(flags | _NEW_USERS), "no namespaces")
        # Only the owner of a process may say who is who there, and what refuses inspection belongs to nobody.
        _require(_libc().prctl(_SET_DUMPABLE, 1, 0, 0, 0), "prctl")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        _require(_libc().prctl(_SET_DUMPABLE, 0, 0, 0, 0), "prctl")
    if own_network:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            fcntl.ioctl(handle, _SET_INTERFACE, struct.pack("16sh14x", b"lo", _IS_UP | _IS_RUNNING))


def _status_of_program(status_reader: int, outside: socket.socket | None) -> bytes:
    """Until it ends, `outside` gets a connection to each port in here that it asks for: the program may serve on one.

    Only the keeper does that: it is in this network, and the program neither sees nor reaches it.
    """
    poll = select.poll()
    poll.register(status_reader, select.POLLIN)
    if outside is not None:
        poll.register(outside, select.POLLIN)
    while all(descriptor != status_reader for descriptor, _ in poll.poll()):
        assert outside is not None
        if not _hand_out_connection(outside):
            poll.unregister(outside)
    return os.read(status_reader, 4)


def _hand_out_connection(outside: socket.socket) -> bool:
    """False: nobody asks any more."""
    try:
        port = outside.recv(2)
        if len(port) != 2:
            return False
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(_HAND_OUT_S)
            number = connection.connect_ex(("127.0.0.1", int.from_bytes(port, "big")))
            connection.setblocking(False)
            answer = number.to_bytes(4, "big")
            socket.send_fds(outside, [answer], [] if number else [connection.fileno()])
    except OSError:
        return False
    return True


def _hand_out_listener(path: str, port: int) -> socket.socket:
    """A socket belongs to the network that it was made in, whoever holds it: so the outside answers in here. Returns the
    way to the outside.

    `path` may be longer than that of a socket can be.
    """
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    outside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", port))
        listening.listen(64)
        outside.settimeout(_HAND_OUT_S)
        outside.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        socket.send_fds(outside, [b"listener"], [listening.fileno()])
        if outside.recv(1) != b"y":
            raise OSError(errno.ECONNREFUSED, "the gateway did not take its listener")
    os.close(folder)
    return outside


def _die_with(parent: int) -> None:
    """`parent`: 0 where it cannot be seen from within."""
    _require(_libc().prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os._exit(127)


def _first(
    policy: Mapping[str, Any], confinement: Any, program_call: Any, descriptors: tuple[int, int, int]
) -> None:
    """Number 1 of the new process namespace: the kernel gives it every signal but its own death to ignore."""
    program, argv, env, cwd = program_call
    status_writer, writer, nowhere = descriptors
    _build(policy["view"])
    os.chdir(cwd)
    confinement.forbid_new_privileges()
    if policy["view"]["confines"]:
        confinement.drop_capabilities()
    confinement.restrict_tcp(policy["tcp"])
    if policy["is_sealed"]:
        confinement.seal()
    confinement.restrict_sockets(policy["sockets"])
    _die_with(0)  # only now: a change of rights takes it back
    agent = os.fork()
    if agent == 0:
        _or_report(writer, lambda: _execute(program, argv, env))
    os.close(writer)
    _let_go_of_files(nowhere)
    while True:
        pid, status = os.wait()
        if pid == agent:
            os.write(status_writer, struct.pack("i", status))
            os._exit(0)


def _execute(program: bytes, argv: Sequence[bytes], env: Mapping[bytes, bytes]) -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execve(program, list(argv), env)  # noqa: S606 # no shell, on purpose
    except OSError as error:
        raise WallError("program", error.errno or errno.EINVAL, error.strerror or "") from None


def _let_go_of_files(nowhere: int) -> None:
    """Only the program may hold its pipes, or they would never end."""
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)


def _end_as(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (-code,))
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 127)


# What is seen inside


def _build(view: Mapping[str, Any]) -> None:
    _mount(None, "/", flags=_RECURSIVE | _PRIVATE)
    if view["confines"]:
        _close_system(view)
    else:
        _hide(view)
    for path, state in view["guards"]:
        if view["confines"] or os.path.lexists(path):  # else it is hidden with the folder that it lies in
            _guard(path, state)
    for path in filter(os.path.exists, view["blank"]):
        _guard(path, "empty")
    if os.path.isdir(view["locks"]):
        _own_folder(view["locks"], "700")
    _mount("proc", "/proc", "proc", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)
    for path in filter(os.path.exists, _KERNEL_SWITCHES if view["confines"] else ()):
        _guard(path, "closed")


def _close_system(view: Mapping[str, Any]) -> None:
    # By descriptors, since what lies below a hidden folder has no path any more once that is hidden.
    places = [(path, is_open, os.open(path, os.O_PATH)) for path, is_open in view["places"]]
    devices = {
        name: os.open(f"/dev/{name}", os.O_PATH) for name in _DEVICES if os.path.exists(f"/dev/{name}")
    }
    _change("/", set_=_ATTR_READ_ONLY | _ATTR_NO_SETUID | _ATTR_NO_DEVICES, recursively=True)
    _own_devices(devices)
    _own_folder(_TEMPORARY, "1777")
    _cover(view["hidden"])
    for path, is_open, descriptor in places:
        _show(path, descriptor)
        if is_open:
            _change(path, set_=_ATTR_NO_SETUID, clear=_ATTR_READ_ONLY)


def _hide(view: Mapping[str, Any]) -> None:
    """Where nothing else is closed: what is shown in a hidden folder stays as it is, with all that is mounted there."""
    places = [(path, os.open(path, os.O_PATH)) for path, _is_open in view["places"]]
    _cover(view["hidden"])
    for path, descriptor in places:
        _show(path, descriptor)


def _cover(hidden: Sequence[str]) -> None:
    folders = [path for path in hidden if os.path.isdir(path)]
    for path in folders:
        os.makedirs(path, exist_ok=True)  # it may have lain in what is hidden already
        _own_folder(path, "700")


def _show(path: str, descriptor: int) -> None:
    """What is mounted below it stays as it is."""
    _stand(path, is_folder=stat.S_ISDIR(os.fstat(descriptor).st_mode))
    _mount(f"/proc/self/fd/{descriptor}", path, flags=_BIND | _RECURSIVE)
    os.close(descriptor)


def _stand(path: str, *, is_folder: bool) -> None:
    """Something to mount over, where a hidden folder has nothing."""
    if not os.path.lexists(path):
        os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
        if not is_folder:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _guard(path: str, state: str) -> None:
    """`open`: it cannot be moved away. `closed`: nor be changed. `empty`: nothing of it is seen. `discarding`: it is
    seen, and what is written there is lost.

    An empty folder may be written to, since some agents end where they cannot; all of that is lost.
    """
    if state == "empty" and os.path.isdir(path):
        _own_folder(path, "755")
        return
    if state == "discarding" and os.path.isdir(path) and _discard_changes(path):
        return
    if state != "open" and stat.S_ISSOCK(os.lstat(path).st_mode):  # it stands in for a file that there is not
        _mount("/dev/null", path, flags=_BIND)
        return
    if state == "empty":
        _own_folder(_STAGE, "755")
        blank = os.path.join(_STAGE, "blank")
        with open(blank, "x", encoding="ascii") as file:
            file.write("{}\n" if path.endswith((".json", ".jsonc")) else "")
        _mount(blank, path, flags=_BIND)
        _require(_libc().umount2(_STAGE.encode(), _DETACH), "cannot unmount")
    else:
        _mount(path, path, flags=_BIND | _RECURSIVE)
    if state != "open":
        _change(path, set_=_ATTR_READ_ONLY | _ATTR_NO_SETUID, recursively=True)


def _discard_changes(path: str) -> bool:
    """Let changes of a folder be lost; False where the kernel cannot."""
    if not os.listdir(path):
        _own_folder(path, "755")
        return True
    _own_folder(_STAGE, "755")
    for name in ("changes", "work"):
        os.mkdir(f"{_STAGE}/{name}")
    below = os.open(path, os.O_PATH)
    # By a descriptor, since a path may have commas and colons, which mean something here.
    layers = f"lowerdir=/proc/self/fd/{below},upperdir={_STAGE}/changes,workdir={_STAGE}/work,userxattr"
    try:
        _mount("overlay", path, "overlay", _NO_SETUID | _NO_DEVICES, layers)
    except OSError:
        return False
    finally:
        os.close(below)
        _require(_libc().umount2(_STAGE.encode(), _DETACH), "cannot unmount")
    return True


def _own_devices(devices: Mapping[str, int]) -> None:
    """As root could otherwise write to the disks themselves; and terminals of others are nobody's business."""
    _own_folder("/dev", "755")
    for name, descriptor in devices.items():
        path = f"/dev/{name}"
        _stand(path, is_folder=False)
        _mount(f"/proc/self/fd/{descriptor}", path, flags=_BIND)
        _change(path, set_=_ATTR_NO_SETUID, clear=_ATTR_NO_DEVICES)
        os.close(descriptor)
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"/dev/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"/dev/{name}", 0o755)
    _mount("devpts", "/dev/pts", "devpts", _NO_SETUID | _NO_PROGRAMS, "newinstance,ptmxmode=0666,mode=620")
    _own_folder("/dev/shm", "1777")  # noqa: S108 # one of its own
    _change("/dev", set_=_ATTR_READ_ONLY)


def _own_folder(path: str, mode: str) -> None:
    _mount("tmpfs", path, "tmpfs", _NO_SETUID | _NO_DEVICES, f"mode={mode}")


def _mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str = "") -> None:
    words = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _require(_libc().mount(*words, ctypes.c_ulong(flags), data.encode() or None), f"cannot mount {target}")


def _change(path: str, *, set_: int = 0, clear: int = 0, recursively: bool = False) -> None:
    """mount_setattr: it keeps the flags that a user namespace may not drop, which a remount does not."""
    attributes = struct.pack("QQQQ", set_, clear, 0, 0)
    arguments = (_HERE, os.fsencode(path), _ALL_BELOW if recursively else 0, attributes, len(attributes))
    _require(_libc().syscall(ctypes.c_long(_MOUNT_SETATTR), *arguments), f"cannot change the mount {path}")


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _require(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
