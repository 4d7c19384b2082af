"""A call has the shape that the running version of an agent offers."""

from __future__ import annotations

import pytest

from harness.contracts.script import EditIntent, ListIntent, ScriptToolCall
from harness.lab import LabContext, load_fixture
from harness.lab.tool_calls import as_offered

CONTEXT = LabContext(url="http://x", home="/h", cwd="/w")
OFFERS = {
    "newest": ({"path": {}, "edits": {}}, {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}),
    "older": ({"path": {}, "oldText": {}, "newText": {}}, {"path": "a", "oldText": "x", "newText": "y"}),
    "renamed": (
        {"file_path": {}, "old_string": {}, "new_string": {}},
        {"file_path": "a", "old_string": "x", "new_string": "y"},
    ),
}


@pytest.mark.parametrize("offer", OFFERS)
def test_a_call_has_the_shape_that_the_running_version_offers(offer: str) -> None:
    properties, given = OFFERS[offer]
    tools = {"edit": {"properties": properties, "required": [*properties], "additionalProperties": False}}
    (calls,) = load_fixture("pi").render(EditIntent(path="a", old="x", new="y"), CONTEXT).calls
    assert as_offered(calls, tools) == ScriptToolCall(tool="edit", input=given)


def test_a_tool_that_is_not_offered_is_not_called_where_another_does() -> None:
    (calls,) = load_fixture("claude").render(ListIntent(path="src"), CONTEXT).calls
    assert as_offered(calls, {"Bash": {}, "LS": {}}).tool == "LS"
    assert as_offered(calls, {"Bash": {}}).tool == "Bash"
