"""A package that brings an agent and is broken: it is named once, and breaks nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.agents.registry import all_names, load, load_all
from harness.clients import installed_agents
from harness.errors import BrokenPlugin

BROKEN = {
    "raises": "raise RuntimeError('no such\\nsecond line')",
    "exits": "import sys; sys.exit(3)",
    "needs-more": "import a_module_that_is_missing",
    "is-no-agent": "AGENT = 42",
    "has-none": "",
    "has-a-class": "from harness.contracts.agent import Agent as AGENT",
    "is-nonsense": "def (",
}


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as `pip install` would leave it, for each of them."""
    for name, code in BROKEN.items():
        module = f"broken_{name.replace('-', '_')}"
        (tmp_path / f"{module}.py").write_text(code)
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: package-{name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[harness.agents]\n{name} = {module}:AGENT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", BROKEN)
def test_the_error_of_a_broken_plugin_names_its_package(plugins: Path, name: str) -> None:
    with pytest.raises(BrokenPlugin, match=f"package-{name}") as raised:
        load(name.replace("-", "_").upper())
    assert "\n" not in raised.value.words
    assert f"package-{name}" in raised.value.hint


def test_all_others_are_there_and_each_broken_one_is_reported_once(plugins: Path) -> None:
    agents, broken = load_all()
    assert set(BROKEN) <= set(all_names())
    assert {"claude", "codex", "native"} <= {agent.name for agent in agents}
    assert not set(BROKEN) & {agent.name for agent in agents}
    assert len(broken) == len(BROKEN)
    assert {"claude", "codex"} <= {found.agent.name for found in installed_agents.everything()}


@pytest.mark.parametrize(
    "words",
    [
        ["agents"],
        ["agents", "list", "--all", "--json"],
        ["agents", "capabilities", "--json"],
        ["doctor", "--quick"],
        ["run", "-a", "native", "-m", "scripted/demo", "-p", "hi", "--dry-run"],
    ],
    ids=" ".join,
)
def test_commands_go_on_and_name_each_once(plugins: Path, words: list[str], tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "PYTHONPATH": str(plugins),
        "PATH": str(Path(sys.executable).parent),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    program = [sys.executable, "-c", "from harness.cli.main import entry; entry()"]
    done = subprocess.run(
        [*program, *words],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "bug in harness" not in done.stderr
    for name in BROKEN:
        assert done.stderr.count(f"the plugin {name} ") == (0 if words[0] == "run" else 1), done.stderr
