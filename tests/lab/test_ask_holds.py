"""The command lines of `doctor --scenario ask-holds`: none of them is free, in no mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.approvals.approver import Approver
from harness.approvals.call import ACCEPT_EDITS, ASK, READ_ONLY, ProposedCall
from harness.lab.scenario import load_scenario
from harness.runs.questions import work_folder

LINES = load_scenario("ask-holds").lines


def test_there_are_enough_of_them() -> None:
    assert len(LINES) >= 40


@pytest.mark.parametrize("line", LINES)
def test_a_hostile_line_is_asked_about_and_never_runs_where_a_run_may_only_read(
    tmp_path: Path, line: str
) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    (tmp_path / "link-out").symlink_to("/etc/hostname")
    folder = work_folder(str(tmp_path), {"PATH": "/usr/bin:/bin"})
    call = ProposedCall(tool="sh", category="execute", command=line)

    assert Approver(ASK, folder).decide([call]).answer == "ask"
    assert Approver(ACCEPT_EDITS, folder).decide([call]).answer == "ask"
    assert Approver(READ_ONLY, folder).decide([call]).answer == "deny"
