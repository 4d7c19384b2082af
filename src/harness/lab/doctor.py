"""Finds drift: runs the installed agents against the scripted model, and compares what comes out.

Each agent is examined in a process of its own (`doctor_worker`), with an environment made for it: no credentials, a
home below a temporary folder, and no network but the loopback where the system allows that. However the doctor ends,
the watchdog of `sources.process` ends that process and everything that it has started.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from harness.agents.registry import load, load_all
from harness.contracts.agent import Agent
from harness.errors import UsageError
from harness.lab.doctor_report import AgentReport, ExaminedAgent, Finding, ScenarioResult
from harness.lab.doctor_worker import DoctorOrder
from harness.lab.fixtures import fixture_names
from harness.lab.scenario import load_scenario, scenario_names
from harness.process.child import Child
from harness.process.invocation import Invocation
from harness.process.own_program import own_command
from harness.runs.launch import find_binary

VERIFIED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "verified.toml")

OnProgress: TypeAlias = Callable[[ExaminedAgent, ScenarioResult | None], object]
"""Called for every agent before its first scenario, and with every result."""

_STATUS, _RESULT = msgspec.json.Decoder(ExaminedAgent), msgspec.json.Decoder(ScenarioResult)
TWO_WAY = "two-way"
"""Names all two-way scenarios at once."""
QUICK_S = 15.0
"""What a quick examination may take."""
_SPARE_S = 60.0
"""How much longer than all its scenarios an examination may take before it is killed."""
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""Of the user's environment; nothing else reaches an agent."""


class VerifiedAgent(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    gaps: dict[str, tuple[str, ...]] = {}
    """Scenario → what this version does not show."""


def last_verified() -> dict[str, VerifiedAgent]:
    try:
        with open(VERIFIED, "rb") as file:
            return msgspec.convert(tomllib.load(file), dict[str, VerifiedAgent])
    except OSError:
        return {}


def find_agents(names: Sequence[str], environ: Mapping[str, str] | None = None) -> list[ExaminedAgent]:
    """The named agents, or all that are installed. Raises UnknownAgent, BrokenPlugin."""
    environ = os.environ if environ is None else environ
    verified = last_verified()
    agents = [load(name) for name in names] if names else load_all()[0]
    statuses = [_status(agent, environ, verified) for agent in agents if agent.work is None]
    programs = [
        status for status in statuses if not os.path.isabs(next(iter(load(status.agent).binaries), "/"))
    ]
    return programs if names else [status for status in programs if status.binary]


def _status(agent: Agent, environ: Mapping[str, str], verified: Mapping[str, VerifiedAgent]) -> ExaminedAgent:
    binary = find_binary(agent, "", environ)
    note = ""
    if agent.name not in fixture_names():
        note = "it cannot be pointed at the scripted model, and so is not run: there is no fixture for it"
    elif not binary:
        note = f"it is not installed ({agent.install})" if agent.install else "it is not installed"
    return ExaminedAgent(
        agent=agent.name,
        title=agent.title,
        binary=binary,
        last_verified=verified[agent.name].version if agent.name in verified else "",
        credentials={name: bool(environ.get(name)) for name in agent.key_variables},
        note=note,
    )


def _two_way() -> list[str]:
    return [name for name in scenario_names() if load_scenario(name).person is not None]


def choose(names: Sequence[str], *, is_quick: bool) -> tuple[str, ...]:
    """The scenarios to run. Raises UsageError."""
    if names:
        scenario_names_in_order = [
            inner for name in names for inner in (_two_way() if name == TWO_WAY else [name])
        ]
        return tuple(load_scenario(name).name for name in dict.fromkeys(scenario_names_in_order))
    everything = [load_scenario(name) for name in scenario_names()]
    # The tour shows most, should there be time for one only.
    quick = sorted(
        (scenario for scenario in everything if scenario.quick),
        key=lambda scenario: -len(scenario.expect.operations),
    )
    return tuple(scenario.name for scenario in (quick if is_quick else everything))


def examine(
    status: ExaminedAgent,
    scenarios: Sequence[str],
    *,
    limit_s: float | None = None,
    record: str = "",
    watch: OnProgress = lambda _status, _result: None,
    environ: Mapping[str, str] | None = None,
) -> AgentReport:
    """Run the scenarios with one agent. Raises UsageError for a `record` that cannot be written.

    Contract: leaves neither processes nor files, but for `record`.
    """
    if record:
        _require_writable(record)
    if status.note:
        watch(status, None)
        return AgentReport(status=status, results=())
    gaps = last_verified().get(status.agent)
    folder = tempfile.mkdtemp(prefix="harness-doctor-")
    order = DoctorOrder(
        status=status,
        scenarios=tuple(scenarios),
        folder=folder,
        limit_s=limit_s,
        record=os.path.abspath(record) if record else "",
        known_gaps=gaps.gaps if gaps else {},
    )
    results: list[ScenarioResult] = []
    try:
        for news in _work(order, os.environ if environ is None else environ):
            if isinstance(news, ExaminedAgent):
                status = news
                watch(status, None)
            else:
                results.append(news)
                watch(status, news)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return AgentReport(status=status, results=tuple(results))


def _require_writable(root: str) -> None:
    """Make the folder of recordings. Raises UsageError: better now than after the first scenario."""
    try:
        os.makedirs(root, exist_ok=True)
        if not os.access(root, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise UsageError(
            f"cannot record in {root!r}: {error.strerror or error}",
            hint="give --record a folder that may be written",
        ) from error


def _work(order: DoctorOrder, environ: Mapping[str, str]) -> Iterator[ExaminedAgent | ScenarioResult]:
    home = os.path.join(order.folder, "doctor")
    os.makedirs(home)
    passed_on = {name: environ[name] for name in _PASSED_ON if name in environ}
    folders = {
        "HOME": home,
        "XDG_CACHE_HOME": home,
        "XDG_CONFIG_HOME": home,
        "XDG_DATA_HOME": home,
        "TMPDIR": home,
    }
    invocation = Invocation(
        argv=tuple(own_command(module="harness.lab.doctor_worker")),
        env={**passed_on, **folders},
        cwd=order.folder,
        stdin=msgspec.json.encode(order),
    )
    limit_s = order.limit_s or sum(load_scenario(name).timeout_s for name in order.scenarios)
    rest = errors = b""
    began = False
    with Child(invocation) as child:
        for stream, data in _chunks(child, limit_s + _SPARE_S):
            if stream == "stderr":
                errors = (errors + data)[-2000:]
                continue
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield _RESULT.decode(line) if began else _STATUS.decode(line)
                began = True
    if child.exit is None or child.exit.code != 0:
        if not began:
            yield order.status
        last = errors.strip().rpartition(b"\n")[2].decode(errors="replace")
        finding = Finding(kind="broken", what="the examination itself broke off", example=last)
        yield ScenarioResult(scenario="–", verdict="broken", findings=(finding,))


def _chunks(child: Child, limit_s: float) -> Iterator[tuple[str, bytes]]:
    ends_s = time.monotonic() + limit_s
    while child.exit is None:
        if time.monotonic() > ends_s:
            child.kill()
        yield from child.read(1.0)
