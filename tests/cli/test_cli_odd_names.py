"""Names that are no text, and places that cannot be written: said in one line, and never a bug."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_machine import CliMachine

ODD = os.fsdecode(b"a\xe9b")
STORED = "22222222-2222-4222-8222-222222222222"
LINES: list[list[str]] = [
    ["run", "-a", "claude", "-p", "hi"],
    *[
        ["run", "-a", "claude", "-p", "hi", option, ODD]
        for option in ("--name", "--model", "--system-prompt", "--resume", "--")
    ],
    ["run", "-a", "claude", "-p", ODD],
    ["sessions", "list", "--project", "."],
    ["sessions", "list", "--model", ODD],
    ["sessions", "search", ODD],
    ["sessions", "search", "--file", ODD],
    ["budget", "set", "--day", "5", "--project", "."],
    ["usage", "--by", "project"],
    ["histories", "--json"],
    ["config", "set", "default_model", ODD],
    ["permissions", "add", "deny", "--path", ODD],
    ["permissions", "test", ODD, "--json"],
    ["fleet", "list", "--json"],
]


@pytest.fixture
def odd_folder(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = cli.root / os.fsdecode(b"caf\xe9 dir")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes no such names")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "words", LINES, ids=lambda words: " ".join(words).encode("ascii", "replace").decode()
)
def test_names_that_are_no_text_are_no_bug(cli: CliMachine, odd_folder: Path, words: list[str]) -> None:
    cli.install("claude")
    answer = cli.call(*words)
    assert "bug" not in answer.err
    assert answer.code in (0, 2), answer.err


def test_a_run_in_such_a_folder_is_recorded_listed_and_proved(cli: CliMachine, odd_folder: Path) -> None:
    cli.install("claude")
    assert cli.call("run", "-a", "claude", "-p", "hi", "--", ODD).code == 0
    assert cli.metadata()["cwd"].endswith("caf\ufffd dir")
    (listed,) = cli.call("sessions", "list", "--project", ".", "--json").data
    assert cli.call("sessions", "check", listed["session_id"]).code == 0


def test_a_session_of_such_a_folder_is_continued_there(cli: CliMachine, odd_folder: Path) -> None:
    cli.install("claude", after="echo more >> made.txt")
    assert cli.call("run", "-a", "claude", "-p", "hi").code == 0
    os.chdir(cli.project)
    assert cli.call("resume", "last", "and now?").code == 0
    assert (odd_folder / "made.txt").read_text() == "more\nmore\n"
    (cli.root / os.fsdecode(b"caf\xe8 dir")).mkdir()  # now two could be meant
    answer = cli.call("resume", "last", "and now?")
    assert (answer.code, "not UTF-8" in answer.err, "deleted" in answer.err) == (2, True, False)
    assert cli.call("resume", "last", "and now?", "--cwd", str(odd_folder)).code == 0


def test_a_turn_in_such_a_folder_is_taken_back(cli: CliMachine, odd_folder: Path) -> None:
    cli.install("codex", after="echo made > made.txt")
    assert cli.call("run", "-a", "codex", "-p", "hi").code == 0
    assert "1 file" in cli.call("undo", "--list").out
    assert cli.call("undo", "--yes").code == 0
    assert not (odd_folder / "made.txt").exists()


def test_a_fleet_of_such_a_folder_is_run_and_continued(cli: CliMachine, odd_folder: Path) -> None:
    cli.install("claude")
    (odd_folder / ODD).write_text("3\n")
    (odd_folder / "plan.toml").write_text(
        'name = "odd"\nagents = [{ name = "v", agent = "claude" }]\n'
        '[[task]]\nid = "a"\nprompt = "hi"\nworkspace = "."\ncheck = "cat a*b"\n'
    )
    assert cli.call("fleet", "run", "plan.toml").code == 2, "nobody has trusted it"
    assert cli.call("fleet", "run", "plan.toml", "--trust").code == 0
    assert "1 passed" in cli.call("fleet", "status", "odd").out
    assert cli.call("fleet", "run", "plan.toml").code == 0, "it is trusted, and the same fleet"


def test_what_such_a_folder_brings_is_trusted_until_it_changes(cli: CliMachine, odd_folder: Path) -> None:
    settings = odd_folder / ".mcp.json"
    settings.write_text('{"mcpServers": {"a": {"command": "true"}}}')
    assert "new" not in cli.call("trust", "--yes").err
    assert "is trusted already" in cli.call("trust", "--yes").err
    settings.write_text('{"mcpServers": {"a": {"command": "false"}}}')
    assert "is trusted already" not in cli.call("trust", "--yes").err
    assert cli.call("trust", "--revoke").code == 0


def test_a_session_is_handed_over_below_such_a_home(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch, odd_folder: Path
) -> None:
    monkeypatch.setenv("HOME", str(odd_folder))
    cli.install("claude")
    cli.install("codex")
    assert cli.call("run", "-a", "claude", "-p", "hi").code == 0
    answer = cli.call("hand-over", "last", "--to", "codex")
    assert answer.code == 0, answer.err
    listed = cli.call("hand-over", "--list").out.split()
    assert cli.call("hand-over", "--remove", listed[0]).code == 0
    assert not [*(odd_folder / ".codex").rglob("*.jsonl")]


def test_a_run_without_undo_says_why_in_one_line(cli: CliMachine) -> None:
    cli.install("claude")
    data = cli.home / ".local/share/harness"
    data.mkdir(parents=True)
    (data / "undo").write_text("a file stands where the folder would be")
    answer = cli.call("run", "-a", "claude", "-p", "hi")
    assert answer.code == 0
    (line,) = [one for one in answer.err.split("\n") if "undo" in one]
    assert line.startswith("harness: warning: no undo for this turn: ")
    assert "Errno" not in line


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        (".local/share/harness/sessions", ["sessions", "search", "hi"]),
        (".local/share/harness/sessions", ["sessions", "delete", "last", "-y"]),
        (".config/harness/config.toml", ["permissions", "add", "allow", "--command", "ls"]),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_cannot_be_read_is_named_in_words(cli: CliMachine, folder: str, words: list[str]) -> None:
    """A folder stands where the file would be, or the other way round."""
    place = cli.home / folder
    place.parent.mkdir(parents=True)
    place.mkdir() if place.suffix else place.write_text("")
    answer = cli.call(*words)
    assert answer.code in (1, 2)
    assert str(place) in answer.err
    assert "Errno" not in answer.err


def test_a_copy_that_could_not_be_made_is_a_failure(cli: CliMachine) -> None:
    store = cli.home / ".claude/projects/-work"
    store.mkdir(parents=True)
    prompt = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": STORED, "cwd": "/work"}
    prompt |= {"timestamp": "2026-11-18T10:00:00.000Z", "version": "2.1.325"}
    prompt["message"] = {"role": "user", "content": "hello"}
    (store / f"{STORED}.jsonl").write_text(json.dumps(prompt) + "\n")
    cli.sessions.parent.mkdir(parents=True)
    cli.sessions.write_text("a file stands where the folder would be")
    answer = cli.call("sessions", "keep", STORED)
    assert (answer.code, "bug" in answer.err) == (1, False), answer.err


def test_what_was_changed_in_such_a_folder_is_shown(cli: CliMachine, odd_folder: Path) -> None:
    path = str(odd_folder / "made.txt").encode("utf-8", "replace").decode().replace("?", "\ufffd")
    asked = {"file_path": path, "old_string": "old", "new_string": "new"}
    call = {"type": "tool_use", "id": "t1", "name": "Edit", "input": asked}
    done = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
    lines = [
        {"type": "system", "subtype": "init", "session_id": "s", "cwd": os.path.dirname(path)},
        {"type": "assistant", "session_id": "s", "message": {"id": "m1", "content": [call]}},
        {"type": "user", "session_id": "s", "message": {"role": "user", "content": [done]}},
        {"type": "result", "subtype": "success", "is_error": False, "session_id": "s", "result": "ok"},
    ]
    (odd_folder / "made.txt").write_text("new\n")
    cli.install("claude", *map(json.dumps, lines))
    assert cli.call("run", "-a", "claude", "-p", "hi").code == 0
    shown = cli.call("sessions", "diff", "last")
    assert (shown.code, shown.err) == (0, "")
    assert "+new" in shown.out


def test_a_limit_for_such_a_folder_holds_there(cli: CliMachine, odd_folder: Path) -> None:
    assert cli.call("budget", "set", "--day", "5", "--project", ".").code == 0
    (limit,) = cli.call("budget", "--json").data["limits"]
    assert limit["project"].endswith("caf\ufffd dir")


def test_a_model_of_the_environment_that_is_no_text_is_no_bug(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.install("claude")
    monkeypatch.setenv("HARNESS_MODEL", ODD)
    assert cli.call("run", "-a", "claude", "-p", "hi").code == 0


@pytest.mark.parametrize("words", [["budget", "set", "--day", "5"], ["fleet", "run", "plan.toml", "--trust"]])
def test_a_home_that_is_no_folder_is_no_bug(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """A file stands where the folder would be: root is refused that too, other than a read-only one."""
    (cli.project / "plan.toml").write_text(
        'agents = [{ name = "v", agent = "claude" }]\n[[task]]\nid = "a"\nprompt = "hi"\ncheck = "true"\n'
    )
    cli.install("claude")
    (cli.root / "file").write_text("")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(cli.root / "file" / "below"))
    answer = cli.call(*words)
    assert "bug" not in answer.err
    assert answer.code in (1, 2), answer.err
    assert "file" in answer.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_translation_whose_file_cannot_be_written_is_a_failure(cli: CliMachine) -> None:
    recording = cli.project / "recording.jsonl"
    recording.write_text(
        '{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"s"}\n'
    )
    answer = cli.call("translate", "-a", "claude", str(recording), "-f", "text", "-o", "/dev/full")
    assert answer.code == 1
    assert answer.out.strip() == "ok"
    assert "/dev/full is not complete" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ["trust", "--list"],
        ["permissions", "list"],
        ["budget", "set", "--day", "5", "--project", "."],
        ["config", "init"],
        ["doctor", "claude"],
        ["run", "-a", "claude", "-p", "hi"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_folder_that_was_deleted_under_the_shell_is_named(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    gone = cli.root / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    answer = cli.call(*words)
    os.chdir(cli.root)  # whatever failed, the next test needs a folder
    assert answer.code == 2
    assert "the current directory cannot be used" in answer.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", [("--version",), ("-V",), ("--help",), ("agents", "list")])
def test_what_standard_output_cannot_take_is_said(words: tuple[str, ...], cli: CliMachine) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
