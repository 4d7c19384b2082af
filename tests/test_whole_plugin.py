"""A package brings a whole agent: built as a wheel, installed beside ours into an empty environment, used by the command.

Nothing is fetched: the two libraries that Harness needs are copied from the environment of these tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from source_tree import ROOT

LIBRARIES = ("msgspec", "hyperscan")
SCRIPT = """
turns = [
  [{ text = "Let me look." }, { call = "run", command = "touch pond && echo otters swim" }],
  [{ text = "They swim." }],
]
"""
OTHER_SCRIPT = 'turns = [[{ tool = "bash", input = { command = "echo 42" } }], [{ text = "It is 42." }]]'


class Machine:
    """An environment with both packages, a home, and a folder to work in."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.programs, self.home, self.work = folder, programs, folder / "home", folder / "work"
        for path in (self.home, self.work):
            path.mkdir()
        self.env = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "HOME": str(self.home)}

    def run(self, *words: str, **env: str) -> str:
        done = subprocess.run(
            [str(self.programs / "harness"), *words],
            cwd=self.work,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def script(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    example = folder / "otter"
    shutil.copytree(ROOT / "examples" / "otter", example, ignore=shutil.ignore_patterns("__pycache__"))
    for source in (ROOT, example):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=120)
    empty = folder / "empty"
    venv.create(empty, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(empty / "bin" / "python")]
    options = ["--disable-pip-version-check", "--no-input", "--no-index", "--no-deps"]
    wheels = sorted(map(str, folder.glob("*.whl")))
    assert len(wheels) == 2
    subprocess.run([*pip, "install", *options, *wheels], check=True, capture_output=True, timeout=120)
    [packages] = empty.glob("lib/python3*/site-packages")
    for library in LIBRARIES:
        _copy(library, packages)
    return empty / "bin"


def _copy(library: str, packages: Path) -> None:
    """With its metadata, as installed."""
    installed = distribution(library)
    for file in installed.files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(installed.locate_file(file)), target)


@pytest.fixture
def machine(programs: Path, tmp_path: Path) -> Machine:
    return Machine(tmp_path, programs)


@pytest.fixture
def lab(machine: Machine) -> Iterator[dict[str, str]]:
    """`harness lab serve`: what it prints is the environment in which the agent reaches the scripted model."""
    command = [str(machine.programs / "harness"), "lab", "serve", machine.script("lab.toml", SCRIPT)]
    with subprocess.Popen(
        [*command, "--agent", "otter", "--home", str(machine.folder / "lab"), "--cwd", str(machine.work)],
        env=machine.env,
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        try:
            yield _printed(serving)
        finally:
            serving.terminate()


def _printed(serving: subprocess.Popen[str]) -> dict[str, str]:
    assert serving.stdout is not None
    variables: dict[str, str] = {}
    for text in serving.stdout:
        name, is_variable, value = text.strip().removeprefix("export ").partition("=")
        if is_variable and name.startswith("OTTER_"):
            variables[name] = value
        if "OTTER_URL" in variables:
            break
    return variables


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.split("\n") if line]


def texts(read: list[dict[str, object]]) -> list[object]:
    return [event["text"] for event in read if event["type"] == "Message" and event["role"] == "assistant"]


def test_the_agent_is_listed_and_every_part_of_it_is_found(machine: Machine) -> None:
    assert "otter" in machine.run("agents", "list")
    code = "import harness.agents.registry as r; print([r.load_part('otter', p) is not None for p in ('store', 'writer', 'lab')])"
    parts = subprocess.run(
        [str(machine.programs / "python"), "-c", code],
        env=machine.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert parts.stdout == "[True, True, True]\n"
    assert not [path for path in Path(machine.programs.parent).rglob("*.pth") if "harness" in path.name]


def test_it_runs_in_the_lab_and_its_own_history_is_read(machine: Machine, lab: dict[str, str]) -> None:
    run = events(machine.run("run", "-a", "otter", "-p", "What do otters do?", "--format", "ndjson", **lab))
    assert texts(run) == ["Let me look.", "They swim."]
    assert [event.get("output") for event in run if event["type"] == "ToolEnd"] == ["otters swim\n"]
    assert (run[-1]["type"], run[-1]["success"]) == ("Result", True)
    assert "otter" in machine.run("histories")
    stored = next(machine.home.glob(".otter/sessions/*.jsonl")).stem
    shown = events(machine.run("sessions", "show", f"otter:{stored}", "--format", "ndjson"))
    assert texts(shown) == ["Let me look.", "They swim."]


@pytest.mark.parametrize(("policy", "output"), [("allow", "otters swim\n"), ("deny", "not allowed")])
def test_it_is_held_in_a_conversation_and_asks(
    machine: Machine, lab: dict[str, str], policy: str, output: str
) -> None:
    words = ["run", "-a", "otter", "-p", "Look.", "--permissions", "ask", "--on-ask", policy]
    run = events(machine.run(*words, "--format", "ndjson", **lab))
    assert [event.get("output") for event in run if event["type"] == "ToolEnd"] == [output]
    assert (machine.work / "pond").exists() is (policy == "allow")


def test_it_continues_what_another_agent_began(machine: Machine) -> None:
    model = f"scripted/{machine.script('other.toml', OTHER_SCRIPT)}"
    machine.run("run", "-a", "native", "-m", model, "-p", "What is six times seven?")
    machine.run("hand-over", "last", "--to", "otter")
    [path] = machine.home.glob(".otter/sessions/*.jsonl")
    records = [json.loads(line) for line in path.read_text().split("\n") if line]
    assert [record["kind"] for record in records] == ["session", "user", "call", "result", "say"]
    assert records[2]["tool"] == "sh"
    assert records[-1]["text"] == "It is 42."
