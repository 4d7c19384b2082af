"""`harness completion`: scripts for shells that know every command, agent and format."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli_machine import CliMachine
from harness.agents import registry
from harness.cli import parser
from harness.clients import formats
from harness.errors import how_to_install
from python_programs import PYTHON

shtab = pytest.importorskip("shtab", reason="completion is written by shtab: pip install shtab")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_a_script_knows_commands_agents_and_formats(cli: CliMachine, shell: str) -> None:
    answer = cli.call("completion", shell)
    assert (answer.code, answer.err) == (0, "")
    for name in (*parser.names(), *registry.names(), *formats.spellings()):
        assert name in answer.out, name


def test_the_script_for_bash_completes(cli: CliMachine) -> None:
    script = cli.call("completion", "bash").out
    (cli.project / "script").write_text(
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
        ("doctor --scenario to", "todo tour"),
        ("completion po", "powershell"),
    ],
)
def test_values_that_can_be_known_are_completed(cli: CliMachine, words: str, offered: str) -> None:
    count = len(words.split())
    (cli.project / "script").write_text(
        cli.call("completion", "bash").out
        + f'\nCOMP_WORDS=(harness {words}); COMP_CWORD={count}; _shtab_harness; echo "${{COMPREPLY[@]}}"\n'
    )
    done = subprocess.run(["/bin/bash", "script"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == offered.split(), done.stderr


def _offered(cli: CliMachine, words: str) -> list[str]:
    """What a real bash completes, asked with its own machinery."""
    (cli.project / "script").write_text(cli.call("completion", "bash").out)
    *before, last = words.split(" ")
    array = " ".join(f"'{word}'" for word in [*before, last])
    asked = f"source script; COMP_WORDS=({array}); COMP_CWORD={len(before)}; _shtab_harness; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["/bin/bash", "-c", asked],
        capture_output=True,
        text=True,
        check=False,
        cwd=cli.project,
        env=cli.environ,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    "words",
    [
        "harness translate -a pi rec",
        "harness run --prompt-file rec",
        "harness run --recording rec",
        "harness run -o rec",
        "harness lab check rec",
    ],
)
def test_files_are_completed_where_a_file_is_wanted(cli: CliMachine, words: str) -> None:
    (cli.project / "recording.jsonl").write_text("")
    assert _offered(cli, words) == ["recording.jsonl"]


def test_folders_are_completed_where_a_folder_is_wanted(cli: CliMachine) -> None:
    (cli.project / "recording.jsonl").write_text("")
    (cli.project / "records").mkdir()
    assert _offered(cli, "harness run --cwd rec") == ["records"]


def test_ids_of_sessions_are_completed(cli: CliMachine) -> None:
    (cli.bin / "harness").write_text(f'#!/bin/sh\nexec {PYTHON} -m harness "$@"\n')
    (cli.bin / "harness").chmod(0o755)
    cli.install("claude")
    cli.call("run", "-a", "claude", "-p", "x")
    (log,) = cli.logs()
    assert _offered(cli, f"harness sessions show {log.stem[:6]}") == [log.stem]
    assert _offered(cli, "harness sessions show la") == ["last"]


def test_without_the_package_it_shows_what_to_install(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    answer = cli.call("completion", "bash")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"harness: completion needs the package shtab\n  {how_to_install('completion')}\n"
