"""What holds for all tests: the same surroundings on every machine, and which need a call of Linux."""

from __future__ import annotations

import gc
import os
import signal
import ssl
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import lacking
import surroundings
from harness.system.contract import system

surroundings.prepare()

# How fast a machine is must not decide whether a test passes.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if not os.access(os.curdir, os.W_OK):  # there is no place to remember examples that failed
    settings.register_profile("any-speed", settings.get_profile("any-speed"), database=None)
settings.load_profile("any-speed")

# What was compiled once is used by all: by the programs that tests start, and of the tests by every worker.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Each client of httpx would read all certificates again, which takes longer than most tests.
ssl.create_default_context = cache(ssl.create_default_context)

# A shell starts what it puts into the background with interrupts ignored, `nohup` does it with hang-ups, and every child
# would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

collect_ignore = ["recordings"]
collect_ignore_glob = ["agents/*/*"]  # what agents have written; the tests lie beside these folders
"""A thousand folders without a test."""

LONGEST_FIRST = (
    "test_page.py",
    "test_tui_keys.py",
    "test_fleet_container.py",
    "test_doctor.py",
    "test_git_of_strangers.py",
    "test_fleet_ray.py",
    "test_two_way_run.py",
    "test_protected_paths.py",
    "test_views_agree.py",
    "test_every_view.py",
    "test_strangers.py",
    "test_fleet_api.py",
    "test_mcp_servers.py",
    "test_tui_data.py",
    "test_runner.py",
    "test_open_thread_killed.py",
    "test_storable_settings.py",
    "test_several_servers.py",
    "test_package.py",
    "test_hostile_clients.py",
    "test_conversations.py",
    "test_rest.py",
)
"""Files that take a worker long. One that begins last would let the other workers wait for it."""


def pytest_collection_finish() -> None:
    """Thousands of tests are objects that stay: a collection of garbage does not look at them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: index for index, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))
    if system.name == "linux":
        return
    for item in items:
        if marker := item.get_closest_marker("needs_linux_calls"):
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    _list_failures(terminalreporter)
    reasons = [
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])
    ]
    for line in lacking.lines_of(reasons):
        terminalreporter.write_line(line)


def _list_failures(terminalreporter: pytest.TerminalReporter) -> None:
    """For `run.py`, which runs them once more where the CI asks for that."""
    if place := os.environ.get("TEST_FAILURES"):
        reports = [report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())]
        names = dict.fromkeys(report.nodeid for report in reports)
        Path(place).write_text("".join(f"{name}\n" for name in names))
