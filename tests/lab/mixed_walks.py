"""Sessions that are continued in turn by an agent alone and by Harness, with a real agent and the lab's scripted model.

    python tests/lab/mixed_walks.py [AGENT …] [--programs DIRECTORY] [--keep DIRECTORY] [--no-sub-agent]

What was used is what the lab has answered: after each step `harness usage` must say the same, and every prompt must be
found. `--programs` holds `AGENT-VERSION/program/…`; without it, programs are those of PATH. Run it where there is no
network but the loopback: `unshare -n sh -c 'ip link set lo up; …'`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.agents.registry import load
from harness.contracts.agent import Agent
from harness.contracts.request import Request
from harness.contracts.script import Script
from harness.errors import UsageError
from harness.lab.offline_agent import OfflineAgent
from harness.models.script_file import parse_script
from harness.runs.launch import find_binary

AGENTS = (
    "claude",
    "codex",
    "opencode",
    "kilo",
    "pi",
    "gemini",
    "qwen",
    "kimi",
    "grok",
    "goose",
    "copilot",
    "cline",
    "droid",
)
ANIMALS = ("armadillo", "bandicoot", "capybara", "dugong", "echidna")
"""A word of each prompt, by which it must be found."""
_INPUT, _OUTPUT = 100, 11
_STEP_S = 180.0
_STATUS_LINES = {"grok": "ultra-short dashboard line"}
"""What an agent's model is asked for at the end of a conversation, and no store has."""


@dataclass
class Step:
    who: str
    truth: int
    counted: int
    missing: list[str]
    """Words that are not found."""
    lines: int
    """Of the list, apart from sub-agents'."""

    @property
    def is_right(self) -> bool:
        return self.truth == self.counted and not self.missing


@dataclass
class Walk:
    agent: str
    steps: list[Step] = field(default_factory=list)
    stopped: str = ""
    """Why it could not go on."""


def script_of(*, has_sub_agent: bool) -> Script:
    """A first prompt with a command, or with a sub-agent that runs one; then one answer for each prompt."""
    work: dict[str, Any] = {"call": "run", "command": "echo walked"}
    spawn = {"call": "agent", "title": "Count", "prompt": "COUNT-FILES: count the files here."}
    usage = {"input": _INPUT, "output": _OUTPUT, "cache_read": 0, "cache_write": 0, "reasoning": 0}
    data: dict[str, Any] = {
        "usage": usage,
        "turns": [spawn if has_sub_agent else work, {"text": "It is done."}],
        "order": "arrival",
        "repeat_last": True,
    }
    if has_sub_agent:
        data["lanes"] = {"counter": {"marker": "COUNT-FILES", "turns": [work, {"text": "One."}]}}
    return parse_script(data, "", "")


