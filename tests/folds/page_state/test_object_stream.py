"""Operations on state: the rules, and two other implementations as witnesses."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.folds.page_state.object_stream import (
    BadOperation,
    Merger,
    ObjectChange,
    apply,
    diff,
    merge,
)
from lacking import lacking

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "0", "__proto__"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def set_(path: str, value: Any) -> dict[str, Any]:
    return {"type": "set", "path": [key for key in path.split("/") if key], "value": value}


def append(path: str, value: Any) -> dict[str, Any]:
    return {"type": "append-text", "path": [key for key in path.split("/") if key], "value": value}


@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        (None, set_("", {"a": 1}), {"a": 1}),
        ({"a": 1}, set_("b", 2), {"a": 1, "b": 2}),
        (None, set_("a/0/b", 1), {"a": {"0": {"b": 1}}}),
        ({"a": [1]}, set_("a/1", 2), {"a": [1, 2]}),
        ({"a": [1]}, set_("a/0", None), {"a": [None]}),
        ({"a": None}, set_("a/b", 1), {"a": {"b": 1}}),
        ("Hel", append("", "lo"), "Hello"),
        ({"a": ""}, append("a", "é\U0001f600"), {"a": "é\U0001f600"}),
        ({"toString": 1}, set_("valueOf/x", 1), {"toString": 1, "valueOf": {"x": 1}}),
    ],
)
def test_an_operation_changes_what_its_path_names(before: Any, operation: Any, after: Any) -> None:
    kept = json.dumps(before)
    assert apply(before, [operation]) == after
    assert json.dumps(before) == kept


@pytest.mark.parametrize(
    ("state", "operation"),
    [
        ({"a": 1}, set_("a/b", 1)),
        ({"a": "x"}, set_("a/0", 1)),
        ([1], set_("2", 1)),
        ([1], set_("-1", 1)),
        ([1], set_("x", 1)),
        ([1], set_("01", 1)),
        ([1], set_("1.0", 1)),
        ([1], set_("-0", 1)),
        ({}, set_("__proto__/x", 1)),
        ({}, set_("constructor", 1)),
        ({}, set_("prototype", 1)),
        ({}, append("a", "x")),
        ({"a": None}, append("a", "x")),
        ({"a": 1}, append("a", "x")),
        ({"a": "x"}, append("a", 1)),
        ({}, {"type": "delete", "path": ["a"]}),
        ({}, {"type": "set", "path": "a", "value": 1}),
        ({}, "set"),
    ],
)
def test_a_bad_operation_is_refused_and_changes_nothing(state: Any, operation: Any) -> None:
    kept = json.dumps(state)
    with pytest.raises(BadOperation):
        apply(state, [set_("", state), operation])
    assert json.dumps(state) == kept
    if operation != set_("2", 1):
        assert apply(state, [operation], strict=False) == state


def test_a_lenient_reader_passes_bad_operations_over_and_takes_a_far_position_as_the_end() -> None:
    bad = [set_("a/b/c", 1), append("missing", "x"), set_("list/x", 1)]
    state = {"a": {"b": 1}, "list": [1]}
    assert apply(state, [*bad, set_("a/d", 2)], strict=False) == {"a": {"b": 1, "d": 2}, "list": [1]}
    assert apply([1], [set_("5", 2)], strict=False) == [1, 2]


def test_a_text_that_grows_is_appended_and_any_other_change_is_set() -> None:
    assert diff({"t": "ab"}, {"t": "abc"}) == [ObjectChange("append-text", ("t",), "c")]
    assert diff({"t": ""}, {"t": "c"}) == [ObjectChange("set", ("t",), "c")]
    assert diff({"t": "ab"}, {"t": "b"}) == [ObjectChange("set", ("t",), "b")]
    assert diff({"t": "ab"}, {"t": "ab"}) == []
    assert diff([1], [1, 2]) == [ObjectChange("set", ("1",), 2)]
    assert diff([1, 2], [1]) == [ObjectChange("set", (), [1])]
    assert diff({"a": 1}, {"a": True}) == [ObjectChange("set", ("a",), True)]


@given(JSON, JSON)
@settings(max_examples=500, deadline=None)
def test_what_differs_applied_to_the_one_gives_the_other(before: Any, after: Any) -> None:
    assert json.dumps(apply(before, diff(before, after)), sort_keys=True) == json.dumps(after, sort_keys=True)


def test_pieces_of_one_text_become_one_operation_though_others_come_between() -> None:
    operations = [
        ObjectChange("set", ("m", "0"), {"content": ""}),
        ObjectChange("append-text", ("m", "0", "content"), "a"),
        ObjectChange("set", ("seq",), 1),
        ObjectChange("append-text", ("m", "0", "content"), "b"),
        ObjectChange("set", ("seq",), 2),
    ]
    assert merge(operations) == [
        ObjectChange("set", ("m", "0"), {"content": ""}),
        ObjectChange("append-text", ("m", "0", "content"), "ab"),
        ObjectChange("set", ("seq",), 2),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_merged_operations_do_what_all_of_them_do(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(100):
        state, operations = None, []
        for operation in random_operations(source, 12):
            try:
                state = apply(state, [operation])
            except BadOperation:
                continue
            operations.append(ObjectChange(operation["type"], tuple(operation["path"]), operation["value"]))
        cut = source.randrange(len(operations) + 1)
        before = apply(None, operations[:cut])
        assert apply(before, merge(operations[cut:])) == state


def test_merging_costs_no_more_for_the_ten_thousandth_operation() -> None:
    merger = Merger()
    for index in range(10_000):
        merger.add(ObjectChange("set", ("messages", str(index)), {}))
        merger.add(ObjectChange("set", ("status",), "running"))
    assert len(merger.operations()) == 10_001


def random_operations(source: random.Random, most: int) -> list[dict[str, Any]]:
    """Likely and unlikely ones, so that many apply and some do not."""
    keys = ["a", "b", "0", "1", "2", "messages", "x", "-1", "01", "__proto__", "toString"]
    weights = [9, 9, 9, 6, 3, 5, 2, 1, 1, 1, 1]
    values: list[Any] = [None, True, 1, -2.5, "", "t", "é\U0001f600", [], [1, "a"], {}, {"a": "x"}, {"0": []}]
    found = []
    for _ in range(source.randrange(1, most)):
        path = source.choices(keys, weights, k=source.choice((0, 1, 1, 2, 2, 2, 3)))
        kind = source.choice(("set", "set", "append-text"))
        value = source.choice(("", "t", "é\U0001f600")) if kind == "append-text" else source.choice(values)
        found.append({"type": kind, "path": path, "value": value})
    return found


CASES = 10_000


def random_cases() -> list[list[dict[str, Any]]]:
    source = random.Random(7)
    return [random_operations(source, 8) for _ in range(CASES)]


def stepwise(operations: list[dict[str, Any]], apply_one: Any, errors: Any) -> list[Any]:
    """The state after each operation; "refused" where it was."""
    state, found = None, []
    for operation in operations:
        try:
            state = apply_one(state, operation)
            found.append(state)
        except errors:
            found.append("refused")
    return found


def ours(state: Any, operation: Any) -> Any:
    return apply(state, [operation])


def test_the_python_library_of_assistant_ui_sees_the_same_on_ten_thousand_lists() -> None:
    pytest.importorskip("assistant_stream", reason=lacking("assistant-stream (Python)"))
    from assistant_stream.state import AssistantState

    for operations in random_cases():
        # It lets pass what we refuse: names of JavaScript, texts that are gone through, unusual digits.
        state = None
        theirs = AssistantState(None)
        for operation in operations:
            try:
                state = apply(state, [operation])
            except BadOperation:
                continue
            theirs.apply([operation])
            assert theirs.state == state


def test_the_javascript_library_of_assistant_ui_sees_the_same_on_ten_thousand_lists(tmp_path: Path) -> None:
    module = _javascript_library()
    if module is None:
        pytest.skip(lacking("assistant-stream (npm)"))
    cases = random_cases()
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    script = tmp_path / "witness.mjs"
    script.write_text(
        f"""
import {{ AssistantTransportDeltaTracker as Tracker }} from {json.dumps(module)};
import {{ readFileSync, writeFileSync }} from "node:fs";
const cases = JSON.parse(readFileSync(process.argv[2] + "/cases.json", "utf8"));
const found = cases.map((operations) => {{
  const tracker = new Tracker(null);
  return operations.map((operation) => {{
    try {{ tracker.append([operation]); return tracker.state; }} catch {{ return "refused"; }}
  }});
}});
writeFileSync(process.argv[2] + "/found.json", JSON.stringify(found));
"""
    )
    subprocess.run(["node", str(script), str(tmp_path)], check=True, timeout=50)
    found = json.loads((tmp_path / "found.json").read_text())
    for operations, theirs in zip(cases, found, strict=True):
        assert stepwise(operations, ours, BadOperation) == theirs


def _javascript_library() -> str | None:
    if shutil.which("node") is None:
        return None
    folder = Path(__file__).parents[3] / "web" / "node_modules"
    place = folder / "assistant-stream" / "dist" / "index.js"
    return place.as_uri() if place.exists() else None
