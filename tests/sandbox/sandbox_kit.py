"""Ways out of a workspace, everything around it that could be harmed, and a look at what was."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

from harness.sandbox.ladder import bubblewrap_program, why_not
from harness.sandbox.rungs import LANDLOCK, NAMESPACES, bubblewrap
from other_user import interpreter, libraries, process_user, readable


def _python(*lines: str) -> str:
    """By calls that no program of a shell makes."""
    begin = ("import ctypes, os", "L = ctypes.CDLL(None)", 'O = os.environ["OUT"]', 'V = O + "/victim"')
    return f"\"$PY\" -I -c '{chr(10).join((*begin, *lines))}'"


ESCAPES = {
    "write": 'echo x > "$OUT/victim"',
    "append": 'echo x >> "$OUT/victim"',
    "create": 'echo x > "$OUT/new"',
    "delete": 'rm -f "$OUT/victim"',
    "truncate": 'truncate -s 0 "$OUT/victim"',
    "folder": 'mkdir "$OUT/new"',
    "symlink to a file": 'ln -s "$OUT/victim" one; echo x > one',
    "symlink to a folder": 'ln -s "$OUT" two; echo x > two/new',
    "hardlink": 'ln "$OUT/victim" three && echo x > three',
    "rename in": 'mv "$OUT/victim" four',
    "rename out": 'echo x > five; mv five "$OUT/new"',
    "rename a folder out": 'mkdir six; mv six "$OUT/new"',
    "root of itself": 'echo x > "/proc/self/root$OUT/victim"',
    "root of its parent": 'echo x > "/proc/$PPID/root$OUT/victim"',
    "left behind": "(setsid sh -c 'sleep 0.1; echo x > \"$OUT/victim\"' &) ; sleep 0.2",
    "git hook": "echo x > ../.git/hooks/post-commit",
    "git configuration": "echo x >> ../.git/config",
    "parts of .git": "cd ..; mv .git/objects moved; mv .git/logs .git/moved; rm -r .git/refs",
    "settings": "echo x > ../harness.toml",
    "shared memory": 'echo x > "$SHM"',
    "temporary file": 'echo x > "$TMPFILE"',
    "unix socket": "\"$PY\" -I -c \"import socket; s = socket.socket(1); s.connect('$SOCKET'); s.send(b'x')\"",
    "abstract socket": (
        "\"$PY\" -I -c \"import socket; s = socket.socket(1); s.connect('\\0$ABSTRACT'); s.send(b'x')\""
    ),
    "tcp": "\"$PY\" -I -c \"import socket; socket.create_connection(('127.0.0.1', $TCP), 1).send(b'x')\"",
    "udp": "\"$PY\" -I -c \"import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', $UDP))\"",
    "signal": 'kill -9 "$PID"',
    "truncating by a reader": _python("os.open(V, os.O_RDONLY | os.O_TRUNC)"),
    "nameless file named": _python(
        "f = os.open(O, os.O_TMPFILE | os.O_RDWR, 0o600)",
        'L.linkat(-100, f"/proc/self/fd/{f}".encode(), -100, (O + "/new").encode(), 0x400)',
    ),
    "link by descriptor": _python(
        "f = os.open(V, os.O_PATH)",
        'L.linkat(-100, f"/proc/self/fd/{f}".encode(), -100, b"linked", 0x400)',
        'open("linked", "w").write("x")',
    ),
    "exchange": _python('open("own", "w").write("x")', 'L.renameat2(-100, b"own", -100, V.encode(), 2)'),
    "chroot and out": _python(
        'os.mkdir("jail")',
        'd = os.open("/", 0)',
        "L.unshare(0x10000000)",
        'os.chroot("jail")',
        "os.fchdir(d)",
        'os.chroot(".")',
        'open(V, "w").write("x")',
    ),
    "remounted writable": (
        'unshare -Urm sh -c \'mount -o remount,rw,bind "$OUT"; mount -o remount,rw /; echo x > "$OUT/victim"\''
    ),
    "another root": "unshare -Ur chroot / sh -c 'echo x > \"$OUT/victim\"'",
    "left behind twice": (
        '(setsid sh -c \'(setsid sh -c "sleep 0.2; echo x > \\"$OUT/victim\\"" &)\' &) ; sleep 0.4'
    ),
    "user namespace": (
        "mkdir seven; unshare -Urm sh -c 'mount --bind \"$OUT\" seven && echo x > seven/victim'"
    ),
}
ONLY_ROOT = {
    "mount": 'mkdir eight; mount --bind "$OUT" eight && echo x > eight/victim; umount eight',
    "device": "mknod nine c 1 3",
    "kernel setting": "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern && echo wrote it",
}
BEYOND_LANDLOCK = {"mode": 'chmod 777 "$OUT/victim"'}
"""What Landlock knows nothing of; see `confinement`."""
MAY_BE_FORBIDDEN_HERE = {
    "user namespace",
    "chroot and out",
    "remounted writable",
    "another root",
    "mount",
    "device",
    "kernel setting",
    "root of its parent",
}
"""What a machine may refuse to everybody, or the watchdog to all but root: then there is nothing to be seen."""


class World:
    """A workspace, everything around it that could be harmed, and who would notice."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        # Not in /tmp, which bubblewrap hides: what is there must be refused, not missing.
        self.folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="harness-sandbox-"))
        self.root = self.folder / "work"
        (self.root / "sub").mkdir(parents=True)
        (self.root / ".git" / "hooks").mkdir(parents=True)
        (self.root / ".git" / "config").write_text("intact")
        for name in ("objects", "logs", "refs"):
            (self.root / ".git" / name).mkdir()
        (self.root / "harness.toml").write_text("intact")
        for name in self.escapes():
            (self.outside(name)).mkdir(parents=True)
            (self.outside(name) / "victim").write_text("intact")
        self.received: list[str] = []
        self.victim = subprocess.Popen(["sleep", "600"], **process_user(uid))
        self.env = {
            "PATH": os.environ["PATH"],
            "PY": interpreter(uid),
            "SHM": f"/dev/shm/{self.folder.name}",
            "TMPFILE": f"/tmp/{self.folder.name}",
            "PID": str(self.victim.pid),
            **self.listen(),
        }
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, uid, -1)

    def escapes(self) -> dict[str, str]:
        return ESCAPES | BEYOND_LANDLOCK | (ONLY_ROOT if self.uid == 0 else {})

    def outside(self, name: str) -> Path:
        return self.folder / "outside" / name.replace(" ", "-")

    def listen(self) -> dict[str, str]:
        path, abstract = str(self.folder / "socket"), self.folder.name
        listeners = {
            "unix socket": (socket.AF_UNIX, socket.SOCK_STREAM, path),
            "abstract socket": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{abstract}"),
            "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        }
        ports = {}
        self.sockets: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        for name, (family, kind, address) in listeners.items():
            listener = socket.socket(family, kind)
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            ports[name] = listener.getsockname()
            self.sockets.append(listener)
            self.threads.append(threading.Thread(target=self.receive, args=(name, listener), daemon=True))
            self.threads[-1].start()
        os.chmod(path, 0o777)
        return {
            "SOCKET": path,
            "ABSTRACT": abstract,
            "TCP": str(ports["tcp"][1]),
            "UDP": str(ports["udp"][1]),
        }

    def receive(self, name: str, listener: socket.socket) -> None:
        try:
            if listener.type == socket.SOCK_STREAM:
                while True:
                    listener.accept()[0].close()
                    self.received.append(name)
            while listener.recv(10):
                self.received.append(name)
        except OSError:
            return

    def run(self, engine: str) -> dict[str, str]:
        commands = {
            name: f'OUT="{self.outside(name)}"; export OUT; cd sub; {command}'
            for name, command in self.escapes().items()
        }
        asked = {"engine": engine, "root": str(self.root), "env": self.env, "commands": commands}
        done = as_user(self.uid, [str(Path(__file__).with_name("confined_commands.py"))], json.dumps(asked))
        outputs: dict[str, str] = json.loads(done)
        return outputs

    def harmed(self, outputs: dict[str, str]) -> set[str]:
        """The escapes that worked."""
        found = {
            name for name in self.escapes() if tree_of(self.outside(name)) != [("victim", b"intact", 0o644)]
        }
        git = tree_of(self.root / ".git")
        names = {name for name, _, _ in git}
        found |= {"git hook"} if "hooks/post-commit" in names else set()
        found |= {"parts of .git"} if not {"objects", "logs", "refs"} <= names else set()
        found |= {"git configuration"} if ("config", b"intact", 0o644) not in git else set()
        found |= {"settings"} if (self.root / "harness.toml").read_text() != "intact" else set()
        found |= {"shared memory"} if os.path.exists(self.env["SHM"]) else set()
        found |= {"temporary file"} if os.path.exists(self.env["TMPFILE"]) else set()
        found |= {"signal"} if self.victim.poll() is not None else set()
        found |= {"device"} if (self.root / "sub" / "nine").exists() else set()
        found |= {"kernel setting"} if "wrote it" in outputs.get("kernel setting", "") else set()
        return found | set(self.received)

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        for listener in self.sockets:
            if listener.type == socket.SOCK_STREAM:
                listener.shutdown(socket.SHUT_RDWR)
            else:
                listener.sendto(b"", listener.getsockname())
        for thread in self.threads:
            thread.join()
        for listener in self.sockets:
            listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("SHM", "TMPFILE"):
            Path(self.env[name]).unlink(missing_ok=True)


def tree_of(folder: Path) -> list[tuple[str, bytes, int]]:
    return [
        (
            str(path.relative_to(folder)),
            path.read_bytes() if path.is_file() else b"",
            path.stat().st_mode & 0o777,
        )
        for path in sorted(folder.rglob("*"))
    ]


def as_user(uid: int, arguments: list[str], given: str) -> str:
    with as_user_in_background(uid, arguments) as process:
        said, errors = process.communicate(given)
    assert process.returncode == 0, errors
    return said


def as_user_in_background(uid: int, arguments: list[str]) -> subprocess.Popen[str]:
    script, *more = arguments
    return subprocess.Popen(
        [interpreter(uid), readable(uid, script), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **process_user(uid),
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": libraries(uid), "HOME": "/dev/null/nowhere"},
        text=True,
    )


@cache
def is_usable(engine: str) -> bool:
    """By trying it, as Harness does."""
    if engine == "free":
        return True
    if engine == "bubblewrap":
        program = bubblewrap_program(os.environ)
        return bool(program) and not why_not(bubblewrap(program))
    return not why_not({"namespaces": NAMESPACES, "landlock": LANDLOCK}[engine])
