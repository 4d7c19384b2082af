"""The answers to "may it?": what each grants is in the question, is derived from the call, and is no wider."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.events import Relay, RelayReply
from harness.events.operation import Command, Write
from harness.sources.loop.approval_choices import choices_of, granted, label_of, permission_of_program
from harness.sources.loop.approvals import check_reply, problems_of
from harness.sources.loop.permissions import matches, matches_any
from harness.sources.tool import Renamed, Tool, ToolPermission
from harness.sources.tools.function_tool import tool
from harness.sources.tools.registry import default_tools

TOOLS = {one.spec.name: one for one in default_tools(".")}


def grants(name: str, arguments: dict[str, Any], choice: str = "always", made: Tool | None = None) -> Any:
    chosen = made or TOOLS[name]
    choices = choices_of(chosen, arguments, list(chosen.operations(arguments)))
    relay = Relay(id="r", tool_name=name, input=arguments, choices=choices)
    return granted(relay, RelayReply(id="r", approved=True, choice=choice), chosen)


def allows(given: Any, name: str, arguments: dict[str, Any]) -> bool:
    chosen = TOOLS[name]
    return matches_any(given, name, arguments, list(chosen.operations(arguments)))


SLIPPERY = [
    "git status; rm -rf x",
    "git status && rm -rf x",
    "git status || rm x",
    "git status | sh",
    "git status & rm x",
    "git status\nrm x",
    "git status $(rm x)",
    "git status `rm x`",
    "git status > x",
    "git status < x",
    "A=b git status",
    "GIT_PAGER='rm x' git status",
    "env git status",
    "git -c core.fsmonitor='rm x' status",
    "git statusx",
    "git status\r; rm x",
    "git status ${x:-$(rm x)}",
    "git \\\nstatus; rm x",
]


@pytest.mark.parametrize("choice", ["always", "pattern"])
@pytest.mark.parametrize("line", SLIPPERY)
def test_a_grant_for_one_command_lets_nothing_else_slip_through(choice: str, line: str) -> None:
    given = grants("bash", {"command": "git status"}, choice)
    assert allows(given, "bash", {"command": "git status"})
    assert not allows(given, "bash", {"command": line})


def test_a_pattern_covers_what_begins_with_the_same_words() -> None:
    given = grants("bash", {"command": "git status -s"}, "pattern")
    for line in ("git status", "git status --porcelain", "git status; git status -s"):
        assert allows(given, "bash", {"command": line})
    assert not allows(given, "bash", {"command": "git push"})


@pytest.mark.parametrize(
    "line",
    [
        *SLIPPERY[:-2],
        "sudo rm x",
        "bash -c ls",
        "python -c 1",
        "xargs rm",
        "npm run x",
        "find . -delete",
        "./x y",
    ],
)
def test_what_is_more_than_one_plain_command_is_granted_exactly_or_not_at_all(line: str) -> None:
    choices = choices_of(TOOLS["bash"], {"command": line}, [Command(command=line)])
    if line != "git statusx":
        assert [one.id for one in choices] == ["once", "always", "reject"]
    given = grants("bash", {"command": line})
    assert allows(given, "bash", {"command": line})
    assert not allows(given, "bash", {"command": f"{line} x"})


def test_files_hosts_and_sub_agents_are_granted_one_by_one() -> None:
    given = grants("write", {"filePath": "a.py", "content": "x"})
    assert allows(given, "write", {"filePath": "a.py", "content": "another"})
    assert not allows(given, "write", {"filePath": "b.py", "content": "x"})
    given = grants("fetch", {"url": "https://a.example/x"})
    assert allows(given, "fetch", {"url": "https://a.example/y"})
    assert not allows(given, "fetch", {"url": "https://a.example.evil/y"})


def test_other_arguments_than_those_that_were_shown_are_not_covered() -> None:
    @tool(name="deploy")
    async def deploy(target: str = "staging", force: bool = False) -> str:
        return f"{target} {force}"

    nothing = grants("deploy", {}, made=deploy)
    assert matches_any(nothing, "deploy", {})
    assert not matches_any(nothing, "deploy", {"target": "production"})
    one = grants("deploy", {"target": "staging"}, made=deploy)
    assert matches_any(one, "deploy", {"target": "staging"})
    assert not matches_any(one, "deploy", {"target": "staging", "force": True})


def test_a_tool_that_does_not_say_that_it_runs_commands_is_no_way_around() -> None:
    @tool(name="shell")
    async def shell(command: str) -> str:
        return command

    given = grants("shell", {"command": "git status -s"}, made=shell)
    assert matches_any(given, "shell", {"command": "git log"})
    for line in SLIPPERY[:9]:
        assert not matches_any(given, "shell", {"command": line})
        assert not matches(ToolPermission("shell", {"command": "git **"}), "shell", {"command": line})
        assert not matches(ToolPermission("shell", {"command": "git *"}), "shell", {"command": line})
    exact = grants("shell", {"command": "git status; rm x"}, made=shell)
    assert matches_any(exact, "shell", {"command": "git status; rm x"})
    assert not matches_any(exact, "shell", {"command": "git log"})
    url = ToolPermission("open", {"url": "https://a.example/*"})
    assert matches(url, "open", {"url": "https://a.example/x?a=1&b=2"})


@pytest.mark.parametrize(
    "line",
    ["A=b git status", "env git status", "sudo git status", "bash -c ls", "python -c 1", "'git' status"],
)
def test_a_first_word_that_does_not_say_what_runs_grants_nothing_but_the_same(line: str) -> None:
    @tool(name="shell")
    async def unknown(command: str) -> str:
        return command

    @tool(name="shell", operations=lambda arguments: [Command(command=arguments["command"])])
    async def known(command: str) -> str:
        return command

    for made in (unknown, known):
        given = grants("shell", {"command": line}, made=made)
        operations = list(made.operations({"command": line}))
        assert matches_any(given, "shell", {"command": line}, operations)
        other = f"{line.partition(' ')[0]} rm x"
        assert not matches_any(
            given, "shell", {"command": other}, [Command(command=other)] if operations else []
        )


def test_a_command_of_any_tool_is_granted_exactly_and_by_its_first_words_only_when_that_is_chosen() -> None:
    @tool(name="shell", operations=lambda arguments: [Command(command=arguments["command"])])
    async def shell(command: str) -> str:
        return command

    def is_allowed(choice: str, line: str) -> bool:
        given = grants("shell", {"command": "git status -s"}, choice, made=shell)
        return matches_any(given, "shell", {"command": line}, [Command(command=line)])

    assert is_allowed("always", "git status -s")
    assert not is_allowed("always", "git status")
    assert is_allowed("pattern", "git status")
    assert not is_allowed("pattern", "git push")


def test_a_tool_cannot_have_another_one_granted() -> None:
    @tool(name="harmless", permission=lambda _arguments: ToolPermission("bash"))
    async def harmless(x: str) -> str:
        return x

    assert [one.tool for one in grants("harmless", {"x": "1"}, made=harmless)] == ["harmless"]
    renamed = Renamed(TOOLS["bash"], "shell")
    assert grants("shell", {"command": "ls"}, made=renamed) == [ToolPermission("shell", {"command": "ls"})]


@pytest.mark.parametrize(
    ("permission", "label"),
    [
        (ToolPermission("bash", {"command": "echo \\*"}), "bash: echo *"),
        (ToolPermission("bash", {"command": "git log **"}), "bash: git log …"),
        (ToolPermission("lab__echo"), "lab__echo, whatever its arguments"),
        (ToolPermission("deploy", closed=True), "deploy without arguments"),
        (ToolPermission("write", {"filePath": "a\u202eb"}), "write: a<U+202E>b"),
    ],
)
def test_a_label_says_what_is_granted(permission: ToolPermission, label: str) -> None:
    assert label_of(permission) == label


def test_a_long_value_says_how_much_of_it_is_not_shown() -> None:
    label = label_of(ToolPermission("bash", {"command": "x" * 1000}))
    assert "800 more characters" in label
    assert len(label) < 300


def test_a_choice_that_was_not_offered_is_refused() -> None:
    relay = Relay(
        id="r", tool_name="bash", input={}, choices=choices_of(TOOLS["bash"], {"command": "ls"}, [])
    )
    for reply in (
        RelayReply(id="r", approved=True, choice="all"),
        RelayReply(id="r", approved=True, choice="reject"),
        RelayReply(id="r", approved=False, choice="always"),
    ):
        with pytest.raises(UsageError):
            check_reply(relay, reply)
    with pytest.raises(UsageError):
        check_reply(Relay(id="q", kind="question"), RelayReply(id="q", approved=True, always=True))


@pytest.mark.parametrize(
    ("value", "schema", "is_right"),
    [
        ("x", {"type": "string"}, True),
        (True, {"type": "integer"}, False),
        (2.0, {"type": "integer"}, True),
        (None, {"type": ["string", "null"]}, True),
        ([1, "a"], {"type": "array", "items": {"type": "string"}}, False),
        ({"a": 1}, {"type": "object", "additionalProperties": False}, False),
        ({"a": {"b": 1}}, {"properties": {"a": {"properties": {"b": {"const": 2}}}}}, False),
        ("a", {"oneOf": [{"type": "string"}, {"enum": ["a"]}]}, False),
        ("b", {"oneOf": [{"type": "string"}, {"enum": ["a"]}]}, True),
        ({}, {"required": ["a"]}, False),
        (5, {"minimum": 6}, False),
        ("", {"minLength": 1}, False),
        ("x", {"format": "date", "unheard of": 1}, True),
        ("x", True, True),
        ("x", False, False),
    ],
)
def test_an_answer_is_checked_by_the_schema_that_was_sent(value: Any, schema: Any, is_right: bool) -> None:
    assert (not list(problems_of(value, schema))) is is_right


EDIT = {"file_path": "/w/cart.py", "old_string": "a", "new_string": "b"}


@pytest.mark.parametrize(
    ("arguments", "is_allowed"),
    [
        (EDIT, True),
        ({**EDIT, "new_string": "another"}, True),
        ({**EDIT, "file_path": "/w/other.py"}, False),
        ({**EDIT, "move_to": "/etc/passwd"}, False),
    ],
)
def test_always_for_an_edit_of_a_program_is_that_file(arguments: dict[str, Any], is_allowed: bool) -> None:
    allowed = permission_of_program("Edit", EDIT, [Write(path="/w/cart.py")])
    assert allowed is not None
    assert label_of(allowed) == "Edit: /w/cart.py"
    assert matches(allowed, "Edit", arguments) is is_allowed


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"changes": [{"path": "/w/a.py"}]}, ["/w/a.py"]),
        ({"file_path": "/w/a.py"}, ["/w/a.py", "/w/b.py"]),
        ({"path": "/w/a.py", "to": "/w/a.py"}, ["/w/a.py"]),
    ],
)
def test_there_is_no_always_for_changes_that_no_argument_names(
    arguments: dict[str, Any], paths: list[str]
) -> None:
    assert permission_of_program("Edit", arguments, [Write(path=path) for path in paths]) is None
