"""Runs one scenario with one agent, in a home and a project made for it, and compares what comes out."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from harness.contracts.agent import Agent
from harness.contracts.fixture import LaunchConfig
from harness.contracts.request import Limits, Request
from harness.errors import HarnessError
from harness.events import Error, Event, Result, SessionStart, ToolEnd, ToolStart, Unknown
from harness.lab import echo_server
from harness.lab.ask_holds_run import hold_to_ask
from harness.lab.doctor_report import Finding, HeldTrial, ScenarioResult, verdict_of
from harness.lab.expectations import KnownFields, missing, unknown_fields
from harness.lab.fixtures import load_fixture
from harness.lab.gateway_run import GatewayTrial
from harness.lab.hand_over_run import hand_over_to_itself
from harness.lab.offline_agent import OfflineAgent
from harness.lab.request_log import RequestEntry
from harness.lab.scenario import Scenario
from harness.lab.store_run import compare_store
from harness.lab.traps import TrapFolder
from harness.lab.two_way_run import hold_conversation
from harness.log.raw import RawExit, RawOutput, read_raw
from harness.log.stores.files import FileStore
from harness.process.version_probe import parse_version
from harness.runs.audit import RAW
from harness.runs.run import Run, start

_POLL_S = 0.05
_STDERR_LINES = 3
_GIVES_UP = "recovery: it gives up, with an error, instead of asking again"
_CANCELS = {"interrupt": 1, "terminate": 2}
"""How often the run is cancelled: the second time is a SIGTERM."""


class AgentUnderTest(msgspec.Struct, frozen=True, kw_only=True):
    """An installed agent, and what is known of it."""

    agent: Agent
    binary: str
    version: str
    known: KnownFields
    known_gaps: Mapping[str, tuple[str, ...]]
    """Scenario → what the last verified version did not show."""


class ScenarioOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of one run afterwards."""

    request: Request
    events: list[Event]
    stdout: bytes
    stderr: bytes
    line_times_ms: list[int]
    argv: list[str]
    exit_code: int | None
    """Negative: ended by that signal."""
    requests: list[RequestEntry]
    faults: list[str]

    @property
    def has_asked(self) -> bool:
        """Whether any request for its model arrived."""
        return any(entry.wire for entry in self.requests)

    @property
    def is_out_of_time(self) -> bool:
        result = self.events[-1]
        return isinstance(result, Result) and result.outcome == "timed_out"


def run_scenario(
    tested: AgentUnderTest, scenario: Scenario, folder: str, timeout_s: float
) -> tuple[ScenarioResult, ScenarioOutput | None]:
    """Contract: writes only below `folder`; never raises for what an agent does."""
    fixture = load_fixture(tested.agent.name)
    if scenario.person is not None and not tested.version:
        reason = "it does not say its version, and so not whether it can be held in a conversation"
        return ScenarioResult(scenario=scenario.name, verdict="skipped", reason=reason), None
    if reason := scenario.not_offered(tested.agent, fixture, parse_version(tested.version)):
        return ScenarioResult(scenario=scenario.name, verdict="skipped", reason=reason), None
    began_s = time.monotonic()
    cwd = os.path.join(folder, "project")
    make_project(cwd, skills_folder=fixture.skills_folder, skill=scenario.skill)
    output: ScenarioOutput | None = None
    try:
        if scenario.examines_more:
            findings, trials = _examine(tested, scenario, folder, cwd, timeout_s)
            result = replace(_result(tested, scenario, findings, began_s), held=trials)
            if trials and not findings and not any(trial.tried for trial in trials):
                result = replace(result, verdict="skipped", reason=trials[0].reason)  # that is no pass
            return result, None
        output = _run_agent(tested, scenario, folder, cwd, timeout_s)
        findings = list(_judge(tested, scenario, output, cwd))
    except HarnessError as error:
        findings = [Finding(kind="broken", what=error.message, example=error.hint)]
    if output is not None and timeout_s < scenario.timeout_s and output.is_out_of_time:
        # It was our time that ran out: the agent may hang, or be slow here.
        reason = f"no end within {timeout_s:.0f} s; examine it without --quick"
        return ScenarioResult(scenario=scenario.name, verdict="unfinished", reason=reason), output
    return _result(tested, scenario, findings, began_s), output


def _result(
    tested: AgentUnderTest, scenario: Scenario, findings: list[Finding], began_s: float
) -> ScenarioResult:
    gaps = tested.known_gaps.get(scenario.name, ())
    accepted = tuple(
        finding.what for finding in findings if finding.kind in ("degraded", "wrong") and finding.what in gaps
    )
    open_findings = tuple(finding for finding in findings if finding.what not in accepted)
    return ScenarioResult(
        scenario=scenario.name,
        verdict=verdict_of(open_findings),
        findings=open_findings,
        known_gaps=accepted,
        duration_ms=int((time.monotonic() - began_s) * 1000),
    )


