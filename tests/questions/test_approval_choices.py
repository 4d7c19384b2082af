"""The answers to "may it?": what each grants is in the question, is derived from the call, and is no wider."""

from __future__ import annotations

import os
from typing import Any

import pytest

from harness.approvals.rules import covering
from harness.approvals.work_folder import WorkFolder
from harness.contracts.tool import Renamed, Tool, ToolPermission
from harness.errors import UsageError
from harness.events import Relay, RelayReply
from harness.events.operation import Command
from harness.native.tools.function_tool import tool
from harness.native.tools.registry import default_tools
from harness.questions.choices import choices_of, granted, label_of
from harness.questions.open_questions import check_reply, problems_of
from harness.questions.permissions import matches, proposed_call

TOOLS = {one.spec.name: one for one in default_tools(".")}


FOLDER = WorkFolder(root=os.path.realpath("."))


def grants(name: str, arguments: dict[str, Any], choice: str = "always", made: Tool | None = None) -> Any:
    chosen = made or TOOLS[name]
    choices = choices_of(chosen, arguments, list(chosen.operations(arguments)), FOLDER)
    relay = Relay(id="r", tool_name=name, input=arguments, choices=choices)
    return granted(relay, RelayReply(id="r", approved=True, choice=choice), chosen)


def allows(rules: Any, name: str, arguments: dict[str, Any], made: Tool | None = None) -> bool:
    operations = list((made or TOOLS[name]).operations(arguments))
    return covering(rules, proposed_call(name, arguments, operations), FOLDER) is not None


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
    rules = grants("bash", {"command": "git status"}, choice)
    assert allows(rules, "bash", {"command": "git status"})
    assert not allows(rules, "bash", {"command": line})


def test_a_pattern_covers_the_same_words_and_options_with_other_operands() -> None:
    rules = grants("bash", {"command": "git status -s"}, "pattern")
    for line in ("git status", "git status src", "git status; git status -s"):
        assert allows(rules, "bash", {"command": line})
    for line in ("git push", "git status --porcelain"):
        assert not allows(rules, "bash", {"command": line})


def test_files_hosts_and_sub_agents_are_granted_one_by_one() -> None:
    rules = grants("write", {"filePath": "a.py", "content": "x"})
    assert allows(rules, "write", {"filePath": "a.py", "content": "another"})
    assert not allows(rules, "write", {"filePath": "b.py", "content": "x"})
    rules = grants("fetch", {"url": "https://a.example/x"})
    assert allows(rules, "fetch", {"url": "https://a.example/y"})
    assert not allows(rules, "fetch", {"url": "https://a.example.evil/y"})


def test_other_arguments_than_those_that_were_shown_are_not_covered() -> None:
    @tool(name="deploy")
    async def deploy(target: str = "staging", force: bool = False) -> str:
        return f"{target} {force}"

    nothing = grants("deploy", {}, made=deploy)
    assert allows(nothing, "deploy", {}, deploy)
    assert not allows(nothing, "deploy", {"target": "production"}, deploy)
    one = grants("deploy", {"target": "staging"}, made=deploy)
    assert allows(one, "deploy", {"target": "staging"}, deploy)
    assert not allows(one, "deploy", {"target": "staging", "force": True}, deploy)


def test_a_tool_that_does_not_say_that_it_runs_commands_is_no_way_around() -> None:
    @tool(name="shell")
    async def shell(command: str) -> str:
        return command

    rules = grants("shell", {"command": "git status -s"}, made=shell)
    assert allows(rules, "shell", {"command": "git log"}, shell)
    for line in SLIPPERY[:9]:
        assert not allows(rules, "shell", {"command": line}, shell)
        assert not matches(ToolPermission("shell", {"command": "git **"}), "shell", {"command": line})
        assert not matches(ToolPermission("shell", {"command": "git *"}), "shell", {"command": line})
    exact = grants("shell", {"command": "git status; rm x"}, made=shell)
    assert allows(exact, "shell", {"command": "git status; rm x"}, shell)
    assert not allows(exact, "shell", {"command": "git log"}, shell)
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
        rules = grants("shell", {"command": line}, made=made)
        assert allows(rules, "shell", {"command": line}, made)
        assert not allows(rules, "shell", {"command": f"{line.partition(' ')[0]} rm x"}, made)


def test_a_command_of_any_tool_is_granted_exactly_and_by_its_form_only_when_that_is_chosen() -> None:
    @tool(name="shell", operations=lambda arguments: [Command(command=arguments["command"])])
    async def shell(command: str) -> str:
        return command

    def is_allowed(choice: str, line: str) -> bool:
        rules = grants("shell", {"command": "git status -s"}, choice, made=shell)
        return allows(rules, "shell", {"command": line}, shell)

    assert is_allowed("always", "git status -s")
    assert not is_allowed("always", "git status")
    assert is_allowed("pattern", "git status")
    assert not is_allowed("pattern", "git push")


def test_a_tool_cannot_have_another_one_granted() -> None:
    @tool(name="harmless", permission=lambda _arguments: ToolPermission("bash"))
    async def harmless(x: str) -> str:
        return x

    assert [rule.tool for rule in grants("harmless", {"x": "1"}, made=harmless)] == ["harmless"]
    renamed = Renamed(TOOLS["bash"], "shell")
    assert [rule.tool for rule in grants("shell", {"command": "ls"}, made=renamed)] == ["shell"]


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
        id="r", tool_name="bash", input={}, choices=choices_of(TOOLS["bash"], {"command": "ls"}, [], FOLDER)
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
