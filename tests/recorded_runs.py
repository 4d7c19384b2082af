"""The recorded runs in `tests/agents`, and how a test is run on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from harness.testing.golden import Case, find_cases

CASES = find_cases(Path(__file__).parent / "agents")


def each(cases: Iterable[Case]) -> Callable[[Callable[[Case], None]], Callable[[str], None]]:
    """Run a test on every case: one test per agent, which names the recordings that fail.

    One test per recording would be ten thousand tests, and pytest needs longer for a test than a view for a recording.
    """
    by_agent: dict[str, list[Case]] = {}
    for case in cases:
        by_agent.setdefault(case.agent, []).append(case)

    def decorate(test: Callable[[Case], None]) -> Callable[[str], None]:
        @pytest.mark.parametrize("agent", by_agent)
        def on_each(agent: str) -> None:
            failures = [error for case in by_agent[agent] if (error := _failure(test, case))]
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(by_agent[agent])} recordings", failures)

        on_each.__doc__ = test.__doc__
        return on_each

    return decorate


def _failure(test: Callable[[Case], None], case: Case) -> Exception | None:
    try:
        test(case)
    except Exception as error:
        error.add_note(f"recording: {case.folder}")
        return error
    return None
