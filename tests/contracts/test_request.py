"""A request that cannot be meant is refused where it is made."""

from __future__ import annotations

from typing import Any

import pytest

from harness import Limits, Request, UsageError


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("permissions", "readonly", "one of full-access, read-only, agent-default, ask, accept-edits, plan"),
        ("permissions", None, "one of full-access, read-only, agent-default, ask, accept-edits, plan"),
        ("on_ask", "yes", "one of wait, deny, allow, None"),
        ("prompt", None, "a text"),
        ("model", 5, "a text"),
        ("sandbox", "no", "True or False"),
        ("tags", "one", "a tuple of texts"),
        ("env", [("A", "b")], "a mapping from names to texts"),
        ("limits", {"max_turns": 1}, "Limits(max_turns=…, max_budget_usd=…, timeout_s=…)"),
    ],
)
def test_a_wrong_value_is_an_error_of_the_caller(field: str, value: Any, wanted: str) -> None:
    """A misspelt permission most of all: the agent would otherwise get those of its own default."""
    with pytest.raises(UsageError, match=field) as raised:
        Request(agent="native", **{field: value})
    assert raised.value.hint == f"give {wanted}"


@pytest.mark.parametrize("field", ["model", "effort", "resume", "session_id"])
@pytest.mark.parametrize("value", ["--yolo", "-m", "a\0b", "a\nb"])
def test_what_an_agent_could_take_for_an_option_is_no_name(field: str, value: str) -> None:
    """`--model --yolo` is two options for some agents, and models are named by other agents and by front ends."""
    with pytest.raises(UsageError, match=f"{field} of a request cannot be"):
        Request(agent="gemini", **{field: value})


def test_right_values_are_taken_as_they_are() -> None:
    request = Request(agent="native", permissions="read-only", on_ask="deny", limits=Limits(max_turns=3))
    assert (request.permissions, request.on_ask, request.limits.max_turns) == ("read-only", "deny", 3)
