"""Calls as models really write them, with what they have learnt from other agents, are taken; what is shown is what runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.model import Call
from harness.contracts.tool import Tool
from harness.events.operation import Command, Read, Search, Write
from harness.native.tools.apply_patch import ApplyPatchTool, parse, unwrapped
from harness.native.tools.bash import BashTool
from harness.native.tools.edit import EditTool
from harness.native.tools.read import ReadTool
from harness.native.tools.registry import default_tools, output_folder
from harness.native.tools.spellings import in_our_words
from harness.native.tools.todo import TodoTool
from harness.workspace.terminal_text import as_seen
from tool_kit import Bench

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import calls as recorded

SPELLINGS: list[tuple[str, dict[str, Any]]] = [
    ("Bash", {"command": "ls", "description": "List", "timeout": 120000}),
    ("bash", {"command": "ls", "timeout": "600000", "run_in_background": False}),
    ("bash", {"cmd": "ls", "workdir": "sub", "yield_time_ms": 1000, "max_output_tokens": 4000}),
    ("shell", {"command": ["bash", "-lc", "ls -la"], "workdir": "/x", "timeout_ms": 10000}),
    ("shell", {"command": ["ls", "-la", "a b"]}),
    ("exec_command", {"cmd": "ls"}),
    ("run_shell_command", {"command": "ls", "is_background": False, "dir_path": "."}),
    ("execute_command", {"command": "ls", "requires_approval": False}),
    ("run_terminal_cmd", {"command": "ls", "is_background": True, "explanation": "x"}),
    ("bash", {"command": "ls", "timeout": None}),
    ("Read", {"file_path": "/a.py", "offset": 120, "limit": 50}),
    ("read", {"filePath": "a.py", "offset": "3"}),
    ("read_file", {"absolute_path": "/a.py", "start_line": 3, "end_line": 9}),
    ("read_file", {"path": "a.py"}),
    ("read_file", {"target_file": "a.py", "offset": 1, "limit": 9}),
    ("view", {"file_path": "a.py", "offset": 0, "limit": 200}),
    ("view_file", {"AbsolutePath": "/a.py", "StartLine": 1, "EndLine": 3}),
    ("read", {"path": "a.py", "view_range": [3, 9]}),
    ("Write", {"file_path": "a.py", "content": "x"}),
    ("write_file", {"file_path": "a.py", "contents": "x"}),
    ("write_to_file", {"path": "a.py", "content": "x"}),
    ("create_file", {"path": "a.py", "file_text": "x"}),
    ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": False}),
    ("edit", {"filePath": "a", "oldString": "x", "newString": "y"}),
    ("edit", {"path": "a", "oldText": "x", "newText": "y"}),
    ("edit", {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}),
    ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}),
    ("edit", {"file_path": "a", "edits": '[{"old_string": "x", "new_string": "y"}]'}),
    (
        "replace",
        {
            "file_path": "a",
            "instruction": "i",
            "old_string": "x",
            "new_string": "y",
            "expected_replacements": 1,
        },
    ),
    ("str_replace", {"path": "a", "old_str": "x", "new_str": "y"}),
    ("search_replace", {"file_path": "a", "old_string": "x", "new_string": "y"}),
    (
        "Grep",
        {
            "pattern": "x",
            "path": "src",
            "glob": "*.py",
            "output_mode": "content",
            "-n": True,
            "-C": 2,
            "-i": True,
        },
    ),
    ("grep", {"pattern": "x", "include": "*.py"}),
    ("grep_search", {"query": "x", "include_pattern": "*.py", "case_sensitive": True}),
    ("search_file_content", {"pattern": "x", "dir_path": "src"}),
    ("search_files", {"regex": "x", "path": ".", "file_pattern": "*.py"}),
    ("Glob", {"pattern": "**/*.py", "path": None}),
    ("glob_file_search", {"glob_pattern": "*.py", "target_directory": "src"}),
    ("LS", {"path": "/x", "ignore": []}),
    ("list_dir", {"dir_path": "/x", "offset": 1, "limit": 5, "depth": 2}),
    ("list_directory", {"dir_path": "."}),
    ("TodoWrite", {"todos": [{"content": "a", "status": "in_progress", "activeForm": "Doing a"}]}),
    ("update_plan", {"plan": [{"step": "a", "status": "completed"}], "explanation": "x"}),
    ("write_todos", {"todos": [{"description": "a", "status": "cancelled"}]}),
    ("todo", {"todos": '[{"content": "a", "status": "done"}]'}),
    ("todo", {"items": ["a", "b"]}),
    ("Task", {"description": "look", "prompt": "look around", "subagent_type": "general"}),
    ("WebFetch", {"url": "https://host/", "prompt": "what is it"}),
    ("fetch", {"uri": "https://host/", "format": "markdown"}),
    ("BashOutput", {"bash_id": "b1"}),
    ("apply_patch", {"input": "*** Begin Patch\n*** Delete File: a\n*** End Patch"}),
    ("apply_patch", {"patchText": "*** Begin Patch\n*** Delete File: a\n*** End Patch"}),
    ("bash", {"command": "ls", "cwd": "sub"}),
    ("run_terminal_command", {"command": "sleep 1", "background": True, "description": "wait"}),
    ("run_commands", {"commands": ["cat a", "ls"]}),
    ("run_commands", {"commands": "ls"}),
    ("Execute", {"command": "ls", "summary": "x", "riskLevel": "low"}),
    ("Read", {"path": "a.py", "line_offset": -1}),
    ("read_files", {"files": [{"path": "a.py"}]}),
    ("read_many_files", {"paths": ["a.py"]}),
    ("str_replace_based_edit_tool", {"command": "view", "path": "a.py", "view_range": [1, 9]}),
    ("str_replace_based_edit_tool", {"command": "create", "path": "a.py", "file_text": "x"}),
    ("str_replace_editor", {"command": "str_replace", "path": "a.py", "old_str": "x", "new_str": "y"}),
    ("editor", {"path": "a.py", "new_text": "x"}),
    ("editor", {"path": "a.py", "old_text": "x", "new_text": "y"}),
    ("Create", {"file_path": "a.py", "content": "x"}),
    ("search_codebase", {"queries": ["x"]}),
    ("tree", {"path": "."}),
    ("updateTodos", {"todos": [{"id": "1", "content": "a", "status": "TODO_STATUS_COMPLETED"}]}),
    ("TodoList", {"todos": [{"title": "a", "status": "in_progress"}]}),
    ("todo__todo_write", {"content": "- [ ] first\n- [x] second"}),
    ("invoke_subagent", {"subagents": [{"type_name": "research", "initial_prompt": "look"}]}),
    ("invoke_agent", {"agent_name": "generalist", "prompt": "look"}),
    ("fetch_web_content", {"requests": [{"url": "https://host/", "prompt": "x"}]}),
]


@pytest.fixture
def tools(bench: Bench) -> dict[str, Tool]:
    return {tool.spec.name: tool for tool in default_tools(str(bench.root))}


@pytest.mark.parametrize(("name", "arguments"), SPELLINGS)
def test_a_call_is_taken_as_models_write_it(
    name: str, arguments: dict[str, Any], tools: dict[str, Tool]
) -> None:
    call = in_our_words(Call("c", name, arguments), tools)
    assert tools[call.name].operations(call.input)


def test_nearly_all_recorded_calls_of_other_agents_are_taken() -> None:
    shares = recorded.shares()
    taken, total, refused_there = recorded.all_of(shares)
    assert total > 500
    assert taken > 0.96 * total
    assert taken > 0.99 * (total - refused_there)
    assert {
        "bash",
        "read",
        "edit",
        "write",
        "grep",
        "glob",
        "list",
        "todo",
        "agent",
        "fetch",
    } <= shares.keys()


def test_what_is_shown_and_allowed_is_what_will_run(bench: Bench) -> None:
    tool = BashTool(bench.workspace, output_folder({}, redact=False))
    bench.write("sub dir/a.txt", "x")
    call = in_our_words(Call("c", "shell", {"cmd": "ls", "cwd": "sub dir", "timeout": 5000}), {"bash": tool})
    assert call == Call("c", "bash", {"command": "ls", "workdir": "sub dir", "timeout": 5.0})
    assert tool.operations(call.input) == [Command(command="ls", cwd=f"{bench.root}/sub dir")]
    assert tool.permission(call.input).params == {"command": "ls", "workdir": "sub dir"}
    assert "a.txt" in bench.call(tool, **call.input).text
    listed = in_our_words(Call("c", "bash", {"command": ["bash", "-lc", "echo hi"]}), {"bash": tool})
    assert listed.input == {"command": "echo hi"}


def test_a_tool_of_that_name_goes_before_a_spelling(tools: dict[str, Tool]) -> None:
    other = tools["glob"]
    assert in_our_words(Call("c", "search", {}), {**tools, "search": other}).name == "search"
    assert in_our_words(Call("c", "nonsense", {}), tools).name == "nonsense"


def test_lines_have_the_same_numbers_in_grep_and_read(bench: Bench, tools: dict[str, Tool]) -> None:
    bench.write("a.txt", "".join(f"line {number}\n" for number in range(1, 200)))
    found = bench.call(tools["grep"], pattern="line 120$").text
    assert ":120:" in found
    text = bench.call(ReadTool(bench.workspace), filePath="a.txt", offset=120, limit=1).text
    assert "120\tline 120\n" in text
    [read] = ReadTool(bench.workspace).operations({"path": "a.txt", "start_line": 3, "end_line": 9})
    assert isinstance(read, Read)
    assert (read.start_line, read.end_line) == (3, 9)


def test_an_edit_shows_the_new_lines_and_several_are_all_or_none(bench: Bench) -> None:
    path = bench.write("a.py", "one\ntwo\nthree\nfour\nfive\nsix\n")
    tool = EditTool(bench.workspace)
    bench.files.read(str(path))
    text = bench.call(tool, filePath="a.py", oldString="three", newString="3\n3b").text
    assert "     3 +3\n     4 +3b\n     5  four" in text
    assert "       -three" in text
    edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "nowhere", "new_string": "x"}]
    assert "does not occur" in bench.refused(tool, filePath="a.py", edits=edits)
    assert bench.text("a.py").startswith("one\n")
    edits[1] = {"old_string": "six", "new_string": "6"}
    bench.call(tool, filePath="a.py", edits=edits)
    assert bench.text("a.py") == "1\ntwo\n3\n3b\nfour\nfive\n6\n"
    assert isinstance(tool.operations({"path": "a.py", "edits": edits})[0], Write)


def test_an_edit_that_fails_shows_what_is_there(bench: Bench) -> None:
    path = bench.write("a.py", "def greet(name):\n    return 'hello ' + name\n\nx = 1\nx = 1\n")
    bench.files.read(str(path))
    tool = EditTool(bench.workspace)
    said = bench.refused(tool, filePath="a.py", oldString="def greet(names):", newString="x")
    assert "1  def greet(name):" in said
    assert "at the lines 4, 5" in bench.refused(tool, filePath="a.py", oldString="x = 1", newString="y")


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+1\n*** End Patch"


@pytest.mark.parametrize(
    "text",
    [
        PATCH,
        f"Here is the patch:\n\n{PATCH}\n\nThat is all.",
        f"```diff\n{PATCH}\n```",
        f"apply_patch <<'PATCH-1'\n{PATCH}\nPATCH-1",
        PATCH.replace("Begin Patch", "Begin Patch ***").replace("End Patch", "End Patch ***"),
        PATCH.replace("*** Begin", "***Begin"),
        PATCH.removesuffix("\n*** End Patch"),
        f"```\n{PATCH.removesuffix('*** End Patch')}```",
        PATCH.replace("\n", "\r\n"),
        "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-one\n+1\n",
        "diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@ def x\n-one\n+1",
    ],
)
def test_a_patch_is_taken_in_every_form_that_models_write(text: str, bench: Bench) -> None:
    path = bench.write("a.py", "one\n")
    bench.files.read(str(path))
    bench.call(ApplyPatchTool(bench.workspace), patch=text)
    assert bench.text("a.py") == "1\n"


def test_a_diff_makes_and_deletes_files_too(bench: Bench) -> None:
    text = "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,2 @@\n+a\n+b\n--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    files = parse(unwrapped(text))
    assert [(file.path, file.change) for file in files] == [("new.py", "create"), ("old.py", "delete")]
    assert files[0].content == ["a", "b"]


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("long line\rshort\n", "shortline\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("\x1b]0;title\x07x\x1b]8;;http://h\x1b\\y\x1b]8;;\x1b\\", "xy"),
        ("ab\x08c\x00\x07", "ac"),
        ("plain\ttext ü\n", "plain\ttext ü\n"),
    ],
)
def test_output_is_shown_as_a_terminal_would_show_it(written: str, seen: str) -> None:
    assert as_seen(written) == seen


def test_states_of_a_list_have_many_names(bench: Bench) -> None:
    output = bench.call(
        TodoTool(), plan=[{"step": "a", "status": "done"}, {"title": "b", "status": "in-progress"}]
    )
    assert [(task.text, task.status) for task in output.tasks or ()] == [
        ("a", "completed"),
        ("b", "in_progress"),
    ]


def test_searches_know_other_names(tools: dict[str, Tool]) -> None:
    [search] = tools["grep"].operations({"query": "x", "directory": "src"})
    assert isinstance(search, Search)
    assert search.query == "x"
    assert search.path.endswith("src")
