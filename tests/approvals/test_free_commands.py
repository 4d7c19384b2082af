"""Command lines that are not asked about: only what is proved to read below the folder, tried in real shells."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from command_line_corpus import DOING_MORE, READING
from harness.approvals.command_grammar import parse
from harness.approvals.free_commands import _PROGRAMS, free_programs, why_asked
from harness.approvals.work_folder import WorkFolder
from hostile_folder import SHELLS, HostileFolder

CLEAN = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
EVERY = frozenset({*_PROGRAMS, "find", "sed"})


@pytest.fixture
def folder(tmp_path: Path) -> HostileFolder:
    return HostileFolder(tmp_path)


def of(folder: HostileFolder) -> WorkFolder:
    return WorkFolder(root=os.path.realpath(folder.path), programs=EVERY)


@pytest.mark.parametrize("line", DOING_MORE)
def test_a_line_that_may_do_more_than_read_is_asked_about(line: str, folder: HostileFolder) -> None:
    assert why_asked(line, of(folder)), line


def test_lines_that_agents_write_to_look_around_are_free(folder: HostileFolder) -> None:
    assert [line for line in READING if why_asked(line, of(folder))] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_free_line_has_no_effect_in_a_shell(shell: str, folder: HostileFolder) -> None:
    workspace = of(folder)
    lines = [line for line in (*READING, *DOING_MORE) if not why_asked(line, workspace)]
    assert {line: effect for line in lines if (effect := folder.effect_of(line, shell))} == {}


_WORDS = [
    "a",
    "b",
    "sub",
    "sub/c.py",
    "link-out",
    "dir-out",
    "sub/link-up",
    "../secret",
    "/etc/passwd",
    "-",
    "--",
    "-n",
    "-c",
    "-r",
    "-i",
    "-o",
    "-e",
    "x",
    "1p",
    "'1,2p'",
    "P",
    "-exec",
    "-delete",
    "-name",
    "'*.py'",
    "--pre=evil",
    "-f",
    "-L",
    "-l",
    "./evil",
    "evil",
    ";",
    "|",
    "&&",
    "||",
    "2>&1",
    "2>/dev/null",
    ">",
    "&",
    "cd",
    "'-i'",
    '"a',
    'b"',
    "$HOME",
    "`id`",
    "-la",
    "-oP",
    "--output=P",
    "-A3",
    "1",
    "--files",
    "-R",
    "-z",
    "-print",
    "-fprint",
    "-type",
    "f",
]


@pytest.mark.parametrize("seed", range(4))
def test_no_line_made_at_random_is_free_and_does_something(seed: int, folder: HostileFolder) -> None:
    chooser = random.Random(seed)
    workspace, programs = of(folder), sorted(EVERY)
    lines = [
        " ".join([chooser.choice(programs), *chooser.choices([*_WORDS, *programs], k=chooser.randint(0, 5))])
        for _ in range(2_500)
    ]
    free = [line for line in lines if not why_asked(line, workspace)]
    assert len(free) > 50, "the words are such that some lines are free"
    for line in chooser.sample(free, 60):
        assert not folder.effect_of(line, chooser.choice(SHELLS)), line


@pytest.mark.parametrize(
    "environ",
    [
        {**CLEAN, "BASH_ENV": "./evil"},
        {**CLEAN, "LD_PRELOAD": "./x.so"},
        {**CLEAN, "BASH_FUNC_cat%%": "() { ./evil; }"},
        {**CLEAN, "RIPGREP_CONFIG_PATH": "./rc"},
        {**CLEAN, "CDPATH": "/etc"},
        {**CLEAN, "DYLD_INSERT_LIBRARIES": "./x"},
    ],
)
def test_no_program_is_free_where_the_environment_changes_what_programs_do(environ: dict[str, str]) -> None:
    assert free_programs(environ) == frozenset()


def test_a_program_of_the_folder_that_comes_first_on_the_path_is_not_free(tmp_path: Path) -> None:
    (tmp_path / "cat").write_text("#!/bin/sh\n")
    (tmp_path / "cat").chmod(0o755)
    found = free_programs({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert "cat" not in found
    assert "ls" in found


def test_a_grep_or_a_shell_of_the_folder_is_not_free_under_another_name_either(tmp_path: Path) -> None:
    program = tmp_path / "grep"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert not {"grep", "egrep", "fgrep"} & free_programs(environ)
    program.rename(tmp_path / "bash")
    assert free_programs(environ) == frozenset()


def test_nothing_but_what_the_shell_has_itself_is_free_on_a_relative_path() -> None:
    assert "cat" not in free_programs({"PATH": "bin:/usr/bin"})


def test_nothing_is_free_where_the_shell_stands_elsewhere(folder: HostileFolder) -> None:
    assert why_asked("ls", of(folder), cwd="/etc")
    assert why_asked("ls", of(folder), cwd="dir-out")
    assert why_asked("ls", of(folder), cwd="sub") == ""
    assert why_asked("cat ../../secret", of(folder), cwd="sub")


def test_a_line_is_parsed_into_words_without_their_quotes() -> None:
    plain = parse("""grep -rn 'a b'"c" . 2>/dev/null | head -3""")
    assert plain is not None
    assert plain.commands == [["grep", "-rn", "a bc", "."], ["head", "-3"]]
    assert plain.joins == ["|"]


def test_a_variable_that_programs_only_look_for_counts_without_a_value() -> None:
    assert free_programs({**CLEAN, "POSIXLY_CORRECT": ""}) == frozenset()
    assert "cat" in free_programs({**CLEAN, "CDPATH": ""})
