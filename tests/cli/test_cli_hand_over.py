"""`harness hand-over`: another agent continues a session, as a session of its own or with a briefing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli_machine import CliMachine

sys.path.insert(0, str(Path(__file__).parents[1] / "histories"))
from stored_homes import cases

CLAUDE = "f90ec50b-b971-4e9a-93e0-525924e069a6"


@pytest.fixture
def filled(cli: CliMachine) -> CliMachine:
    """A session of Claude, and a `codex` that writes down how it is called and what it is given."""
    next(case for case in cases() if str(case) == "claude/2.1.325/tools").unpack(cli.home)
    cli.install("codex", before='echo "$*" >>"$HOME/calls"; cat >>"$HOME/calls"')
    return cli


def _calls(cli: CliMachine) -> str:
    path = cli.home / "calls"
    return path.read_text() if path.exists() else ""


def _rollouts(cli: CliMachine) -> list[Path]:
    return list((cli.home / ".codex").rglob("*.jsonl"))


def test_another_agent_continues_it_as_a_session_of_its_own(filled: CliMachine) -> None:
    answer = filled.call("hand-over", CLAUDE, "--to", "codex", "go on", "--cwd", str(filled.project))
    assert answer.code == 0
    assert answer.types[-1] == "Result"
    [path] = _rollouts(filled)
    assert f"resume {path.stem[-36:]}" in _calls(filled)
    assert _calls(filled).endswith("go on")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert records[2]["payload"]["message"].startswith(
        f"[Handed over from claude 2.1.325, session {CLAUDE}, 9 messages"
    )
    assert "as a session of its own" in answer.err
    assert "not there: reasoning, permissions" in answer.err
    assert "of 2 files that the session wrote, 2 changed or are gone since" in answer.err


def test_without_a_prompt_it_shows_how_to_continue(filled: CliMachine) -> None:
    answer = filled.call("hand-over", CLAUDE, "--to", "codex", "--cwd", str(filled.project))
    assert answer.code == 0
    screen, ours = answer.out.splitlines()
    assert screen.startswith(f"cd {filled.project} && codex resume 01a1")
    assert ours.startswith("harness resume codex:01a1")
    assert _calls(filled) == ""
    name = ours.split()[2]
    assert filled.call("resume", name, "and now?", "--cwd", str(filled.project)).code == 0
    assert _calls(filled).endswith("and now?")


def test_a_dry_run_makes_nothing(filled: CliMachine) -> None:
    answer = filled.call("hand-over", CLAUDE, "--to", "codex", "--dry-run", "--cwd", str(filled.project))
    assert answer.code == 0
    assert "9 messages, 7 calls of claude → Codex 0.166.0" in answer.err
    assert _rollouts(filled) == []


def test_a_version_that_was_not_tried_gets_a_briefing(filled: CliMachine) -> None:
    script = filled.bin / "codex"
    script.write_text(script.read_text().replace("0.166.0", "0.999.0"))
    answer = filled.call("hand-over", CLAUDE, "--to", "codex", "go on", "--cwd", str(filled.project))
    assert answer.code == 0
    assert "as a briefing before the prompt: Codex 0.999.0 was not tried with this" in answer.err
    assert _rollouts(filled) == []
    given = _calls(filled)
    assert "User: Please do the work of tools" in given
    assert "- run echo out; echo err >&2; exit 3: failed" in given
    assert "    Exit code 3" in given
    assert given.endswith("go on")


def test_an_agent_without_a_writer_gets_a_briefing_and_native_is_refused(filled: CliMachine) -> None:
    filled.script("cursor-agent", "echo 1.0")
    answer = filled.call("hand-over", CLAUDE, "--to", "cursor", "--cwd", str(filled.project))
    assert answer.code == 0
    assert answer.out.startswith(
        "<conversation-briefing>\nThis conversation was held with another agent (claude 2.1.325)"
    )
    answer = filled.call(
        "hand-over", CLAUDE, "--to", "cursor", "--as", "native", "--cwd", str(filled.project)
    )
    assert (answer.code, "no conversation can be written" in answer.err) == (2, True)


def test_what_was_made_is_listed_and_removed(filled: CliMachine) -> None:
    filled.call("hand-over", CLAUDE, "--to", "codex", "--cwd", str(filled.project))
    listed = filled.call("hand-over", "--list").out
    assert f"claude:{CLAUDE} → codex:" in listed
    assert filled.call("hand-over", "--remove", listed.split()[0]).code == 0
    assert _rollouts(filled) == []
    assert filled.call("hand-over", "--list").out == ""
    answer = filled.call("hand-over", "--remove", "nothing")
    assert (answer.code, "there is no hand-over" in answer.err) == (2, True)


def test_a_copy_that_the_agent_has_made_is_named_when_the_session_is_removed(filled: CliMachine) -> None:
    filled.call("hand-over", CLAUDE, "--to", "codex", "--cwd", str(filled.project))
    (made,) = _rollouts(filled)
    session_id = made.stem[-36:]
    forked = session_id[:-4] + ("0000" if session_id[-4:] != "0000" else "1111")
    copy = made.with_name(made.name.replace(session_id, forked))
    copy.write_text(made.read_text().replace(session_id, forked))
    answer = filled.call("hand-over", "--remove", filled.call("hand-over", "--list").out.split()[0])
    assert answer.code == 0
    words = "".join(answer.err.split())
    assert f"codexstillhasacopyofitsown,session{forked}:itisin{copy}" in words
    assert session_id not in words


@pytest.mark.parametrize("added", ["", "updates.jsonl"])
def test_what_the_agent_has_put_beside_the_session_is_named(filled: CliMachine, added: str) -> None:
    filled.install("grok", "{}")
    assert filled.call("hand-over", CLAUDE, "--to", "grok", "--cwd", str(filled.project)).code == 0
    (made,) = {path.parent for path in (filled.home / ".grok").rglob("summary.json")}
    if added:
        (made / added).write_text("{}\n")
    answer = filled.call("hand-over", "--remove", filled.call("hand-over", "--list").out.split()[0])
    assert answer.code == 0
    assert ("".join(f"still in {made}".split()) in "".join(answer.err.split())) == bool(added)
    assert made.exists() == bool(added)


def test_errors_are_reported(filled: CliMachine) -> None:
    assert filled.call("hand-over", CLAUDE).code == 2
    assert filled.call("hand-over", CLAUDE, "--to", "nobody").code == 2
    answer = filled.call("hand-over", CLAUDE, "--to", "gemini", "--cwd", str(filled.project))
    assert (answer.code, "agent binary not found" in answer.err) == (127, True)
    answer = filled.call("hand-over", CLAUDE, "--to", "codex")
    assert (answer.code, "/workspace/shop" in answer.err) == (2, True)


def test_a_dry_run_shows_that_the_directory_was_deleted_and_how_far_the_repository_is(
    filled: CliMachine,
) -> None:
    answer = filled.call("hand-over", CLAUDE, "--to", "codex", "--dry-run")
    assert answer.code == 0
    assert "the directory of the session is gone: /workspace/shop" in answer.err
    assert filled.call("hand-over", CLAUDE, "--to", "codex", "go on").code == 2
    (filled.bin / "git").symlink_to("/usr/bin/git")
    git = ["/usr/bin/git", "-C", str(filled.project), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "later"], check=True)
    answer = filled.call("hand-over", CLAUDE, "--to", "codex", "--dry-run", "--cwd", str(filled.project))
    assert "the repository is at main " in answer.err
    assert ", 1 commit after the session" in answer.err
