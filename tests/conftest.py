"""What holds for all tests: those that need a call of Linux are skipped where the fallback is used."""

from __future__ import annotations

import pytest

from harness.system.contract import system


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if system.name == "linux":
        return
    for item in items:
        if marker := item.get_closest_marker("needs_linux_calls"):
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))