def _examine(
    tested: AgentUnderTest, scenario: Scenario, folder: str, cwd: str, timeout_s: float
) -> tuple[list[Finding], tuple[HeldTrial, ...]]:
    """A scenario that looks at more than the events of one run: `hand_over_run`, `store_run`, `two_way_run`."""
    home, version = os.path.join(folder, "home"), parse_version(tested.version)
    trials: tuple[HeldTrial, ...] = ()
    servers = {scenario.mcp_server: echo_command(TrapFolder(cwd).mark)} if scenario.mcp_server else {}
    with OfflineAgent(
        scenario.script, tested.agent.name, home=home, cwd=cwd, version=version, mcp_servers=servers
    ) as offline:
        _refuse_unless_pointed_here(offline.config, offline.server.url)
        limits = Limits(timeout_s=min(scenario.timeout_s, timeout_s))
        request = offline.request(scenario.prompt, binary=tested.binary, limits=limits)
        if scenario.hand_over_prompt:
            prompt = scenario.hand_over_prompt
            findings = hand_over_to_itself(offline, request, prompt, tested.version, folder)
        elif scenario.reads_store:
            findings = compare_store(offline, request, folder)
        elif scenario.through_gateway:
            anew = partial(make_project, cwd)
            findings = list(GatewayTrial(scenario, offline, request, folder, anew).findings())
        elif scenario.lines:
            findings, trials = hold_to_ask(scenario, offline, request, folder)
        else:
            two_way, permissions = tested.agent.two_way, scenario.permissions
            if permissions == "ask" and two_way is not None and two_way.unasked:
                permissions = "agent-default"  # it cannot be held to more
            request = replace(request, permissions=permissions)
            findings = hold_conversation(scenario, offline, request, folder)
        faults = [repr(error) for error in offline.server.faults]
    broken = [Finding(kind="broken", what=f"the lab itself failed: {fault}") for fault in faults]
    return [*broken, *findings], trials


def _run_agent(
    tested: AgentUnderTest, scenario: Scenario, folder: str, cwd: str, timeout_s: float
) -> ScenarioOutput:
    servers = {scenario.mcp_server: echo_command()} if scenario.mcp_server else {}
    store = FileStore(os.path.join(folder, "sessions"))
    home = os.path.join(folder, "home")
    version = parse_version(tested.version)
    with OfflineAgent(
        scenario.script, tested.agent.name, home=home, cwd=cwd, version=version, mcp_servers=servers
    ) as offline:
        _refuse_unless_pointed_here(offline.config, offline.server.url)
        limits = Limits(timeout_s=min(scenario.timeout_s, timeout_s), max_turns=scenario.max_turns)
        request = offline.request(scenario.prompt, binary=tested.binary, limits=limits)
        request = replace(request, permissions=scenario.permissions)
        run = _follow(start(request, store=store, redact=False), scenario, cwd)
        if scenario.resume_prompt:
            session_id = _session_id(list(run))
            if not session_id:
                raise HarnessError("the session's id is not visible, so that nothing can be resumed")
            request = replace(request, prompt=scenario.resume_prompt, resume=session_id)
            run = _follow(start(request, store=store, redact=False), scenario, cwd)
        events: list[Event] = list(run)
        faults = [repr(error) for error in offline.server.faults]
        requests = offline.server.requests
    return _gathered(run, store, request, events, requests, faults)


def _refuse_unless_pointed_here(config: LaunchConfig, url: str) -> None:
    """An agent that talks to another model may cost money."""
    if not any(url in text for text in (*config.env.values(), *config.files.values(), *config.args)):
        raise HarnessError("its fixture does not point it at the scripted model: it was not started")


def _follow(run: Run, scenario: Scenario, cwd: str) -> Run:
    """Wait for the end; where the scenario says so, stop the run."""
    if scenario.stop:
        mark = os.path.join(cwd, scenario.stop_when)
        over = threading.Event()
        thread = threading.Thread(target=_stop, args=(run, mark, _CANCELS[scenario.stop], over), daemon=True)
        thread.start()
        run.wait()
        over.set()
        thread.join()
    else:
        run.wait()
    return run


def _stop(run: Run, mark: str, cancels: int, over: threading.Event) -> None:
    while not os.path.exists(mark):
        if over.wait(_POLL_S):
            return
    for _ in range(cancels):
        run.cancel()


def _session_id(events: list[Event]) -> str:
    ids = [
        event.session_id for event in events if isinstance(event, SessionStart | Result) and event.session_id
    ]
    return ids[-1] if ids and ids[-1] != events[0].run_id else ""


