"""When the tests end, also by Ctrl-C, nothing that they have started is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lacking import lacking, lines_of

RUN = str(Path(__file__).with_name("run.py"))
DETACHED = """
import os, subprocess, time

def test_that_leaves_something_behind():
    # Nobody's child any more, and in a session of its own: as databases and clusters run.
    subprocess.run(["sh", "-c", "sleep 600 & echo $! > pid.part; mv pid.part pid"], start_new_session=True, check=True)
    time.sleep({pause_s})
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can adopt processes")


@pytest.mark.parametrize(("pause_s", "code"), [(0, 0), (600, 2)])
def test_nothing_that_was_started_is_left(tmp_path: Path, pause_s: int, code: int) -> None:
    (tmp_path / "test_small.py").write_text(DETACHED.format(pause_s=pause_s))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # A folder of its own: in the shared one, pytest would first delete what earlier runs have left there, which takes minutes.
    own = f"--basetemp={tmp_path / 'base'}"
    argv = [sys.executable, RUN, "-n", "1", "-p", "no:cacheprovider", own, "test_small.py"]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True) as tests:
        while pause_s and tests.poll() is None and not (tmp_path / "pid").exists():
            time.sleep(0.05)
        if pause_s:
            os.killpg(tests.pid, signal.SIGINT)
        output = tests.communicate(timeout=100)[0].decode()
    assert tests.returncode == code, output
    assert "The tests left 1 process running, which was ended: sleep" in output
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_killed_run_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(
        "import os, signal\ndef test(): os.kill(os.getpid(), signal.SIGKILL)"
    )
    argv = [sys.executable, RUN, "-p", "no:cacheprovider", "test_small.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False, timeout=100)
    assert done.returncode == 128 + signal.SIGKILL


def test_what_was_skipped_is_counted_with_what_would_let_it_run() -> None:
    reasons = [lacking("root"), lacking("ripgrep"), lacking("root")]
    assert [*lines_of(reasons)] == [
        "     2 skipped: no root: run the tests as root",
        "     1 skipped: no ripgrep: run `make tools`, or install the package ripgrep",
    ]
