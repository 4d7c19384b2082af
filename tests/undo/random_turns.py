"""Random turns of an agent, and edits of a user beside them, in a real folder with git.

The folder is read here by `os.walk`, apart from the code under test, so that a fault of its walk is seen.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

AGENT, USER = "a", "u"
_FOLDERS = ("", "src/", "src/deep/", "doc/", "vendor/sub/")


class Seen(NamedTuple):
    kind: str
    mode: int
    data: bytes

    @property
    def lines(self) -> list[bytes]:
        return self.data.splitlines() if self.kind == "f" and b"\0" not in self.data else []


class RandomFolder:
    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.root = folder / "tree"
        self.root.mkdir()
        self.marker = folder / "EXECUTED"
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "a@a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        self._count = 0
        self.recent: list[str] = []
        """What the agent has changed last: the user works on it, too."""
        self.has_git = shutil.which("git") is not None
        self._fill()

    def _fill(self) -> None:
        for number in range(40):
            path = f"{_FOLDERS[number % 5]}f{number}.{('py', 'md')[number % 2]}"
            self._write(path, self._lines(USER, self.random.randint(3, 60)))
        self._write(".gitignore", b"node_modules/\nbuild/\n.env\n*.tar\n")
        self._write(".env", b"KEY=1\n")
        self._write(".gitattributes", b"* filter=evil diff=evil\n")
        self._write(os.fsdecode(b"src/na\xefve \xff.txt"), self._lines(USER, 9))
        if not self.has_git:
            return
        self._shell("git init -q && git add -A && git commit -qm first")
        self._shell("cd vendor/sub && git init -q && git add -A && git commit -qm sub")
        programs = f"touch {self.marker}"
        for repository in (".git", "vendor/sub/.git"):
            with (self.root / repository / "config").open("a", encoding="utf-8") as file:
                file.write(f'[filter "evil"]\n clean = {programs}; cat\n smudge = {programs}; cat\n')
                file.write(f"[core]\n fsmonitor = {programs}\n")

    def look(self) -> dict[str, Seen]:
        """Path → how it is, without git's own files."""
        all_paths: dict[str, Seen] = {}
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name != ".git"]
            for name in [*folders, *files]:
                full = os.path.join(folder, name)
                status = os.lstat(full)
                mode = stat.S_IMODE(status.st_mode)
                relative = os.path.relpath(full, self.root)
                if stat.S_ISLNK(status.st_mode):
                    all_paths[relative] = Seen("l", 0, os.fsencode(os.readlink(full)))
                elif stat.S_ISDIR(status.st_mode):
                    all_paths[relative] = Seen("d", mode, b"")
                else:
                    all_paths[relative] = Seen("f", mode, Path(full).read_bytes())
        return all_paths

    def git_files(self) -> str:
        digest = hashlib.sha256()
        for folder, folders, files in os.walk(self.root / ".git"):
            folders.sort()
            for name in sorted(files):
                digest.update(name.encode() + Path(folder, name).read_bytes())
        return digest.hexdigest()

    def forget_programs(self) -> None:
        """What the agent's own git commands have run is the agent's affair."""
        self.marker.unlink(missing_ok=True)

    def act(self, who: str) -> None:
        """One thing that an agent or a user does; agents run commands, too."""
        paths = self.look()
        file = self._some(paths, "f")
        if who == USER and self.random.random() < 0.6:
            mine = [path for path in self.recent if paths.get(path, Seen("", 0, b"")).kind == "f"]
            file = self.random.choice(mine) if mine else file
        acts = [*_BOTH * 3, *_BY_COMMAND] if who == AGENT else [*_BOTH]
        try:
            self.random.choice(acts)(self, who, file, self._some(paths, "d"))
        except OSError:
            pass  # as commands fail: on a folder that is a link, a file that is read-only

    def _some(self, paths: dict[str, Seen], kind: str) -> str:
        names = sorted(path for path, seen in paths.items() if seen.kind == kind)
        return self.random.choice(names) if names else "nothing"

    def _lines(self, who: str, count: int) -> bytes:
        lines = []
        for _ in range(count):
            self._count += 1
            lines.append(f"{who}{self._count} {self.random.random()}\n".encode())
        return b"".join(lines)

    def _write(self, path: str, data: bytes) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(data)

    def _name(self, who: str) -> str:
        folder = self.random.choice((*_FOLDERS, f"new{self.random.randint(0, 3)}/"))
        return f"{folder}{who}{self.random.randint(0, 40)}.{self.random.choice(('py', 'md', 'txt'))}"

    def _shell(self, command: str) -> None:
        subprocess.run(
            ["sh", "-c", command], cwd=self.root, env=self._environment, capture_output=True, check=False
        )

    # --- what both do

    def edit(self, who: str, file: str, folder: str) -> None:
        del folder
        full = self.root / file
        lines = full.read_bytes().splitlines(keepends=True)
        if b"\0" in b"".join(lines):
            return
        for _ in range(self.random.randint(1, 3)):
            at, chance = self.random.randint(0, len(lines)), self.random.random()
            if chance < 0.5 or not lines:
                lines[at:at] = [self._lines(who, 1) for _ in range(self.random.randint(1, 3))]
            elif chance < 0.8:
                lines[at % len(lines)] = self._lines(who, 1)
            else:
                del lines[at % len(lines) : at % len(lines) + self.random.randint(1, 2)]
        if self.random.random() < 0.5:
            full.write_bytes(b"".join(lines))
            return
        beside = full.with_name(full.name + ".tmp~")  # as editors do it
        beside.write_bytes(b"".join(lines))
        beside.chmod(stat.S_IMODE(full.stat().st_mode))
        beside.rename(full)

    def create(self, who: str, file: str, folder: str) -> None:
        del file, folder
        path = self._name(who)
        self._write(path, self._lines(who, self.random.randint(0, 30)))
        if self.random.random() < 0.5:
            (self.root / path).chmod(self.random.choice((0o755, 0o600)))

    def create_binary(self, who: str, file: str, folder: str) -> None:
        del file, folder
        self._write(f"{self._name(who)}.bin", self.random.randbytes(self.random.choice((10, 5_000, 70_000))))

    def remove(self, who: str, file: str, folder: str) -> None:
        del who, folder
        (self.root / file).unlink()

    def set_mode(self, who: str, file: str, folder: str) -> None:
        del who, folder
        (self.root / file).chmod(self.random.choice((0o644, 0o755, 0o600, 0o444)))

    def move(self, who: str, file: str, folder: str) -> None:
        del folder
        (self.root / file).rename(self.root / self._name(who).replace("/", "_"))

    def link(self, who: str, file: str, folder: str) -> None:
        del who, file, folder
        target = self.random.choice(("/etc", "../..", "src", "nowhere"))
        self._shell(f"ln -sfn {target} link{self.random.randint(0, 4)}")

    def set_secret(self, who: str, file: str, folder: str) -> None:
        del who, file, folder
        (self.root / f"empty{self.random.randint(0, 3)}" / "a").mkdir(parents=True, exist_ok=True)
        self._write(".env", f"SECRET={self.random.random()}\n".encode())

    # --- what only commands do

    def command(self, who: str, file: str, folder: str) -> None:
        del who
        commands = [
            f"rm -rf '{folder}'",
            f"sed -i 's/u/AGENT/; 2d' '{file}'",
            "for f in $(find . -name '*.py' -not -path './.git/*' | head -5); do sed -i '1i # head' $f; done",
            f"rm -rf '{folder}' && ln -s /tmp '{folder}'",
            f"rm '{file}' && mkdir '{file}' && echo x > '{file}/inner'",
            "mkdir -p node_modules/m && seq 300 | while read i; do echo $i > node_modules/m/$i.js; done",
            "rm -rf node_modules build",
            "tar cf build.tar src 2>/dev/null; mkdir -p build; cp -r src build/ 2>/dev/null",
        ]
        if self.has_git:
            commands += [
                "git add -A && git commit -qm agent",
                "git checkout -q -- . ; git stash -q ; git stash drop -q",
                "git clean -fdxq",
            ]
        self._shell(self.random.choice(commands))


_BOTH = (
    *(RandomFolder.edit,) * 6,
    *(RandomFolder.create,) * 2,
    RandomFolder.create_binary,
    RandomFolder.remove,
    RandomFolder.set_mode,
    RandomFolder.move,
    RandomFolder.link,
    RandomFolder.set_secret,
)
_BY_COMMAND = (RandomFolder.command,) * 12
