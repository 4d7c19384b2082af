"""What a call that waits for permission would change, from its arguments alone."""

from __future__ import annotations

from typing import Any

import pytest

from harness.events import Relay
from harness.events.operation import Write
from harness.views.inbox.asks import asked_preview

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


@pytest.mark.parametrize(
    "given", [None, "text", 7, [], {"file_path": 3, "old_string": ["x"]}, {"changes": 1}]
)
def test_whatever_a_program_asks_there_is_no_exception(given: Any) -> None:
    asked = Relay(id="q", tool_name="edit", input=given)
    assert asked_preview(asked, [Write(path=PATH)]) is None