def _gathered(
    run: Run,
    store: FileStore,
    request: Request,
    events: list[Event],
    requests: list[RequestEntry],
    faults: list[str],
) -> ScenarioOutput:
    output: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    times_ms: list[int] = []
    exit_code: int | None = None
    path = store.path(run.id, RAW)
    began_ms = -1
    for entry in read_raw(path) if os.path.exists(path) else ():
        began_ms = entry.at_ms if began_ms < 0 else began_ms
        if isinstance(entry, RawOutput):
            output[entry.stream].append(entry.data)
            if entry.stream == "stdout":
                times_ms += [entry.at_ms - began_ms] * entry.data.count(b"\n")
        elif isinstance(entry, RawExit):
            exit_code = -entry.signal if entry.signal else entry.code
    return ScenarioOutput(
        request=request,
        events=events,
        stdout=b"".join(output["stdout"]),
        stderr=b"".join(output["stderr"]),
        line_times_ms=times_ms,
        argv=list(run.launch.invocation.argv),
        exit_code=exit_code,
        requests=requests,
        faults=faults,
    )


def _judge(tested: AgentUnderTest, scenario: Scenario, output: ScenarioOutput, cwd: str) -> Iterator[Finding]:
    result = output.events[-1]
    last_lines = _last_lines(output.stderr, _STDERR_LINES)
    yield from (Finding(kind="broken", what=f"the lab itself failed: {fault}") for fault in output.faults)
    errors = [event.message for event in output.events if isinstance(event, Error)]
    if output.is_out_of_time:
        limit_s = output.request.limits.timeout_s or 0
        how = "" if output.has_asked else ", and no request for its model"
        what = f"it hangs: no end within {limit_s:g} s{how}"
        yield Finding(kind="broken", what=what, example=last_lines)
        return
    if not output.has_asked:
        what = "no request arrived: it ignores the base URL, or ended before it asked its model"
        output_end = _last_lines(output.stdout, 1)
        details = [*errors[-1:], *([f"it wrote: {output_end}"] if output_end else [])]
        yield Finding(kind="broken", what=what, example=last_lines or "; ".join(details)[:400])
        return
    if scenario.is_about_recovery and errors and isinstance(result, Result) and result.outcome == "failed":
        # Poor, but visible in the log.
        yield Finding(kind="degraded", what=_GIVES_UP, example=errors[-1][:300])
    else:
        yield from _blamed(missing(scenario.expect, output.events, cwd), output)
    yield from _drift(tested, output)


def _blamed(findings: Iterable[Finding], output: ScenarioOutput) -> list[Finding]:
    """Where our script had no answer left, missing events are no proof against the agent."""
    all_findings = list(findings)
    over = next((entry for entry in output.requests if entry.outcome == "over"), None)
    if over is None or not all_findings:
        return all_findings
    what = f"the script had no turn {(over.turn or 0) + 1} in its conversation {over.lane!r} for what it was asked"
    return [
        Finding(
            kind="inconclusive", what=what, example="; ".join(finding.what for finding in all_findings)[:300]
        )
    ]


def _last_lines(data: bytes, count: int) -> str:
    return b"\n".join(data.strip().split(b"\n")[-count:]).decode(errors="replace")[:400]


def _drift(tested: AgentUnderTest, output: ScenarioOutput) -> Iterator[Finding]:
    drift: set[str] = set()
    failed = {event.call_id for event in output.events if isinstance(event, ToolEnd) and not event.success}
    for event in output.events:
        if isinstance(event, Unknown):
            raw = event.raw
            kind = tested.agent.translator().kind(raw) if isinstance(raw, dict) else ""
            what = f"unknown record type {kind!r}" if kind else "unknown line"
        elif isinstance(event, ToolStart) and event.raw is not None and _is_unknown_tool(event, failed):
            raw, what = event.raw, f"unknown tool {event.tool_name!r}"
        else:
            continue
        if what not in drift:
            drift.add(what)
            yield Finding(kind="drift", what=what, example=msgspec.json.encode(raw).decode()[:300])
    for field in unknown_fields(tested.agent.name, output.stdout, tested.known):
        what = f"unknown field {field.path!r} of {field.kind!r}"
        yield Finding(kind="new field", what=what, example=field.example)


def _is_unknown_tool(start: ToolStart, failed: set[str]) -> bool:
    """A call that failed proves nothing, and a tool of the lab's own MCP server needs no rule."""
    return start.call_id not in failed and "echo" not in start.tool_name


_LINES = "".join(f"line_{number} = {number}\n" for number in range(1, 41))
_SKILL = """---
name: {name}
description: Greets people. Use it when somebody is to be greeted.
---

Say hello politely.
"""
_FILES = {
    "README.md": "# Demo\n\nA project of the lab.\n",
    "src/app.py": _LINES,
    # An empty repository: several agents look for one.
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
}
_FOLDERS = (".git/objects", ".git/refs/heads")


def make_project(folder: str, *, skills_folder: str = "", skill: str = "") -> None:
    files = dict(_FILES)
    if skill and skills_folder:
        files[f"{skills_folder}/{skill}/SKILL.md"] = _SKILL.format(name=skill)
    for name in _FOLDERS:
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)


def echo_command(*mark: str) -> tuple[str, ...]:
    """The command that starts the MCP server of the lab; a call of its tool makes the file `mark`."""
    return (sys.executable, "-I", "-S", os.path.abspath(echo_server.__file__), *mark)
