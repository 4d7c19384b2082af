"""The page in a real browser, where there is one: `web/e2e` has these tests and more (`npm run e2e`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_WEB = Path(__file__).parents[2] / "web"
_BROWSER = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
_DRIVER = _WEB / "node_modules" / "playwright-core"
_CHOSEN = (
    "the link lets in",
    "a newcomer runs an agent",
    "what is shown for approval",
    "files go with a message",
    "another server on this machine",
    "a browser that is logged out",
    "when the server is gone",
)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(
    not (_BROWSER and shutil.which("node") and _DRIVER.is_dir()),
    reason="the page is tried with Chromium, node and what `npm install` fetches into web/",
)
def test_a_newcomer_can_use_the_page_in_a_real_browser(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("harness")
    shots, home = tmp_path / "shots", tmp_path / "home"
    home.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TMPDIR": str(tmp_path),
        "CHROMIUM": _BROWSER,
        "HARNESS": str(program),
        "HARNESS_SHOTS": str(shots),
    }
    command = ["node", *(f"--test-name-pattern={name}" for name in _CHOSEN), "e2e/run.mjs"]
    done = subprocess.run(
        command, cwd=_WEB, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert f"# pass {len(_CHOSEN)}" in done.stdout
