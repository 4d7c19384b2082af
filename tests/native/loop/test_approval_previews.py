"""What would change in files is known before a person is asked, and what would fail anyway asks no one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.events import Relay, ToolEnd, ToolStart
from harness.native.tools.registry import default_tools
from harness.questions.permissions import Permissions, permissions_for
from played_model import Played, PlayedModel, calls, follow, says

PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-three\n+four\n*** Delete File: b.txt\n*** End Patch"


def play(folder: Path, *asked: tuple[str, str, dict[str, Any]], permissions: Any = None) -> Played:
    """Each call in an answer of its own; everything that is asked is allowed."""

    def allow(agents: Any, event: Any) -> None:
        if isinstance(event, Relay):
            agents.resolve(event.id, approved=True)

    responses = [calls(one) for one in asked]
    return asyncio.run(
        follow(
            PlayedModel(*responses, says("ok")),
            tools=tuple(default_tools(str(folder))),
            permissions=permissions or permissions_for("agent-default"),
            on_event=allow,
        )
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "b.txt").write_text("gone\n")
    return tmp_path


READ = [("r1", "read", {"filePath": "a.txt"}), ("r2", "read", {"filePath": "b.txt"})]


def test_an_overwrite_shows_what_goes_away(folder: Path) -> None:
    played = play(folder, *READ, ("w", "write", {"filePath": "a.txt", "content": "one\nnew\n"}))
    (relay,) = played.of(Relay)
    (file,) = relay.preview
    assert (file["path"], file["change"], file["added"], file["removed"]) == (
        str(folder / "a.txt"),
        "update",
        1,
        2,
    )
    assert file["diff"].split("\n")[1:] == [" one", "-two", "-three", "+new"]
    assert (folder / "a.txt").read_text() == "one\nnew\n"


def test_a_new_file_an_edit_and_a_patch_show_what_comes_and_goes(folder: Path) -> None:
    played = play(
        folder,
        *READ,
        ("w", "write", {"filePath": "c.txt", "content": "x\ny\n"}),
        ("e", "edit", {"filePath": "a.txt", "oldString": "two", "newString": "2"}),
        ("p", "apply_patch", {"patch": PATCH}),
    )
    new, edit, patch = (relay.preview for relay in played.of(Relay))
    assert [(one["change"], one["diff"]) for one in new] == [("create", "+x\n+y")]
    assert [(one["added"], one["removed"]) for one in edit] == [(1, 1)]
    assert [(Path(one["path"]).name, one["change"]) for one in patch] == [
        ("a.txt", "update"),
        ("b.txt", "delete"),
    ]
    assert "-three" in patch[0]["diff"]
    assert patch[1]["diff"] == "-gone"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("write", {"filePath": "a.txt", "content": "x"}, "was not read yet"),
        ("edit", {"filePath": "a.txt", "oldString": "one", "newString": "1"}, "was not read yet"),
        ("apply_patch", {"patch": PATCH}, "was not read yet"),
        ("write", {"filePath": "/etc/passwd", "content": "x"}, "outside of the workspace"),
        ("write", {"content": "x"}, "invalid arguments"),
    ],
)
def test_what_would_fail_anyway_fails_without_a_question(
    folder: Path, name: str, arguments: dict[str, Any], words: str
) -> None:
    played = play(folder, ("c", name, arguments))
    assert played.of(Relay) == []
    (end,) = played.of(ToolEnd)
    assert end.success is False
    assert words in end.output
    assert (folder / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_a_file_that_was_changed_while_a_person_was_asked_is_not_overwritten(folder: Path) -> None:
    def change_and_allow(agents: Any, event: Any) -> None:
        if isinstance(event, Relay):
            (folder / "a.txt").write_text("somebody else was here\n")
            agents.resolve(event.id, approved=True)

    responses = [calls(READ[0]), calls(("w", "write", {"filePath": "a.txt", "content": "x"})), says("ok")]
    played = asyncio.run(
        follow(
            PlayedModel(*responses),
            tools=tuple(default_tools(str(folder))),
            permissions=permissions_for("agent-default"),
            on_event=change_and_allow,
        )
    )
    assert "has changed since" in played.of(ToolEnd)[-1].output
    assert (folder / "a.txt").read_text() == "somebody else was here\n"


def test_a_large_difference_is_bounded_and_says_by_how_much(folder: Path) -> None:
    lines = "".join(f"{number}\n" for number in range(30_000))
    played = play(folder, ("w", "write", {"filePath": "big.txt", "content": lines}))
    (file,) = played.of(Relay)[0].preview
    assert (file["added"], file["hidden_lines"]) == (30_000, 29_600)
    assert len(file["diff"]) < 50_000


def test_to_start_a_sub_agent_is_free_since_its_calls_are_decided_one_by_one(folder: Path) -> None:
    spawn = ("s", "agent", {"task": "look", "name": "helper"})
    assert play(folder, spawn).of(Relay) == []
    assert play(folder, spawn, permissions=permissions_for("read-only")).of(Relay) == []


def test_what_a_sub_agent_asks_says_who_asks(folder: Path) -> None:
    played = play(
        folder,
        ("s", "agent", {"task": "look", "name": "helper"}),
        ("b", "bash", {"command": "echo inside"}),
        permissions=Permissions("ask"),
    )
    (inside,) = played.of(Relay)
    assert inside.subagent == "helper"
    assert inside.spawn_call_id == played.of(ToolStart)[0].call_id
