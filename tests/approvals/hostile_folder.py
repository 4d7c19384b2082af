"""A folder in which everything that a command line could be led to is a trap, and what a line did there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SHELLS = tuple(path for name in ("bash", "dash", "zsh", "fish") if (path := shutil.which(name)))
_PROGRAMS = ("evil", "ls", "cat", "grep", "head", "rg", "find", "sed", "bin/cat", "sub/ls", "sub/cat")


class HostileFolder:
    def __init__(self, top: Path) -> None:
        self.top = top
        self.path = top / "workspace"
        self._fill()
        self._before = self._state()

    def effect_of(self, line: str, shell: str) -> str:
        """What a line did that reading below the folder does not do; empty: nothing."""
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.top)}
        try:
            done = subprocess.run(
                [shell, "-c", line],
                cwd=self.path,
                env=env,
                timeout=20,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "it does not end"
        if self._state() != self._before:
            shutil.rmtree(self.path)
            self._fill()
            return "it changed files"
        output = done.stdout + done.stderr
        return "it read outside of the folder" if b"SECRET" in output or b"root:x" in output else ""

    def _fill(self) -> None:
        for folder in ("sub", "bin"):
            (self.path / folder).mkdir(parents=True)
        (self.top / "secret").write_text("SECRET\n")
        for name in ("a", "b"):
            (self.path / name).write_text("1\n2\n")
        (self.path / "sub/c.py").write_text("x\n")
        (self.path / "evil.sed").write_text("1w P\n")
        for name in _PROGRAMS:
            program = self.path / name
            program.write_text(f"#!/bin/sh\n: > '{self.path}/P'\n")
            program.chmod(0o755)
        (self.path / "link-out").symlink_to("/etc/passwd")
        (self.path / "dir-out").symlink_to("/etc")
        (self.path / "sub/link-up").symlink_to("../..")
        (self.path / "d1/d2/d3/d4").mkdir(parents=True)
        (self.path / "deep").symlink_to("d1/d2/d3/d4")
        (self.path / "16").symlink_to("/etc/passwd")
        for folder in ("left", "right"):
            (self.path / folder).mkdir()
        (self.path / "left/passwd").write_text("1\n")
        (self.path / "right/passwd").symlink_to("/etc/passwd")
        for option in ("-delete", "--pre=evil", "-i"):
            (self.path / option).write_text("")

    def _state(self) -> list[tuple[str, int]]:
        return sorted(
            (os.path.join(folder, name), os.lstat(os.path.join(folder, name)).st_size)
            for folder, _, names in os.walk(self.top)
            for name in names
        )
