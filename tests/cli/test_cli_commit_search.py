"""Which session made a commit: sure, likely, or a guess."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cli_machine import CliMachine

SESSION = "11111111-2222-4333-8444-555555555555"


def _git(folder: Path, *words: str, author: str = "A Person <person@example.org>") -> str:
    name, _, mail = author.partition(" <")
    who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail.rstrip(">")}
    who |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": mail.rstrip(">")}
    done = subprocess.run(
        ["/usr/bin/git", "-C", str(folder), *words],
        check=True,
        capture_output=True,
        text=True,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin", **who},
    )
    return done.stdout.strip()


def _record(cli: CliMachine, *calls: dict[str, Any]) -> None:
    """A session of Claude that has just made these calls in the project."""
    path = cli.home / ".claude/projects/-project" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 60))
    about = {"timestamp": stamp, "cwd": str(cli.project), "sessionId": SESSION}
    prompt = {"type": "user", "message": {"role": "user", "content": "Please write it"}, **about}
    lines = [prompt]
    for number, call in enumerate(calls):
        block = {"type": "tool_use", "id": f"toolu_{number}", **call}
        message = {"id": f"msg_{number}", "role": "assistant", "model": "claude-opus-4-5", "content": [block]}
        lines.append({"type": "assistant", "message": message, **about})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "done"}
        lines.append({"type": "user", "message": {"role": "user", "content": [result]}, **about})
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


@pytest.fixture
def repository(cli: CliMachine) -> CliMachine:
    (cli.bin / "git").symlink_to("/usr/bin/git")
    _git(cli.project, "init", "-q")
    return cli


def _commit(cli: CliMachine, content: str, author: str = "A Person <person@example.org>") -> str:
    (cli.project / "cart.py").write_text(content)
    _git(cli.project, "add", "cart.py")
    _git(cli.project, "commit", "-q", "-m", "cart", author=author)
    return _git(cli.project, "rev-parse", "HEAD")


def _found(cli: CliMachine, commit: str) -> list[tuple[str, str]]:
    hits = cli.call("sessions", "search", "--commit", commit, "--json").data["hits"]
    return [(hit["certainty"], hit["how"]) for hit in hits]


def _written(cli: CliMachine, content: str) -> dict[str, Any]:
    return {"name": "Write", "input": {"file_path": str(cli.project / "cart.py"), "content": content}}


def test_the_same_content_is_likely_and_another_one_a_guess(repository: CliMachine) -> None:
    _record(repository, _written(repository, "print(1)\n"))
    assert _found(repository, _commit(repository, "print(1)\n")) == [("likely", "wrote")]
    assert _found(repository, _commit(repository, "print(2)\n")) == [("guess", "wrote")]


def _edited(cli: CliMachine, old: str, new: str) -> dict[str, Any]:
    asked = {"file_path": str(cli.project / "cart.py"), "old_string": old, "new_string": new}
    return {"name": "Edit", "input": asked}


def test_edits_that_make_the_content_of_the_one_before_are_likely(repository: CliMachine) -> None:
    before = "def total():\n    return 1\n\n\ndef count():\n    return 2\n"
    _commit(repository, before)
    steps = ("return 1", "return one()"), ("return 2", "return two()")
    _record(repository, *(_edited(repository, *step) for step in steps))
    after = before.replace("return 1", "return one()").replace("return 2", "return two()")
    assert _found(repository, _commit(repository, after)) == [("likely", "wrote")]
    assert _found(repository, _commit(repository, after + "# by hand\n")) == [("guess", "wrote")]


def test_a_commit_of_a_bot_is_never_guessed(repository: CliMachine) -> None:
    _record(repository, _written(repository, "print(1)\n"))
    bot = "renovate[bot] <bot@example.org>"
    assert _found(repository, _commit(repository, "print(3)\n", author=bot)) == []


def test_a_commit_that_no_repository_here_has_is_not_found(repository: CliMachine) -> None:
    _record(repository, _written(repository, "print(1)\n"))
    assert _found(repository, "0123456789abcdef") == []
    assert _found(repository, "not-a-hash") == []
