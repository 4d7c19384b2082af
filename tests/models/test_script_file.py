"""Scripts are read as they are written; a mistake is named with its file, its line, and what would be right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.contracts.script import (
    FAULTS,
    INTENTS,
    AgentIntent,
    DropFault,
    ListIntent,
    ReadIntent,
    RunIntent,
    ScriptReasoning,
    ScriptText,
    ScriptToolCall,
    StatusFault,
    TodoIntent,
)
from harness.errors import UsageError
from harness.events import Usage
from harness.lab import parse_script, read_script
from harness.models.script_file import Positions

GOOD = """\
# A comment with [ brackets {
usage = { input = 5, output = 6 }
turns = [
  [
    { reasoning = "Hm." },
    { text = 'Let me [look].', pieces = 2 },
    { call = "read", path = "src/a.py", lines = [10, 20] },
  ],
  { text = \"\"\"
several "lines" {
\"\"\" },
  [{ fault = "429", times = 2, retry_after_s = 1 }, { fault = "drop" }, { usage = { cache_read = 9 } },
   { tool = "Bash", input = { command = "ls" } }, { stop = "length" }],
]

[side]
text = "A title"

[lanes.counter]
marker = "COUNT"
repeat_last = true
turns = [{ call = "run", command = "ls" }]
"""


def write(folder: Path, text: str, name: str = "script.toml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_script_is_read_as_it_is_written(tmp_path: Path) -> None:
    script = read_script(write(tmp_path, GOOD))
    first, second, third = script.conversations["main"].turns
    assert first.parts == (
        ScriptReasoning(reasoning="Hm."),
        ScriptText(text="Let me [look].", pieces=2),
        ReadIntent(path="src/a.py", lines=(10, 20)),
    )
    assert first.usage == Usage(input=5, output=6)
    assert second.parts == (ScriptText(text='several "lines" {\n'),)
    assert third.parts == (ScriptToolCall(tool="Bash", input={"command": "ls"}),)
    assert third.faults == (StatusFault(fault="429", times=2, retry_after_s=1), DropFault(fault="drop"))
    assert third.usage == Usage(input=5, output=6, cache_read=9)
    assert third.stop == "length"
    assert [turn.place for turn in (first, second, third)] == [
        "script.toml:4",
        "script.toml:9",
        "script.toml:12",
    ]
    counter = script.conversations["counter"]
    assert (counter.marker, counter.repeat_last, counter.turns[0].parts) == (
        "COUNT",
        True,
        (RunIntent(command="ls"),),
    )
    assert script.side.text == "A title"


def test_json_says_the_same(tmp_path: Path) -> None:
    import tomllib

    data = tomllib.loads(GOOD)
    as_json = read_script(write(tmp_path, json.dumps(data, indent=1), "script.json"))
    as_toml = read_script(write(tmp_path, GOOD))
    for name in ("main", "counter"):
        turns = zip(as_json.conversations[name].turns, as_toml.conversations[name].turns, strict=True)
        assert all((a.parts, a.faults, a.usage) == (b.parts, b.faults, b.usage) for a, b in turns)


def test_every_call_and_every_fault_can_be_written() -> None:
    needed = {
        "path": "a",
        "content": "b",
        "old": "c",
        "new": "d",
        "patch": "e",
        "command": "f",
        "query": "g",
        "items": ["h", {"text": "i", "status": "completed"}],
        "name": "j",
        "prompt": "k",
        "server": "l",
        "tool": "m",
        "url": "n",
        "question": "o",
        "plan": "p",
    }
    for name, kind in INTENTS.items():
        wanted = [field for field in kind.__struct_fields__ if field in needed]
        part = {"call": name, **{field: needed[field] for field in wanted}}
        assert isinstance(parse_script({"turns": [part]}).conversations["main"].turns[0].parts[0], kind)
    for name, kind in FAULTS.items():
        turn = parse_script({"turns": [[{"fault": name}]]}).conversations["main"].turns[0]
        assert isinstance(turn.faults[0], kind)


def test_what_is_not_said_has_a_default() -> None:
    script = parse_script({"turns": [[{"call": "list"}, {"call": "agent", "prompt": "x"}]]})
    assert script.conversations["main"].turns[0].parts == (ListIntent(path="."), AgentIntent(prompt="x"))
    todo = parse_script({"turns": [{"call": "todo", "items": ["a"]}]}).conversations["main"].turns[0].parts[0]
    assert isinstance(todo, TodoIntent)
    assert [(item.text, item.status) for item in todo.entries] == [("a", "pending")]


MISTAKES = {
    "syntax": ("turns = [\n  { text = }\n]", 2, "not TOML", "docs/scripts.md"),
    "unfinished": ("turns = [\n", 1, "not TOML", "docs/scripts.md"),
    "unknown field of the file": (
        "turns = [{ text = 'x' }]\ntruns = 1",
        2,
        "unknown field 'truns'",
        "turns, ",
    ),
    "no turn": ("[side]\ntext = 'x'", 1, "there is no turn", "turns = ["),
    "turns of another kind": ("\nturns = 5", 2, "`turns` must be a list", ""),
    "an empty list": ("turns = []", 1, "`turns` must be a list", ""),
    "a part that is a string": ("turns = [\n 'hello']", 2, "a part must be a table", "{ text = 'hello' }"),
    "a part that says nothing": ("turns = [\n [{ txt = 'x' }]]", 2, "this part has txt", "text, reasoning"),
    "an unknown call": ("turns = [\n\n { call = 'raed' }]", 3, "'raed' is not a call", "read, write, "),
    "a missing field": (
        "turns = [{ call = 'read' }]",
        1,
        "missing required field `path`",
        "call, path, lines",
    ),
    "an unknown field": (
        "turns = [\n { call = 'run', cmd = 'ls' }]",
        2,
        "unknown field `cmd`",
        "allowed: call, command",
    ),
    "two parts in one": (
        "turns = [{ text = 'x', fault = '401' }]",
        1,
        "unknown field `text`",
        "fault, times",
    ),
    "a value of another kind": (
        "turns = [\n [\n { call = 'read',\tpath = 7 }]]",
        3,
        "turns[0][0].path: Expected `str`, got `int`",
        "path, lines",
    ),
    "lines the wrong way round": (
        "turns = [{ call = 'read', path = 'x', lines = [9, 2] }]",
        1,
        "`lines` must be [first, last]",
        "",
    ),
    "an unknown fault": ("turns = [\n [{ fault = '418' }]]", 2, "'418' is not a fault", "401, "),
    "an unknown fault that is a number": ("turns = [{ fault = 418 }]", 1, "'418' is not a fault", "401, "),
    "an order that is none": (
        "turns = [[]]\norder = 'arival'",
        2,
        "Invalid enum value 'arival'",
        "conversation, arrival",
    ),
    "an expression that is none": (
        "turns = [\n { tool = 'x', input = { a = '{{(}}' } }]",
        2,
        "no regular expression",
        "",
    ),
    "a count below one": (
        "turns = [[{ fault = '500', times = 0 }]]",
        1,
        "Expected `int` >= 1",
        "times, retry_after_s",
    ),
    "a fault's field at another": (
        "turns = [[{ fault = 'drop', retry_after_s = 1 }]]",
        1,
        "unknown field `retry_after_s`",
        "after",
    ),
    "unknown tokens": (
        "turns = [[{ usage = { inputs = 1 } }]]",
        1,
        "unknown field `inputs`",
        "input, output",
    ),
    "negative tokens": ("usage = { input = -1 }\nturns = [[]]", 1, "usage.input: Expected `int` >= 0", ""),
    "usage of another kind": ("turns = [[{ usage = 5 }]]", 1, "a table was expected", ""),
    "an unknown stop": (
        "turns = [[{ stop = 'tired' }]]",
        1,
        "Invalid enum value 'tired'",
        "length or refusal",
    ),
    "a lane without a marker": ("[lanes.a]\nturns = [[]]", 1, "a lane needs a `marker`", "a text"),
    "a lane without turns": ("[lanes.a]\nmarker = 'x'", 1, "`turns` must be a list", ""),
    "an unknown field of a lane": (
        "[lanes.a]\nmark = 'x'\nturns = [[]]",
        2,
        "unknown field 'mark'",
        "marker, turns",
    ),
    "a lane's name": (
        "[lanes.'A b']\nmarker = 'x'\nturns = [[]]",
        1,
        "no name for a lane: 'A b'",
        "small letters",
    ),
    "a mistake in a lane": (
        "[lanes.a]\nmarker = 'x'\nturns = [\n [{ call = 'run' }]]",
        4,
        "lanes.a.turns[0][0]: Object missing required field `command`",
        "command",
    ),
    "an unknown order": ("order = 'random'\nturns = [[]]", 1, "order: Invalid enum value 'random'", ""),
    "a date": (
        "turns = [{ tool = 'x', input = { at = nan } }]\nside = 5",
        2,
        "side: Expected `object`",
        "text",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_line_and_what_is_allowed(tmp_path: Path, name: str) -> None:
    text, line, reason, allowed = MISTAKES[name]
    with pytest.raises(UsageError) as caught:
        read_script(write(tmp_path, text))
    assert caught.value.message.startswith(f"script.toml:{line}: ")
    assert reason in caught.value.message
    assert allowed in caught.value.hint


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('{\n "turns": [\n  {"text": }\n ]\n}', 3, "not JSON"),
        ('{"turns": [', 1, "not JSON"),
        (
            '{\n "turns": [\n  [{"text": "a"}],\n  [{"text": "b"},\n   {"call": "jump"}]\n ]\n}',
            5,
            "'jump' is not a call",
        ),
        ('{"turns": [[{"text": "a"}]],\n "usage": 7}', 2, "usage: Expected `object`"),
        ("[]", 1, "a table was expected"),
    ],
)
def test_mistakes_of_json_have_lines_too(tmp_path: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_script(write(tmp_path, text, "script.json"))
    assert caught.value.message.startswith(f"script.json:{line}: ")
    assert reason in caught.value.message


def test_a_file_that_cannot_be_read_is_a_mistake_too(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.toml", "No such file"), (tmp_path, "directory"), ("a\0b", "null")):
        with pytest.raises(UsageError, match=reason):
            read_script(str(path))
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# caf\xe9\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_script(str(path))


def test_what_json_cannot_carry_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot carry"):
        parse_script({"turns": [{"text": "lone \ud800 surrogate"}]})


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("[[a]]\nx = 1\n[[a]]\n\nx = 2\n[a.b]\ny = 3", ("a", 1, "x"), 5),
        ("[[a]]\nx = 1\n[[a]]\nx = 2\n[a.b]\ny = 3", ("a", 1, "b", "y"), 6),
        ("a.b = 1\n'c d'.e = [1,\n 2]", ("c d", "e", 1), 3),
        ("x = '''\n]\n'''\ny = 2", ("y",), 4),
        ('x = "\\"]"\ny = 2', ("y", "deeper", 7), 2),
        ("not = [a file", ("not", 0), 1),
        ("", ("x",), 1),
        ("]]]{{{", ("x",), 1),
    ],
)
def test_the_line_of_a_value_is_found(text: str, path: tuple[str | int, ...], line: int) -> None:
    assert Positions(text).line(path) == line
