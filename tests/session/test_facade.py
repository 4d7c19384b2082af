"""What a harness passes on to its own session takes the same arguments there."""

from __future__ import annotations

import inspect

import pytest

from harness.session.facade import Facade
from harness.session.session import Session

# The session's is for runs, which have a context already.
ANOTHER = {"resolve_workspace"}
SHARED = [
    name
    for name, member in vars(Facade).items()
    if not name.startswith("_")
    and name not in ANOTHER
    and inspect.isfunction(member)
    and inspect.isfunction(vars(Session).get(name))
]


@pytest.mark.parametrize("name", SHARED)
def test_a_harness_takes_what_its_session_takes(name: str) -> None:
    assert inspect.signature(getattr(Facade, name)) == inspect.signature(getattr(Session, name))


def test_answering_is_among_what_is_shared() -> None:
    assert {"respond_to_tool_approval", "send_message", "steer"} <= {*SHARED}
