"""What holds for all tests: those that need a call of Linux are skipped where the fallback is used."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from harness.system.contract import system

# How fast a machine is must not decide whether a test passes.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-speed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if system.name == "linux":
        return
    for item in items:
        if marker := item.get_closest_marker("needs_linux_calls"):
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))
