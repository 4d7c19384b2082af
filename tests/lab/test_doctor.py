"""The doctor names what is wrong with an agent, whatever it is, in bounded time, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import doctored_agents
import lab_agents
from harness.agents.registry import load
from harness.errors import UsageError
from harness.lab import doctor
from harness.lab.doctor import choose, examine, find_agents
from harness.lab.doctor_report import AgentReport, exit_code
from harness.lab.expectations import load_known
from harness.lab.scenario import load_scenario
from harness.lab.scenario_run import AgentUnderTest, run_scenario
from harness.testing.golden import check, find_cases, rewrite
from lacking import lacking


def _examine(
    path: str, *scenarios: str, record: str = "", limit_s: float | None = None, agent: str = "pi"
) -> AgentReport:
    environ = {"PATH": path, "ANTHROPIC_API_KEY": "a-secret-of-the-user"}
    (status,) = find_agents([agent], environ)
    return examine(status, scenarios or ("hello",), environ=environ, record=record, limit_s=limit_s)


def _findings(report: AgentReport) -> list[str]:
    return [finding.what for result in report.results for finding in result.findings]


def test_an_agent_that_speaks_as_recorded_is_verified(tmp_path: Path) -> None:
    report = _examine(doctored_agents.install(tmp_path))

    assert _findings(report) == []
    assert report.verdict == "verified"
    assert (report.status.version, report.status.agent) == ("0.73.1", "pi")
    assert exit_code([report]) == 0


def test_a_renamed_field_and_a_new_record_type_are_drift_by_name(tmp_path: Path) -> None:
    change = (
        """stream = stream.replace('"stopReason"', '"reasonToStop"')\n"""
        """stream = stream.replace('{"type":"turn_end"', '{"type":"mood","level":3}\\n{"type":"turn_end"')"""
    )

    report = _examine(doctored_agents.install(tmp_path, change=change))

    assert report.verdict == "drift"
    assert "unknown record type 'mood'" in _findings(report)
    (mood,) = [one for one in report.results[0].findings if "mood" in one.what]
    assert mood.example == '{"type":"mood","level":3}'
    assert exit_code([report]) == 1


def test_the_command_says_it_in_a_table_and_by_its_exit_code(tmp_path: Path) -> None:
    change = """stream = stream.replace('{"type":"turn_end"', '{"type":"mood"}\\n{"type":"turn_end"')"""
    path = doctored_agents.install(tmp_path, change=change)
    (tmp_path / "home").mkdir()

    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "doctor", "pi", "--scenario", "hello"],
        env={"PATH": path, "TMPDIR": str(tmp_path), "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "Pi 0.73.1: drift\n" in done.stdout
    assert "      drift: unknown record type 'mood'\n" in done.stdout
    assert done.stderr == "pi 0.73.1 1/1 hello: drift\n"
    assert list((tmp_path / "home").iterdir()) == []
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith("harness-doctor-")]


def test_what_is_not_visible_any_more_is_degraded_by_name(tmp_path: Path) -> None:
    report = _examine(doctored_agents.install(tmp_path, change='stream = stream.replace("Hello", "Howdy")'))

    assert report.verdict == "degraded"
    assert _findings(report) == ["text 'Hello from the lab.'"]


def test_what_is_shown_otherwise_than_it_was_is_wrong_and_hides_behind_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = tmp_path / "verified.toml"
    verified.write_text('[pi]\nversion = "0.73.0"\n[pi.gaps]\nhello = ["usage.input"]\n')
    monkeypatch.setattr(doctor, "VERIFIED", str(verified))

    report = _examine(doctored_agents.install(tmp_path, change='stream = stream.replace("1000", "999")'))

    assert (report.verdict, exit_code([report])) == ("wrong", 2)
    assert _findings(report) == ["usage.input is shown as 999, and was 1000"]


def test_a_new_field_alone_is_named_and_counts_for_nothing(tmp_path: Path) -> None:
    change = """stream = stream.replace('"stopReason"', '"responseId":"r1","stopReason"')"""

    report = _examine(doctored_agents.install(tmp_path, change=change))

    assert (report.verdict, exit_code([report])) == ("verified", 0)
    assert "unknown field 'message.responseId' of 'message_start'" in _findings(report)


def test_a_script_that_ran_out_is_not_the_agents_fault(tmp_path: Path) -> None:
    again = (
        "body['messages'] += [{'role': 'assistant', 'content': 'Hello from the lab.'}, {'role': 'user', 'content': 'x'}]\n"
        "request = urllib.request.Request(url, json.dumps(body).encode(), {'Content-Type': 'application/json'})\n"
        "urllib.request.urlopen(request).read()\n"
        'stream = stream.replace("Hello", "The script has no further turn.")'
    )

    report = _examine(doctored_agents.install(tmp_path, change=again))

    assert (report.verdict, exit_code([report])) == ("inconclusive", 1)
    assert _findings(report) == ["the script had no turn 2 in its conversation 'main' for what it was asked"]


def test_an_agent_that_ignores_the_base_url_is_found_out(tmp_path: Path) -> None:
    before = f"sys.stdout.write(open({str(doctored_agents.HELLO)!r}).read()); sys.exit()"

    report = _examine(doctored_agents.install(tmp_path, before=before))

    assert report.verdict == "broken"
    assert _findings(report)[0].startswith("no request arrived: it ignores the base URL")
    assert exit_code([report]) == 2


def test_an_agent_that_hangs_is_given_up(tmp_path: Path) -> None:
    path = doctored_agents.install(tmp_path, change="time.sleep(600)")
    (status,) = find_agents(["pi"], {"PATH": path})
    tested = AgentUnderTest(
        agent=load("pi"), binary=status.binary, version="0.73.1", known=load_known("pi"), known_gaps={}
    )
    hello = msgspec.structs.replace(load_scenario("hello"), timeout_s=3)

    result, output = run_scenario(tested, hello, str(tmp_path / "place"), timeout_s=60)

    assert [finding.what for finding in result.findings] == ["it hangs: no end within 3 s"]
    assert result.verdict == "broken"
    assert output is not None
    assert output.has_asked


@pytest.mark.parametrize("moment", ["before", "change"])
def test_when_the_time_of_a_quick_examination_runs_out_nothing_is_said_to_be_well(
    tmp_path: Path, moment: str
) -> None:
    path = doctored_agents.install(tmp_path, **{moment: "time.sleep(600)"})

    report = _examine(path, "hello", "tour", limit_s=4)

    assert (report.verdict, exit_code([report])) == ("unfinished", 2)
    assert report.results[0].reason.endswith("; examine it without --quick")


def test_an_agent_that_hangs_before_it_begins_is_not_asked_again_and_again(tmp_path: Path) -> None:
    path = doctored_agents.install(tmp_path, before="time.sleep(600)")

    report = _examine(path, "hello", "tour", "write", limit_s=9)

    assert [result.scenario for result in report.results] == ["hello", "–"]
    assert report.results[1].reason == "2 more: it hangs before it begins"


def test_a_program_that_is_another_one_is_shown_by_what_it_wrote(tmp_path: Path) -> None:
    before = 'print("usage: pi [-p] <digits>"); sys.exit(0)'

    report = _examine(doctored_agents.install(tmp_path, before=before))

    assert report.results[0].findings[0].example.endswith("it wrote: usage: pi [-p] <digits>")


def test_a_folder_for_recordings_that_cannot_be_written_is_the_callers_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = doctored_agents.install(tmp_path)

    with pytest.raises(UsageError, match="cannot record in"):
        _examine(path, record=str(tmp_path / "file"))


def test_an_agent_that_crashes_is_broken_and_its_last_words_are_shown(tmp_path: Path) -> None:
    before = 'sys.stderr.write("out of luck\\n"); sys.exit(3)'

    report = _examine(doctored_agents.install(tmp_path, before=before))

    assert report.results[0].findings[0].example == "out of luck"


def test_a_missing_node_is_said_to_be_missing(tmp_path: Path) -> None:
    program = tmp_path / "pi"
    program.write_text("#!/usr/bin/env node\n")
    program.chmod(0o755)

    report = _examine(str(tmp_path))

    assert _findings(report) == ["it needs `node`, which is not on PATH"]


def test_an_agent_that_cannot_be_pointed_at_the_lab_is_not_run(tmp_path: Path) -> None:
    program = tmp_path / "aider"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)

    report = _examine(str(tmp_path), agent="aider")

    assert (report.results, report.verdict) == ((), "skipped")
    assert "cannot be pointed at the scripted model" in report.status.note
    assert exit_code([report]) == 2
    assert not (tmp_path / "started").exists()


def test_the_agent_gets_none_of_the_users_credentials_and_no_network(tmp_path: Path) -> None:
    before = (
        "import socket\n"
        f"log = open({str(tmp_path / 'seen')!r}, 'w')\n"
        "log.write(' '.join(os.environ) + '\\n' + os.environ['HOME'] + '\\n')\n"
        "log.write(' '.join(name for _, name in socket.if_nameindex()))\n"
        "log.close()"
    )

    report = _examine(doctored_agents.install(tmp_path, before=before))

    names, home, interfaces = (tmp_path / "seen").read_text().split("\n")
    assert "ANTHROPIC_API_KEY" not in names.split()
    assert not home.startswith(os.path.expanduser("~") + "/") or not Path(home).exists()
    assert report.status.network or interfaces.split() == ["lo"]
    assert report.status.credentials["ANTHROPIC_API_KEY"] is True
    assert b"a-secret-of-the-user" not in msgspec.json.encode(report)


def test_a_recording_of_the_doctor_is_a_golden_case(tmp_path: Path) -> None:
    _examine(doctored_agents.install(tmp_path), record=str(tmp_path / "recordings"))

    (case,) = find_cases(tmp_path / "recordings")
    assert str(case) == "pi/0.73.1/hello"
    assert (case.meta.prompt, case.meta.exit_code) == ("Say hello.", 0)
    assert len(case.meta.line_times_ms) == case.stdout.count(b"\n")
    list(rewrite([case]))
    assert check(case) == ""


def test_a_doctor_that_is_killed_leaves_no_process_and_no_file_but_its_temporary_folder(
    tmp_path: Path,
) -> None:
    before = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()) + '\\n'); time.sleep(600)"
    path = doctored_agents.install(tmp_path, before=before)
    temporary = tmp_path / "temporary"
    home = tmp_path / "home"
    temporary.mkdir()
    home.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.cli.main", "doctor", "pi", "--scenario", "hello"],
        env={"PATH": path, "TMPDIR": str(temporary), "HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    pid = int(_wait_for_line(tmp_path / "pid"))

    process.send_signal(signal.SIGKILL)
    process.communicate()

    ends_s = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < ends_s:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}")
    assert list(home.iterdir()) == []
    assert all(entry.name.startswith("harness-doctor-") for entry in temporary.iterdir())


def _wait_for_line(path: Path) -> str:
    ends_s = time.monotonic() + 60
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < ends_s, "the agent was not started"
        time.sleep(0.02)
    return path.read_text()


def test_what_the_last_verified_version_did_not_show_is_no_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gap = "text 'Hello from the lab.'"
    verified = tmp_path / "verified.toml"
    verified.write_text(f'[pi]\nversion = "0.73.0"\n[pi.gaps]\nhello = ["{gap}"]\n')
    monkeypatch.setattr(doctor, "VERIFIED", str(verified))

    report = _examine(doctored_agents.install(tmp_path, change='stream = stream.replace("Hello", "Howdy")'))

    assert (report.verdict, report.results[0].known_gaps) == ("verified", (gap,))
    assert report.status.last_verified == "0.73.0"


def test_quick_is_a_part_of_everything() -> None:
    assert {*choose([], is_quick=True)} < {*choose([], is_quick=False)}


@pytest.mark.timeout(lab_agents.INSTALL_S + 60)
def test_the_real_pi_is_examined_end_to_end(tmp_path: Path) -> None:
    try:
        program, version = lab_agents.pi()
    except lab_agents.NotThere as reason:
        pytest.skip(lacking("real Pi", str(reason)))
    node = shutil.which("node")
    assert node is not None
    path = f"{Path(program).parent}:{Path(node).parent}:/usr/bin:/bin"

    report = _examine(path, "tour")

    assert _findings(report) == []
    assert (report.status.version, report.verdict) == (version, "verified")
