"""The page in a real browser, where there is one: `web/e2e` has these tests and more (`npm run e2e`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lacking import lacking

_WEB = Path(__file__).parents[2] / "web"
_BROWSER = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
_DRIVER = _WEB / "node_modules" / "playwright-core"
_CHOSEN = (
    "the link lets in",
    "a newcomer runs an agent",
    "files go with a message",
    "another server on this machine",
    "a browser that is logged out",
    "a tab whose old key",
    "when the server is gone",
)
_CHOSEN_OF_APPROVAL = (
    "what is shown for approval",
    "a tall command is folded",
    "letters that are written from right to left",
    "always allows what its button says",
)
_CHOSEN_OF_INBOX = (
    "what agents ask is answered in the inbox with keys alone",
    "two that are alike",
    "a card answers to keys only",
    "on a phone one question",
    "every page and state passes axe",
    "200 live rows",
)
_CHOSEN_OF_FLEET = (
    "without a fleet the page says",
    "a fleet is followed while it runs",
    "every mark has words",
    "two attempts at a task",
    "variants are compared",
    "a fleet is stopped and continued",
    "a fleet that cannot be read",
)
_CHOSEN_OF_HISTORIES = (
    "a session of an agent's own history is listed",
    "it is read as a conversation",
    "what its agent writes meanwhile",
    "another agent continues it",
    "on a phone it has its mark",
)
_needs_browser = pytest.mark.skipif(
    not (_BROWSER and shutil.which("node") and _DRIVER.is_dir()),
    reason=lacking("Chromium, node or web/node_modules"),
)


@pytest.mark.slow
@pytest.mark.timeout(240)
@_needs_browser
def test_a_newcomer_can_use_the_page_in_a_real_browser(tmp_path: Path) -> None:
    _run_in_browser("run.mjs", _CHOSEN, tmp_path, timeout_s=230)


@pytest.mark.slow
@pytest.mark.timeout(240)
@_needs_browser
def test_an_approval_shows_what_would_run_in_a_real_browser(tmp_path: Path) -> None:
    _run_in_browser("approval.mjs", _CHOSEN_OF_APPROVAL, tmp_path, timeout_s=230)


@pytest.mark.slow
@pytest.mark.timeout(240)
@_needs_browser
def test_questions_are_answered_in_the_inbox_in_a_real_browser(tmp_path: Path) -> None:
    _run_in_browser("inbox.mjs", _CHOSEN_OF_INBOX, tmp_path, timeout_s=230)


@pytest.mark.slow
@pytest.mark.timeout(240)
@_needs_browser
def test_fleets_are_followed_and_compared_in_a_real_browser(tmp_path: Path) -> None:
    _run_in_browser("fleet.mjs", _CHOSEN_OF_FLEET, tmp_path, timeout_s=230)


@pytest.mark.slow
@pytest.mark.timeout(240)
@_needs_browser
def test_sessions_that_agents_have_stored_are_read_in_a_real_browser(tmp_path: Path) -> None:
    _run_in_browser("histories.mjs", _CHOSEN_OF_HISTORIES, tmp_path, timeout_s=230)


@pytest.mark.slow
@pytest.mark.timeout(240)
@_needs_browser
def test_a_recorded_run_is_forked_in_a_real_browser(tmp_path: Path) -> None:
    _run_in_browser("forks.mjs", ("a recorded run goes on",), tmp_path, timeout_s=230)


def _run_in_browser(file: str, chosen: Sequence[str], tmp_path: Path, *, timeout_s: int) -> None:
    program = Path(sys.executable).with_name("harness")
    shots, home = tmp_path / "shots", tmp_path / "home"
    home.mkdir()
    names = (f"--test-name-pattern={name}" for name in chosen)
    command = ["node", "--test-reporter=tap", *names, f"e2e/{file}"]
    with TemporaryDirectory() as short:  # Chromium has a socket there, and the path of a socket is short
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TMPDIR": short,
            "CHROMIUM": _BROWSER,
            "HARNESS": str(program),
            "HARNESS_SHOTS": str(shots),
        }
        done = subprocess.run(
            command, cwd=_WEB, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert f"# pass {len(chosen)}" in done.stdout
