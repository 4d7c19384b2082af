"""What a call that waits for permission would change, from its arguments alone."""

from __future__ import annotations

from typing import Any

import pytest

from harness.events import Relay
from harness.events.operation import Write
from harness.folds.inbox.previews import asked_preview

PATH = "/w/cart.py"


@pytest.mark.parametrize(
    ("arguments", "diff"),
    [
        ({"file_path": PATH, "old_string": "a\nb", "new_string": "a\nc"}, "@@ … @@\n a\n-b\n+c"),
        ({"path": PATH, "edits": [{"oldText": "a", "newText": "b"}]}, "@@ … @@\n-a\n+b"),
        (
            {"path": PATH, "edits": [{"oldText": x, "newText": y} for x, y in ("ab", "cd")]},
            "@@ … @@\n-a\n+b\n@@ … @@\n-c\n+d",
        ),
        ({"filePath": PATH, "content": "one\ntwo\n"}, "+one\n+two"),
    ],
)
def test_arguments_say_what_would_change(arguments: dict[str, Any], diff: str) -> None:
    asked = Relay(id="q", call_id="c", tool_name="edit", input=arguments)
    [file] = asked_preview(asked, [Write(path=PATH)]) or []
    assert (file["path"], file["diff"], file["hiddenLines"]) == (PATH, diff, 0)


def test_long_changes_are_cut_and_counted() -> None:
    asked = Relay(id="q", tool_name="write", input={"path": PATH, "content": "x\n" * 1000})
    [file] = asked_preview(asked, [Write(path=PATH)]) or []
    assert (file["added"], file["hiddenLines"]) == (1000, 600)


def test_all_of_a_long_change_is_there_when_it_is_asked_for() -> None:
    text = "x" * 5_000 + "\n" + "y\n" * 1000
    asked = Relay(id="q", tool_name="write", input={"path": PATH, "content": text})
    [file] = asked_preview(asked, [Write(path=PATH)], is_whole=True) or []
    assert (file["diff"].replace("\n+", "\n").removeprefix("+"), file["hiddenLines"]) == (
        text.rstrip("\n"),
        0,
    )
    [cut] = asked_preview(asked, [Write(path=PATH)]) or []
    assert cut["hiddenLines"] > 0


def test_a_stated_preview_that_lacks_lines_is_replaced_by_the_arguments() -> None:
    stated = [{"path": PATH, "change": "create", "added": 9, "removed": 0, "diff": "+a", "hidden_lines": 1}]
    asked = Relay(id="q", tool_name="write", input={"path": PATH, "content": "a\nb\n"}, preview=stated)
    assert asked_preview(asked, [Write(path=PATH)]) == [
        {"path": PATH, "change": "create", "added": 9, "removed": 0, "diff": "+a", "hiddenLines": 1}
    ]
    [file] = asked_preview(asked, [Write(path=PATH)], is_whole=True) or []
    assert (file["diff"], file["hiddenLines"]) == ("+a\n+b", 0)


def test_the_file_gives_numbers_and_the_lines_around_a_change() -> None:
    asked = Relay(id="q", tool_name="edit", input={"path": PATH, "old_string": "five", "new_string": "FIVE"})
    text = "one\ntwo\nthree\nfour\nfive\nsix\n"
    [file] = asked_preview(asked, [Write(path=PATH)], text_of=lambda _path: text) or []
    assert file["diff"].split("\n") == [
        "@@ -2,5 +2,5 @@ one",
        " two",
        " three",
        " four",
        "-five",
        "+FIVE",
        " six",
    ]
    written = Relay(id="q", tool_name="write", input={"path": PATH, "content": "one\n"})
    [file] = asked_preview(written, [Write(path=PATH)], text_of=lambda _path: text) or []
    assert (file["added"], file["removed"]) == (0, 5), "it says what goes"


@pytest.mark.parametrize(
    "given", [None, "text", 7, [], {"file_path": 3, "old_string": ["x"]}, {"changes": 1}]
)
def test_whatever_a_program_asks_there_is_no_exception(given: Any) -> None:
    asked = Relay(id="q", tool_name="edit", input=given)
    assert asked_preview(asked, [Write(path=PATH)]) is None
