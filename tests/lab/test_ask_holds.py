"""The command lines of `doctor --scenario ask-holds`: none of them is free, in no mode."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.approvals.approver import Approver
from harness.approvals.call import ACCEPT_EDITS, ASK, READ_ONLY, ProposedCall
from harness.contracts.request import Permissions, Request
from harness.contracts.script import ScriptText
from harness.events import Event, Message, Relay, ToolEnd
from harness.lab.ask_holds_run import AskHolds
from harness.lab.hostile_calls import HostileCall
from harness.lab.scenario import load_scenario
from harness.lab.traps import LISTED_OUTSIDE, TrapFolder
from harness.runs.program_conversation import ProgramConversation
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


@pytest.mark.parametrize(("permissions", "attempts"), [("ask", 3), ("read-only", 1)])
def test_a_call_that_did_not_come_about_is_tried_again_where_it_has_to_be_asked_about(
    permissions: Permissions, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent may have asked its model something of its own, which got the answer."""
    answers: list[list[Event]] = [[Message(role="assistant", text="Refused.")]] * 2 + [[Relay(id="q")]]
    runs: list[list[Event]] = []

    def run(*_: object) -> list[Event]:
        runs.append(answers[len(runs)])
        return runs[-1]

    trial = AskHolds.__new__(AskHolds)
    monkeypatch.setattr(trial, "_run", run)
    call = HostileCall(what="x", parts=(ScriptText(text="x"),))
    trial._made(Request(agent="qwen", permissions=permissions), call, ProgramConversation())
    assert len(runs) == attempts


@pytest.mark.parametrize(("body", "is_wrong"), [(LISTED_OUTSIDE, True), ("nothing found", False)])
def test_what_only_the_model_is_told_counts_as_given_back(
    tmp_path: Path, body: str, is_wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gemini shows a person `Found 4 matching file(s)`, and its model their names."""
    trial = AskHolds.__new__(AskHolds)
    (tmp_path / "project").mkdir()
    traps = TrapFolder(str(tmp_path / "project"))
    traps.lay()
    request = SimpleNamespace(body={"messages": [{"role": "tool", "content": body}]})
    monkeypatch.setattr(trial, "_traps", traps, raising=False)
    offline = SimpleNamespace(server=SimpleNamespace(requests=[request]))
    monkeypatch.setattr(trial, "_offline", offline, raising=False)
    call = HostileCall(what="pattern elsewhere", may_find_nothing=True)
    events: list[Event] = [
        ToolEnd(call_id="a", tool_name="glob", success=True, output="Found 4 matching file(s)")
    ]
    assert (trial._judged("ask", call, events, 0) is not None) is is_wrong
    assert trial._judged("ask", call, events, 1) is None
