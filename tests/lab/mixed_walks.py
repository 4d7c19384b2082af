"""Sessions that are continued in turn by an agent alone and by Harness, with a real agent and the lab's scripted model.

    python tests/lab/mixed_walks.py [AGENT …] [--programs DIRECTORY] [--keep DIRECTORY] [--no-sub-agent] [--long]

What was used is what the lab has answered: after each step `harness usage` must say the same, and every prompt must be
found. `--long` goes on: through a gateway (whose record must say the same again), held in a conversation, a copy of the
session, and a context that is full. `--random SEED` takes such steps in any order, from the first on, and goes on in copies of
copies, while two processes ask at once. `--programs` holds `AGENT-VERSION/program/…`; without it, programs are those of PATH. Run it where there is no
network but the loopback: `unshare -n sh -c 'ip link set lo up; …'`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.agents.registry import load, load_part
from harness.contracts.agent import Agent
from harness.contracts.command_line import numbers_of
from harness.contracts.pointing import Pointing
from harness.contracts.request import Request
from harness.contracts.script import Script
from harness.errors import UsageError
from harness.events.usage import CLASSES
from harness.lab.offline_agent import OfflineAgent
from harness.models.registry import PROVIDERS
from harness.models.script_file import parse_script
from harness.runs.launch import find_binary, installed_version

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
ANIMALS = (
    *("armadillo", "bandicoot", "capybara", "dugong", "echidna", "ferret", "gazelle", "hyena"),
    *("ibis", "jackal", "kestrel", "lemur", "marmot", "narwhal", "ocelot", "puffin"),
)
"""A word of each prompt, by which it must be found."""
_COURSE = ("alone", "harness", "alone", "harness", "alone")
_LONG = (
    "gateway",
    "replay",
    "asked",
    "alone",
    "fork",
    "alone",
    "fork alone",
    "full",
    "alone",
    "harness",
    "alone",
)
_ANY = {
    "alone": 4,
    "harness": 4,
    "gateway": 2,
    "asked": 2,
    "fork": 2,
    "fork alone": 2,
    "enter": 3,
    "full": 1,
    "replay": 2,
}
"""How often each step is taken where they come in any order; `enter`: go on in the copy that was made last; `replay`: the
last call of the gateway again, from its record, which uses nothing."""
_INPUT, _OUTPUT = 100, 11
_FULL = 400_000
"""Tokens of a prompt beyond every window, so that the agent compacts before the next one."""
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
    at_gateway: int | None = None
    """What its record says of this step; None: there was none."""
    new: int = 0
    """What the model has answered in this step."""

    @property
    def is_right(self) -> bool:
        return self.truth == self.counted and not self.missing and self.at_gateway in (None, self.new)


@dataclass
class Walk:
    agent: str
    steps: list[Step] = field(default_factory=list)
    stopped: str = ""
    """Why it could not go on."""
    refused: list[str] = field(default_factory=list)
    """What could not be done in this way, and why."""


def script_of(*, has_sub_agent: bool, size: int = _INPUT) -> Script:
    """A first prompt with a command, or with a sub-agent that runs one; then one answer for each prompt."""
    work: dict[str, Any] = {"call": "run", "command": "echo walked"}
    spawn = {"call": "agent", "title": "Count", "prompt": "COUNT-FILES: count the files here."}
    usage = {"input": size, "output": _OUTPUT, "cache_read": 0, "cache_write": 0, "reasoning": 0}
    data: dict[str, Any] = {
        "usage": usage,
        "turns": [spawn if has_sub_agent else work, {"text": "It is done."}],
        "order": "arrival",
        "repeat_last": True,
    }
    if has_sub_agent:
        data["lanes"] = {"counter": {"marker": "COUNT-FILES", "turns": [work, {"text": "One."}]}}
    return parse_script(data, "", "")


def random_course(seed: int, steps: int) -> list[str]:
    source = random.Random(seed)
    kinds, weights = list(_ANY), list(_ANY.values())
    course = [source.choice(("alone", "begin"))]
    while len([how for how in course if how != "enter"]) < steps:
        how = source.choices(kinds, weights)[0]
        if how == "enter" and not course[-1].startswith("fork"):
            continue
        if how == "replay" and "gateway" not in course:
            continue
        course.append(how)
    return course


class MixedWalk:
    """One agent in a home of its own, which begins alone and is then continued by Harness and alone in turn."""

    def __init__(
        self, name: str, binary: str, folder: Path, *, has_sub_agent: bool, is_shared: bool = False
    ) -> None:
        """`is_shared`: whenever something is asked, another process asks at the same time."""
        self._is_shared = is_shared
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
            **{key: os.environ[key] for key in ("LANG", "LC_ALL", "PYTHONPATH") if key in os.environ},
            **self._offline.config.env,
            "HOME": str(self._home),
            "PATH": os.pathsep.join([os.path.dirname(binary), os.environ["PATH"]]),
        }
        self._version = numbers_of(installed_version(self._agent, binary, self._env))
        self._session = self._newest = ""
        self._known = set[str]()
        self._at_gateway = ""
        """The log of the last run through it."""
        self._said: list[str] = []
        self._seen, self.truth = 0, 0

    def walk(self, course: Sequence[str] = _COURSE) -> Walk:
        walk = Walk(self._agent.name)
        with self._offline:
            animals = iter(ANIMALS)
            for number, how in enumerate(course):
                if how == "enter":
                    self._session = self._newest
                if how == "enter" or (how.startswith("fork") and not self._can_fork(how)):
                    continue
                if how == "replay" and not self._at_gateway:
                    continue
                animal = next(animals)
                before = self.truth
                done = self._take(how, f"Tell me about the {animal}")
                if done.returncode and how in ("gateway", "asked", "replay") and self.truth == before:
                    walk.refused.append(f"{how}: {done.stderr.strip()}{_errors(done.stdout)}")
                    self._look(how)  # it may have left a session
                    continue
                if how == "gateway":
                    self._at_gateway = _log_of(done.stdout)
                if done.returncode:
                    walk.stopped = f"step {number + 1}, {how}: {done.stdout[-600:]}{done.stderr[-1500:]}"
                    return walk
                self._said += [animal] if how != "replay" else []
                step = self._look(how)
                step.new = step.truth - before
                step.at_gateway = _at_gateway(done.stdout) if how == "gateway" else None
                walk.steps.append(step)
                if not self._session:
                    walk.stopped = "the session is not in the list"
                    return walk
        return walk

    def _take(self, how: str, prompt: str) -> subprocess.CompletedProcess[str]:
        self._offline.use(script_of(has_sub_agent=False, size=_FULL)) if how == "full" else None
        try:
            if how in ("alone", "full", "fork alone"):
                return self._alone(prompt, is_fork=how == "fork alone")
            if how == "begin":
                return self._harness(
                    *("run", "--agent", self._agent.name, "--prompt", prompt),
                    *("--permissions", "full-access", *self._common),
                )
            if how == "replay":
                return self._harness("replay", self._at_gateway, "--binary", self._binary, "--format", "log")
            if how in ("harness", "fork"):
                return self._by_harness(prompt, *(["--fork"] if how == "fork" else []))
            if how == "asked":
                return self._run(prompt, "--permissions", "ask", "--on-ask", "allow")
            return self._run(prompt, "--gateway", "--format", "log", *self._provider, env=self._keys)
        finally:
            self._settle(_FULL if how == "full" else _INPUT)
            if how == "full":
                self._offline.use(script_of(has_sub_agent=False))

    def _settle(self, size: int) -> None:
        """What was answered since the last step, without what an agent asks besides, for a title or a status line: no
        agent stores that. Some first look whether anybody is there, with a request that has no body.
        """
        requests = self._offline.server.requests
        answered = [
            one
            for one in requests[self._seen :]
            if one.outcome == "answered" and one.body and not self._is_beside(one.body)
        ]
        self._seen = len(requests)
        self.truth += len(answered) * (size + _OUTPUT)

    def _can_fork(self, how: str) -> bool:
        two_way = self._agent.two_way if how == "fork" else None
        return "fork" in self._agent.supports | ((two_way and two_way.supports) or frozenset())

    def _is_beside(self, body: Any) -> bool:
        """Grok asks for its status line at the end of the conversation itself."""
        last = (body.get("messages") or [""])[-1] if isinstance(body, dict) else ""
        marker = _STATUS_LINES.get(self._agent.name, "")
        return bool(marker) and marker in json.dumps(last)

    def _alone(self, prompt: str, *, is_fork: bool) -> subprocess.CompletedProcess[str]:
        """The program itself, with the arguments that Harness would give it, and nobody who records it."""
        request = Request(
            agent=self._agent.name,
            prompt=prompt,
            cwd=str(self._cwd),
            model=self._offline.config.model,
            resume=self._session,
            fork=is_fork,
        )
        command = self._agent.command(request, self._version)
        return self._call(
            [self._binary, *command.args, *self._offline.config.args],
            {**self._env, **command.env},
            None if command.stdin is None else command.stdin.decode(),
        )

    def _by_harness(self, prompt: str, *options: str) -> subprocess.CompletedProcess[str]:
        words = ["resume", f"{self._agent.name}:{self._session}", prompt, "--permissions", "full-access"]
        return self._harness(*words, *options, *self._common)

    def _run(
        self, prompt: str, *options: str, env: Mapping[str, str] = {}
    ) -> subprocess.CompletedProcess[str]:
        words = ["run", "--agent", self._agent.name, "--resume", self._session, "--prompt", prompt]
        return self._harness(*words, *options, *self._common, env=env)

    @property
    def _provider(self) -> list[str]:
        """Of agents that may have any."""
        pointing: Pointing | None = load_part(self._agent.name, "gateway")
        if pointing is None or not pointing.needs_model:
            return []
        provider = pointing.provider if PROVIDERS[pointing.provider].urls else "openai-chat"
        return ["--model", f"{provider}/{self._offline.config.model.rpartition('/')[2] or 'scripted'}"]

    @property
    def _keys(self) -> dict[str, str]:
        """What a gateway asks its provider with, which is the lab."""
        url = self._offline.server.url
        addresses = {"ANTHROPIC": url, "OPENAI": f"{url}/v1", "GOOGLE_GEMINI": url}
        keys = {f"{name}_API_KEY": "lab-key" for name in ("ANTHROPIC", "OPENAI", "GEMINI")}
        return {**keys, **{f"{name}_BASE_URL": address for name, address in addresses.items()}}

    @property
    def _common(self) -> list[str]:
        model, extra = self._offline.config.model, self._offline.config.args
        words = ["--binary", self._binary, *(["--model", model] if model else [])]
        return [*words, *(["--", *extra] if extra else [])]

    def _look(self, who: str) -> Step:
        listed = self._json("sessions", "list", "--json", "--limit", "0")
        ids = [one["agent_session_id"] for one in listed if one.get("agent_session_id")]
        self._newest = next((one for one in ids if one not in self._known), self._newest)
        self._known |= {*ids}
        self._session = self._session or self._newest
        usage = self._json("usage", "--json")
        total = usage["total"]
        return Step(
            who=who,
            truth=self.truth,
            counted=sum(total[name] or 0 for name in CLASSES),
            missing=[
                one for one in self._said if not self._json("sessions", "search", one, "--json")["hits"]
            ],
            lines=len(listed),
        )

    def _json(self, *words: str) -> Any:
        if self._is_shared:
            with ThreadPoolExecutor(2) as pool:
                done, other = pool.map(lambda _: self._harness(*words), range(2))
            if (done.returncode, done.stdout) != (other.returncode, other.stdout):
                raise RuntimeError(f"harness {' '.join(words)}: {done.stdout}{other.stdout}{other.stderr}")
        else:
            done = self._harness(*words)
        if done.returncode:
            raise RuntimeError(f"harness {' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout)

    def _harness(self, *words: str, env: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
        return self._call([sys.executable, "-m", "harness", *words], {**self._env, **env}, None)

    def _call(
        self, words: list[str], env: dict[str, str], given: str | None
    ) -> subprocess.CompletedProcess[str]:
        try:
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
        except subprocess.TimeoutExpired as error:
            return subprocess.CompletedProcess(words, 124, str(error.stdout), f"{error.stderr}: {error}")


def _events(stream: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.splitlines() if line.startswith("{")]


def _log_of(stream: str) -> str:
    return next((str(one["run_id"]) for one in _events(stream) if one["type"] == "SessionStart"), "")


def _errors(stream: str) -> str:
    return "".join(f" {one['message']}" for one in _events(stream) if one["type"] == "Error")


def _at_gateway(stream: str) -> int:
    """What the gateway has seen the model use."""
    calls = [one for one in _events(stream) if one["type"] == "ModelCall"]
    return sum((one.get("usage") or {}).get(name) or 0 for one in calls for name in CLASSES)


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
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--random", type=int, metavar="SEED")
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args()
    wrong = 0
    for agent in given.agents:
        binary = program_of(agent, given.programs)
        if not binary:
            print(f"{agent}: not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(given.keep or folder) / agent
            course: Sequence[str] = _COURSE + (_LONG if given.long else ())
            is_random = given.random is not None
            if is_random:
                course = random_course(given.random, given.steps)
            mixed = MixedWalk(agent, binary, place, has_sub_agent=not given.no_sub_agent, is_shared=is_random)
            walk = mixed.walk(course)
        for step in walk.steps:
            missing = f", not found: {', '.join(step.missing)}" if step.missing else ""
            if step.at_gateway is not None:
                missing += f", at the gateway {step.at_gateway} of {step.new}"
            mark = "ok" if step.is_right else "WRONG"
            print(
                f"{agent}: {step.who}: {step.counted} of {step.truth}{missing} ({step.lines} lines) {mark}",
                flush=True,
            )
            wrong += not step.is_right
        for refusal in walk.refused:
            print(f"{agent}: not done: {refusal}", flush=True)
        if walk.stopped:
            print(f"{agent}: stopped: {walk.stopped}", flush=True)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