class MixedWalk:
    """One agent in a home of its own, which begins alone and is then continued by Harness and alone in turn."""

    def __init__(self, name: str, binary: str, folder: Path, *, has_sub_agent: bool) -> None:
        self._agent: Agent = load(name)
        self._binary = binary
        self._home, self._cwd = folder / "home", folder / "project"
        for made in (self._home, self._cwd):
            made.mkdir(parents=True)
        (self._cwd / "README.md").write_text("a project\n")
        self._folder = folder
        script = script_of(has_sub_agent=has_sub_agent)
        try:
            self._offline = OfflineAgent(script, name, home=str(self._home), cwd=str(self._cwd))
        except UsageError:  # it has no sub-agents
            script = script_of(has_sub_agent=False)
            self._offline = OfflineAgent(script, name, home=str(self._home), cwd=str(self._cwd))
        self._env = {
            **{key: os.environ[key] for key in ("LANG", "LC_ALL") if key in os.environ},
            **self._offline.config.env,
            "HOME": str(self._home),
            "PATH": os.pathsep.join([os.path.dirname(binary), os.environ["PATH"]]),
        }
        self._session = ""

    def walk(self) -> Walk:
        walk = Walk(self._agent.name)
        with self._offline:
            for number, animal in enumerate(ANIMALS):
                prompt, is_native = f"Tell me about the {animal}", number % 2 == 0
                done = self._alone(prompt) if is_native else self._by_harness(prompt)
                if done.returncode:
                    walk.stopped = f"step {number + 1}: {done.stdout[-600:]}{done.stderr[-1500:]}"
                    return walk
                walk.steps.append(self._look("alone" if is_native else "harness", ANIMALS[: number + 1]))
                if not self._session:
                    walk.stopped = "the session is not in the list"
                    return walk
        return walk

    @property
    def truth(self) -> int:
        """Without what an agent asks besides, for a title or a status line: no agent stores that."""
        requests = self._offline.server.requests
        answered = [one for one in requests if one.outcome == "answered" and not self._is_beside(one.body)]
        return len(answered) * (_INPUT + _OUTPUT)

    def _is_beside(self, body: Any) -> bool:
        """Grok asks for its status line at the end of the conversation itself."""
        last = (body.get("messages") or [""])[-1] if isinstance(body, dict) else ""
        marker = _STATUS_LINES.get(self._agent.name, "")
        return bool(marker) and marker in json.dumps(last)

    def _alone(self, prompt: str) -> subprocess.CompletedProcess[str]:
        """The program itself, with the arguments that Harness would give it, and nobody who records it."""
        request = Request(
            agent=self._agent.name,
            prompt=prompt,
            cwd=str(self._cwd),
            model=self._offline.config.model,
            resume=self._session,
        )
        command = self._agent.command(request, (999,))
        return self._call(
            [self._binary, *command.args, *self._offline.config.args],
            {**self._env, **command.env},
            None if command.stdin is None else command.stdin.decode(),
        )

    def _by_harness(self, prompt: str) -> subprocess.CompletedProcess[str]:
        words = ["resume", f"{self._agent.name}:{self._session}", prompt, "--binary", self._binary]
        model = self._offline.config.model
        words += ["--model", model] if model else []
        words += ["--permissions", "full-access"]
        extra = ["--", *self._offline.config.args] if self._offline.config.args else []
        return self._harness(*words, *extra)

    def _look(self, who: str, animals: tuple[str, ...]) -> Step:
        listed = self._json("sessions", "list", "--json", "--limit", "0")
        if not self._session and listed:
            self._session = listed[-1]["agent_session_id"]
        usage = self._json("usage", "--json")
        total = usage["total"]
        return Step(
            who=who,
            truth=self.truth,
            counted=sum(
                total[name] or 0 for name in ("input", "output", "cache_read", "cache_write", "reasoning")
            ),
            missing=[one for one in animals if not self._json("sessions", "search", one, "--json")["hits"]],
            lines=len(listed),
        )

    def _json(self, *words: str) -> Any:
        done = self._harness(*words)
        if done.returncode:
            raise RuntimeError(f"harness {' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout)

    def _harness(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._call([sys.executable, "-m", "harness", *words], self._env, None)

    def _call(
        self, words: list[str], env: dict[str, str], given: str | None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self._cwd,
            env=env,
            input=given if given is not None else "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_STEP_S,
            check=False,
        )


def _version_of(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder.parent.name)]


def program_of(agent: str, programs: str) -> str:
    """The agent's program below this folder, or on PATH; empty if there is none."""
    known = load(agent)
    folders = (
        sorted(Path(programs).glob(f"{agent}-*/program"), key=_version_of, reverse=True) if programs else []
    )
    places = [str(folder) for folder in folders] if programs else [os.environ.get("PATH", "")]
    return next(filter(None, (find_binary(known, "", {"PATH": place}) for place in places)), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("agents", nargs="*", default=AGENTS)
    parser.add_argument("--programs", default="")
    parser.add_argument("--keep", default="", help="leave the homes there")
    parser.add_argument("--no-sub-agent", action="store_true")
    given = parser.parse_args()
    wrong = 0
    for agent in given.agents:
        binary = program_of(agent, given.programs)
        if not binary:
            print(f"{agent}: not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(given.keep or folder) / agent
            walk = MixedWalk(agent, binary, place, has_sub_agent=not given.no_sub_agent).walk()
        for step in walk.steps:
            missing = f", not found: {', '.join(step.missing)}" if step.missing else ""
            mark = "ok" if step.is_right else "WRONG"
            print(
                f"{agent}: {step.who}: {step.counted} of {step.truth}{missing} ({step.lines} lines) {mark}",
                flush=True,
            )
            wrong += not step.is_right
        if walk.stopped:
            print(f"{agent}: stopped: {walk.stopped}", flush=True)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
