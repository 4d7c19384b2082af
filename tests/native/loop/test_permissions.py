"""Which calls a permission covers, and which permission "always" makes of a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.contracts.tool import ToolPermission, derived_permission
from harness.events import Operation
from harness.events.operation import Command, Fetch, Read, Search, Tasks, Write
from harness.questions.permissions import (
    Denial,
    Permissions,
    matches,
    matches_any,
    permissions_for,
    proposed_call,
)


@pytest.mark.parametrize(
    ("permission", "tool", "arguments", "expected"),
    [
        (ToolPermission("bash"), "bash", {"command": "ls"}, True),
        (ToolPermission("bash"), "read", {"command": "ls"}, False),
        (ToolPermission("bash", {"command": "ls **"}), "bash", {"command": "ls -la /tmp/x"}, True),
        (ToolPermission("bash", {"command": "ls **"}), "bash", {"command": "rm -rf /"}, False),
        (ToolPermission("bash", {"command": "ls"}), "bash", {}, False),
        (ToolPermission("bash", {"command": "ls"}), "bash", {"command": "ls", "timeout": 5}, True),
    ],
)
def test_a_permission_covers_calls_of_its_tool_whose_arguments_match(
    permission: ToolPermission, tool: str, arguments: dict[str, Any], expected: bool
) -> None:
    assert matches(permission, tool, arguments) is expected


@pytest.mark.parametrize(
    ("glob", "text", "expected"),
    [
        ("*", "any/thing at\nall", True),
        ("src/*.py", "src/a/b.py", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("[ab]c", "bc", True),
        ("[!ab]c", "bc", False),
        ("[z-a]", "[z-a]", True),
        ("{get,post} **", "post /x", True),
        ("{get,{put,post}}", "put", True),
        ("{get}", "{get}", True),
        ("{open", "{open", True),
        (r"\*", "*", True),
        (r"\*", "x", False),
        ("a.c", "abc", False),
        ("", "", True),
    ],
)
def test_globs_are_as_a_shell_has_them_but_cross_slashes_and_blanks(
    glob: str, text: str, expected: bool
) -> None:
    assert matches(ToolPermission("t", {"x": glob}), "t", {"x": text}) is expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "cat /etc/hosts"}, {"command": "cat **"}),
        ({"command": "ls -la"}, {"command": "ls **"}),
        ({"city": "London"}, {"city": "London"}),
        ({}, None),
        ({"count": 42}, {"count": "42"}),
        ({"name": "Alice Smith", "city": "Rome"}, {"name": "Alice **", "city": "Rome"}),
        ({"flag": True, "none": None}, {"flag": "true", "none": "null"}),
        ({"indent": " x y"}, {"indent": " x y"}),
    ],
)
def test_always_allows_what_begins_with_the_same_word(
    arguments: dict[str, Any], expected: dict[str, str] | None
) -> None:
    assert derived_permission("t", arguments) == ToolPermission("t", expected, closed=True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "cat x"},
        {"command": "ls"},
        {"pattern": "a*[b]{c,d}\\?"},
        {"command": "[ -f x ] && rm y"},
        {"edits": [{"a": 1}], "n": 1.5},
        {},
    ],
)
def test_a_derived_permission_covers_the_call_it_was_derived_from(arguments: dict[str, Any]) -> None:
    assert matches(derived_permission("t", arguments), "t", arguments)


def test_a_derived_permission_covers_no_more_than_the_first_word_says() -> None:
    cat = derived_permission("bash", {"command": "cat a.txt"})
    assert matches(cat, "bash", {"command": "cat b.txt"})
    assert not matches(cat, "bash", {"command": "dog b.txt"})
    assert not matches(cat, "bash", {"command": "cat"})
    star = derived_permission("grep", {"pattern": "*"})
    assert not matches(star, "grep", {"pattern": "anything"})


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        (None, False),
        ([], False),
        ([ToolPermission("other")], False),
        ([ToolPermission("other"), ToolPermission("t")], True),
        ([ToolPermission("t", {"x": "2"}), ToolPermission("t", {"x": "1"})], True),
    ],
)
def test_one_that_matches_is_enough(permissions: list[ToolPermission] | None, expected: bool) -> None:
    assert matches_any(permissions, "t", {"x": "1"}) is expected


def test_a_denial_goes_before_everything_else() -> None:
    permissions = Permissions(
        "allow",
        allowlist=[ToolPermission("bash")],
        deny=[Denial(tool="bash", params={"command": "rm **"}, reason="no"), Denial()],
    )
    assert permissions.verdict(proposed_call("bash", {"command": "rm -rf /"}))[:2] == ("deny", "no")
    assert permissions.verdict(proposed_call("bash", {"command": "ls"})).decision == "allow"


def test_a_grant_is_stored_once_and_takes_effect_at_once() -> None:
    permissions = Permissions("ask")
    assert permissions.verdict(proposed_call("bash", {})).decision == "ask"
    permissions.grant(ToolPermission("bash"))
    permissions.grant(ToolPermission("bash"))
    assert permissions.verdict(proposed_call("bash", {})).decision == "allow"
    assert len(permissions.allowlist) == 1


@pytest.mark.parametrize(
    ("operations", "read_only", "agent_default"),
    [
        ([Read(path="x")], "allow", "allow"),
        ([Read(path="x"), Search(query="y")], "allow", "allow"),
        ([Read(path="x"), Write(path="x")], "deny", "ask"),
        ([Read(path="x"), Command(command="cat x")], "deny", "ask"),
        ([Fetch(url="http://x")], "deny", "ask"),
        ([], "deny", "ask"),
    ],
)
def test_modes_distinguish_reading_from_everything_else(
    operations: list[Operation], read_only: str, agent_default: str
) -> None:
    for mode, expected in (
        ("read-only", read_only),
        ("agent-default", agent_default),
        ("full-access", "allow"),
    ):
        verdict = permissions_for(mode).verdict(proposed_call("t", {}, operations))  # type: ignore[arg-type]
        assert verdict.decision == expected


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        ("src/a.py", "src/*", True),
        ("src/../../etc/passwd", "src/*", False),
        ("src/..", "src/*", False),
        ("src/../x", "src/../x", True),
        ("src/a..b", "src/*", True),
        ("../lib/x", "../lib/*", True),
    ],
)
def test_a_glob_does_not_allow_a_path_that_climbs(path: str, glob: str, expected: bool) -> None:
    permission = ToolPermission("write", {"filePath": glob})
    assert matches(permission, "write", {"filePath": path}, [Write(path=path)]) is expected


@pytest.mark.parametrize(
    "path", ["link.txt", "deep/link.txt", "folder/.env", "chain", "inner/../.env", "./inner/../../vault/.env"]
)
@pytest.mark.parametrize("glob", ["vault/*", "*/.env", ".env", "vault/.env"])
def test_a_denial_is_not_passed_by_a_symbolic_link(tmp_path: Path, path: str, glob: str) -> None:
    from harness.workspace.roots import ToolWorkspace

    (tmp_path / "vault/inside").mkdir(parents=True)
    (tmp_path / "deep").mkdir()
    (tmp_path / "vault/.env").write_text("secret")
    (tmp_path / "link.txt").symlink_to("vault/.env")
    (tmp_path / "deep/link.txt").symlink_to(tmp_path / "vault/.env")
    (tmp_path / "folder").symlink_to("vault")
    (tmp_path / "chain").symlink_to("deep/link.txt")
    (tmp_path / "inner").symlink_to("vault/inside")
    workspace = ToolWorkspace(str(tmp_path))
    rules = Permissions("allow", deny=[Denial(tool="read", params={"filePath": glob}, reason="no")])
    for text in (path, str(tmp_path / path)):
        operations = [Read(path=workspace.named(text))]
        assert rules.verdict(proposed_call("read", {"filePath": text}, operations)).decision == "deny", text
    assert (
        rules.verdict(
            proposed_call("read", {"filePath": "deep"}, [Read(path=workspace.named("deep"))])
        ).decision
        == "allow"
    )


@pytest.mark.parametrize(
    "path", ["secret/x", "./secret/x", "a/../secret/x", "/project/secret/x", "secret//x"]
)
def test_a_denial_finds_the_path_that_is_meant(path: str) -> None:
    for glob in ("secret/*", "/project/secret/*"):
        permissions = Permissions("allow", deny=[Denial(tool="write", params={"filePath": glob})])
        call = proposed_call("write", {"filePath": path}, [Write(path="/project/secret/x")])
        assert permissions.denial(call) == "denied"


def test_an_argument_is_found_under_each_name_that_a_tool_takes_for_it() -> None:
    both = {"file_path": "src/a", "filePath": "other/b"}
    assert not matches(ToolPermission("write", {"file_path": "src/*"}), "write", both)
    assert matches(ToolPermission("write", {"filePath": "src/*"}), "write", {"file_path": "src/a"})
    permissions = Permissions("allow", deny=[Denial(tool="write", params={"file_path": "other/*"})])
    assert permissions.denial(proposed_call("write", both))


def test_no_one_is_asked_about_a_to_do_list_and_a_denial_still_holds() -> None:
    assert Permissions("ask").verdict(proposed_call("todo", {}, [Tasks()])).decision == "allow"
    assert (
        Permissions("ask").verdict(proposed_call("todo", {}, [Tasks(), Command(command="ls")])).decision
        == "ask"
    )
    assert (
        Permissions("ask", deny=[Denial(tool="todo")]).verdict(proposed_call("todo", {}, [Tasks()])).decision
        == "deny"
    )
    assert Permissions("deny").verdict(proposed_call("todo", {}, [Tasks()])).decision == "deny"
