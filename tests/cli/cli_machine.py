"""A machine of its own for each test: a home, a project, and agents that are small real scripts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "harness.cli.main")
PROGRAMS = ("cat", "sh", "sleep", "head")

CLAUDE_LINES = (
    '{"type":"system","subtype":"init","session_id":"mock-session","model":"claude-mock","cwd":"/mock","tools":[]}',
    '{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"I will look."}]},"session_id":"mock-session"}',
    '{"type":"result","subtype":"success","is_error":false,"result":"Analysis complete.","session_id":"mock-session","duration_ms":1500,"total_cost_usd":0.043,"usage":{"input_tokens":1200,"output_tokens":345}}',
)
CODEX_LINES = (
    '{"type":"thread.started","thread_id":"th-mock"}',
    '{"type":"turn.started"}',
    '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Working on it."}}',
    '{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"ls","status":"in_progress"}}',
    '{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"ls","aggregated_output":"a.txt\\n","exit_code":0,"status":"completed"}}',
    '{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":10,"output_tokens":20}}',
)
LINES = {"claude": CLAUDE_LINES, "codex": CODEX_LINES}
VERSIONS = {"claude": "2.1.325 (Claude Code)", "codex": "codex-cli 0.166.0"}


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.split("\n") if line]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass
class CliMachine:
    """`call` answers a command line in this process; `spawn` starts a real one."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)
    spawned: list[subprocess.Popen[bytes]] = field(default_factory=list)
    call: Callable[..., Answer] = lambda *_: Answer(-1, "", "not connected")

    def __post_init__(self) -> None:
        for folder in (self.home, self.bin, self.project):
            folder.mkdir()
        for program in PROGRAMS:
            (self.bin / program).symlink_to(shutil.which(program) or "/bin/false")
        self.environ |= {"HOME": str(self.home), "PATH": str(self.bin), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def sessions(self) -> Path:
        return self.home / ".local/share/harness/sessions"

    def settle(self, text: str) -> Path:
        """A harness.toml that the user trusts."""
        path = self.project / "harness.toml"
        path.write_text(text)
        self.call("trust", "--yes")
        return path

    def install(self, name: str, *lines: str, before: str = "", after: str = "") -> Path:
        """An agent that reads its prompt, then writes these lines; the rest is shell."""
        text = "\n".join(lines or LINES[name])
        return self.script(
            name,
            f'[ "$1" = --version ] && {{ echo "{VERSIONS.get(name, "1.0")}"; exit 0; }}\n'
            f"{before or 'cat >/dev/null'}\ncat <<'EOL'\n{text}\nEOL\n{after}\n",
        )

    def script(self, name: str, body: str) -> Path:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}")
        path.chmod(0o755)
        return path

    def spawn(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        options = {
            "bufsize": 0,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        }
        environ = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), **self.environ}
        process = subprocess.Popen([*COMMAND, *words], cwd=self.project, env=environ, **options)
        self.spawned.append(process)
        return process

    def clean_up(self) -> None:
        for process in self.spawned:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def logs(self) -> list[Path]:
        return sorted(self.sessions.glob("*.ndjson"))

    def log(self) -> list[dict[str, Any]]:
        """The events of the only session there is."""
        (path,) = self.logs()
        return [json.loads(line) for line in path.read_text().split("\n") if line]

    def metadata(self) -> dict[str, Any]:
        (path,) = self.sessions.glob("*.meta.json")
        data: dict[str, Any] = json.loads(path.read_text())
        return data


def wait_until(condition: Callable[[], Any], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
