"""What a call changed, from arguments as agents write them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.events import FileTexts, Relay, Result, SessionStart, ToolEnd, ToolStart
from harness.events.operation import Write
from harness.folds.changes.edits import Edit, edits_of
from harness.folds.changes.fold import ChangedFiles, ChangeHistory


def edits(asked: Any, *writes: Write, success: bool = True) -> list[Edit]:
    start = ToolStart(call_id="c", tool_name="t", input=asked, operations=list(writes))
    return edits_of(start, ToolEnd(call_id="c", tool_name="t", success=success, output="ok"))


@pytest.mark.parametrize(
    "asked",
    [
        {"file_path": "/w/a", "old_string": "x", "new_string": "y"},
        {"path": "/w/a", "old_str": "x", "new_str": "y"},
        {"path": "/w/a", "edits": [{"oldText": "x", "newText": "y"}]},
        {"path": "a", "before": "x", "after": "y"},
    ],
)
def test_a_replaced_passage(asked: dict[str, Any]) -> None:
    (edit,) = edits(asked, Write(path="/w/a", change="update", start_line=3))
    assert [(passage.old, passage.new) for passage in edit.passages] == [("x", "y")]


def test_the_changes_of_codex_have_diffs_or_whole_texts() -> None:
    asked = {
        "changes": [
            {"path": "/w/a", "kind": {"type": "add"}, "diff": "one\n"},
            {"path": "/w/b", "kind": {"type": "update"}, "diff": "@@ -2,2 +2,2 @@\n same\n-old\n+new\n"},
            {"path": "/w/c", "kind": {"type": "delete"}, "diff": "gone\n"},
        ]
    }
    found = edits(
        asked,
        Write(path="/w/a", change="create"),
        Write(path="/w/b", change="update"),
        Write(path="/w/c", change="delete"),
    )
    assert [edit.content for edit in found] == ["one\n", None, None]
    assert found[1].passages[0].old == "same\nold\n"
    assert found[1].passages[0].line == 2
    assert found[2].before == "gone\n"


def test_texts_that_an_agent_shows_stand_for_arguments() -> None:
    start = ToolStart(call_id="c", tool_name="t", operations=[Write(path="/w/a"), Write(path="/w/b")])
    shown = [FileTexts(path="/w/a", before="one\n", after="two\n"), FileTexts(path="/w/b", after="new\n")]
    changed, made = edits_of(start, ToolEnd(call_id="c", tool_name="t", success=True, changes=shown))
    assert [(passage.old, passage.new) for passage in changed.passages] == [("one\n", "two\n")]
    assert (made.change, made.content) == ("create", "new\n")


def test_a_call_that_failed_changed_nothing() -> None:
    asked = {"path": "/w/a", "content": "x"}
    assert edits(asked, Write(path="/w/a"), success=False) == []


def test_what_is_no_text_of_a_file_is_not_taken_for_one() -> None:
    (edit,) = edits({"notebook_path": "/w/n.ipynb", "new_source": "print(2)"}, Write(path="/w/n.ipynb"))
    assert not edit.has_text
    (edit,) = edits({"command": "cat > /w/a"}, Write(path="/w/a"))
    assert not edit.has_text


@pytest.mark.parametrize(
    "asked", [None, 3, [], [[]], {"changes": 5}, {"edits": [None, 3]}, "{", {"input": "{]"}]
)
def test_arguments_of_any_shape_are_taken(asked: Any) -> None:
    (edit,) = edits(asked, Write(path="/w/a"))
    assert edit.path == "/w/a"


def test_lines_that_are_changed_twice_are_counted_once() -> None:
    totals = ChangedFiles()
    history = ChangeHistory()
    calls = [("a\nb\n", "a\nc\n"), ("c\n", "d\n"), ("z\n", "")]
    events: list[Any] = [SessionStart(run_id="r", agent="x", cwd="/w", seq=0, timestamp_ms=1)]
    for number, (old, new) in enumerate(calls):
        call: dict[str, Any] = {"run_id": "r", "call_id": f"c{number}", "tool_name": "edit"}
        asked = {"path": "/w/a", "old_string": old, "new_string": new}
        events.append(ToolStart(**call, input=asked, operations=[Write(path="/w/a", change="update")]))
        events.append(ToolEnd(**call, success=True, output="", timestamp_ms=5))
    events.append(Result(run_id="r", success=True))
    for event in events:
        totals.feed(event)
        history.feed(event)
    assert (totals.files, totals.added, totals.removed) == (1, 1, 2)
    assert history.files["/w/a"].turns == ["r"]
    assert history.cwd == "/w"


def test_a_preview_says_what_an_overwritten_file_said() -> None:
    history = ChangeHistory()
    preview = [
        {"path": "/w/a", "change": "update", "diff": "@@ -1,2 +1,2 @@\n one\n-two\n+2\n", "hidden_lines": 0}
    ]
    call: dict[str, Any] = {"run_id": "r", "call_id": "c", "tool_name": "write"}
    for event in (
        SessionStart(run_id="r", agent="x"),
        ToolStart(**call, input={"path": "/w/a", "content": "one\n2\n"}, operations=[Write(path="/w/a")]),
        Relay(run_id="r", id="q", call_id="c", preview=preview),
        ToolEnd(**call, success=True, output=""),
    ):
        history.feed(event)
    (edit,) = history.files["/w/a"].edits
    assert (edit.content, edit.passages[0].old) == ("one\n2\n", "one\ntwo\n")
