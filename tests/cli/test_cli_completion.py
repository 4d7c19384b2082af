"""`harness completion`: scripts for shells that know every command, agent and format."""

from __future__ import annotations

import subprocess
import sys

import pytest
from world import World

from harness.interfaces.cli import formats, parser
from harness.sources import registry

shtab = pytest.importorskip("shtab")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_a_script_knows_commands_agents_and_formats(world: World, shell: str) -> None:
    answer = world.call("completion", shell)
    assert (answer.code, answer.err) == (0, "")
    for name in (*parser.names(), *registry.names(), *formats.spellings()):
        assert name in answer.out, name


def test_the_script_for_bash_completes(world: World) -> None:
    script = world.call("completion", "bash").out
    (world.project / "script").write_text(
        script
        + '\nCOMP_WORDS=(harness run --format nd); COMP_CWORD=3; COMP_LINE="harness run --format nd"; _shtab_harness; echo "${COMPREPLY[@]}"'
        + '\nCOMP_WORDS=(harness sess); COMP_CWORD=1; COMP_LINE="harness sess"; _shtab_harness; echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["/bin/bash", "script"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["ndjson", "sessions"], done.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("run --permissions r", "read-only"),
        ("config get default_a", "default_agent"),
        ("sessions show l", "last"),
        ("doctor --scenario to", "todo tour"),
        ("completion po", "powershell"),
    ],
)
def test_values_that_can_be_known_are_completed(world: World, words: str, offered: str) -> None:
    count = len(words.split())
    (world.project / "script").write_text(
        world.call("completion", "bash").out
        + f'\nCOMP_WORDS=(harness {words}); COMP_CWORD={count}; _shtab_harness; echo "${{COMPREPLY[@]}}"\n'
    )
    done = subprocess.run(["/bin/bash", "script"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == offered.split(), done.stderr


def test_without_the_package_it_says_what_to_install(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    answer = world.call("completion", "bash")
    assert (answer.code, answer.out) == (2, "")
    assert (
        answer.err
        == "harness: completion needs the package shtab\n  pip install 'harness-agents[completion]'\n"
    )
