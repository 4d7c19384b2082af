"""Asking a program for its version: quickly, and without taking a session for an answer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.process.version_probe import probe_version

RECORD = '{"type":"system","subtype":"init","version":"9.9"}'


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("echo '2.1.99 (Some Agent)'", "2.1.99"),
        ("echo 'warning: old node' >&2; echo v1.2.3", "1.2.3"),
        ("echo 4.5.6; sleep 60", "4.5.6"),
        (f"echo '{RECORD}'; sleep 60", ""),
        (f"echo '{RECORD}'", ""),
        (f"while true; do echo '{RECORD}'; done", ""),
        ("exec >&- 2>&-; sleep 60", ""),
        ("exit 3", ""),
    ],
)
def test_a_version_is_told_at_once_or_not_at_all(
    script: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "agent"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    began = time.monotonic()

    assert probe_version(str(program), ("--version",)) == version
    assert time.monotonic() - began < 8


def test_a_program_that_unpacks_itself_first_is_given_the_time_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program, gate = tmp_path / "agent", tmp_path / "gate"
    program.write_text(f"#!/bin/sh\nwhile [ ! -e '{gate}' ]; do sleep 0.05; done\necho 1.2.3\n")
    program.chmod(0o755)

    assert probe_version(str(program), ("--version",), timeout_s=0.2) == ""
    gate.touch()
    assert probe_version(str(program), ("--version",), timeout_s=30) == "1.2.3"


def test_another_version_of_the_same_length_and_date_is_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As packages have it that are unpacked with the dates in them: what starts the program is the same length in each."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "agent"
    for version in ("1.2.3", "1.2.4"):
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o755)
        os.utime(program, (499162500, 499162500))
        assert probe_version(str(program), ("--version",)) == version


def test_the_version_of_a_program_in_a_folder_whose_name_is_not_utf_8_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    program, asked = folder / "agent", tmp_path / "asked"
    program.write_text(f"#!/bin/sh\necho asked >> '{asked}'\necho 1.2.3\n")
    program.chmod(0o755)

    assert [probe_version(str(program), ("--version",)) for _ in range(2)] == ["1.2.3", "1.2.3"]
    assert asked.read_text() == "asked\n"
