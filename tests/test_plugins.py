"""An agent from another package: one file, found through its entry point, and nothing else changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.agents.registry import all_names, load
from harness.errors import UnknownAgent
from harness.events import Message, Result
from harness.testing.golden import Case, check, rewrite, translate

AGENT_FILE = """
from harness.events import Message, Result
from harness.contracts.agent import Agent, CommandLine
from harness.contracts.translator import Translator


class Parrot(Translator):
    rules = {"say": "_say", "end": "_end", "noise": ""}

    def _say(self, record):
        return [Message(role="assistant", text=str(record.get("text", "")))]

    def _end(self, record):
        return [Result(success=True)]


AGENT = Agent(
    name="parrot",
    title="Parrot",
    binaries=("parrot",),
    command=lambda request, version: CommandLine(args=("--json",), stdin=request.prompt.encode()),
    translator=Parrot,
    supports=frozenset({"model"}),
)
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as `pip install` would leave it: a module, and metadata that names the entry point."""
    (tmp_path / "parrot_agent.py").write_text(AGENT_FILE)
    metadata = tmp_path / "parrot_agent-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot-agent\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[harness.agents]\nparrot = parrot_agent:AGENT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path  # type: ignore[misc]
    sys.modules.pop("parrot_agent", None)


def test_a_plugin_is_an_agent_like_any_other(plugin: Path) -> None:
    assert "parrot" in all_names()
    assert load("parrot").title == "Parrot"


def test_a_plugin_is_tested_with_the_same_goldens(plugin: Path) -> None:
    folder = plugin / "agents" / "parrot" / "1.0" / "hello"
    folder.mkdir(parents=True)
    (folder / "stdout.jsonl").write_text('{"type":"noise"}\n{"type":"say","text":"hello"}\n{"type":"end"}\n')
    (folder / "meta.json").write_text('{"agent":"parrot","prompt":"hi","exit_code":0}')
    case = Case("parrot", "1.0", "hello", folder)

    assert list(rewrite([case]))
    assert check(case) == ""
    _, events = translate(case)
    assert [type(event) for event in events[2:]] == [Message, Result]


def test_without_the_package_there_is_no_such_agent() -> None:
    with pytest.raises(UnknownAgent):
        load("parrot")
