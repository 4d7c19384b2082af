"""Examines one agent, in a process of its own: `python -m harness.lab.doctor_worker`, a `DoctorOrder` on standard input.

It leaves the network where the system allows that, and its environment has no credentials. Standard output is a JSON object a line: first the `ExaminedAgent`, then a `ScenarioResult` per scenario.
"""

from __future__ import annotations

import os
import shutil
import sys
import time

import msgspec

from harness.agents.registry import load
from harness.lab.doctor_report import ExaminedAgent, Finding, ScenarioResult
from harness.lab.expectations import load_known
from harness.lab.scenario import Scenario, load_scenario
from harness.lab.scenario_run import AgentUnderTest, ScenarioOutput, run_scenario
from harness.process.version_probe import probe_version
from harness.system.contract import system

_VERSION_S = 40.0
"""For its version. In the home that it gets here it may have to unpack itself first."""


class DoctorOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What the doctor asks its worker to do."""

    status: ExaminedAgent
    scenarios: tuple[str, ...]
    folder: str
    """Where everything happens."""
    limit_s: float | None = None
    """For all scenarios together: what does not fit any more is not run."""
    record: str = ""
    """Where recordings go; empty for none."""
    known_gaps: dict[str, tuple[str, ...]] = {}


def main() -> int:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=DoctorOrder)
    network = system.enter_own_network()
    agent = load(order.status.agent)
    began_s = time.monotonic()
    if need := missing_interpreter(order.status.binary):
        _emit(msgspec.structs.replace(order.status, network=network))
        finding = Finding(kind="broken", what=f"it needs `{need}`, which is not on PATH")
        _emit(ScenarioResult(scenario=order.scenarios[0], verdict="broken", findings=(finding,)))
        return 0
    version = probe_version(
        order.status.binary, agent.version_args, timeout_s=min(_VERSION_S, order.limit_s or _VERSION_S)
    )
    _emit(msgspec.structs.replace(order.status, version=version, network=network))
    tested = AgentUnderTest(
        agent=agent,
        binary=order.status.binary,
        version=version,
        known=load_known(agent.name),
        known_gaps=order.known_gaps,
    )
    longest_s = 0.0
    for number, name in enumerate(order.scenarios, 1):
        left_s = float("inf") if order.limit_s is None else order.limit_s - (time.monotonic() - began_s)
        if longest_s > left_s:
            _emit(
                ScenarioResult(
                    scenario=name, verdict="unfinished", reason=f"no time left of {order.limit_s:g} s"
                )
            )
            continue
        scenario_s = time.monotonic()
        has_begun = _one(order, tested, name, max(1.0, left_s - 1))
        longest_s = max(longest_s, time.monotonic() - scenario_s)
        if not has_begun and (remaining := len(order.scenarios) - number):
            _emit(
                ScenarioResult(
                    scenario="–", verdict="skipped", reason=f"{remaining} more: it hangs before it begins"
                )
            )
            break
    return 0


def _one(order: DoctorOrder, tested: AgentUnderTest, name: str, timeout_s: float) -> bool:
    """Run one scenario. False: its time ran out before it asked its model anything."""
    folder = os.path.join(order.folder, name)
    scenario = load_scenario(name)
    result, output = run_scenario(tested, scenario, folder, timeout_s)
    if order.record and output is not None:
        _save_recording(order.record, tested, scenario, output)
    _emit(result)
    shutil.rmtree(folder, ignore_errors=True)
    return output is None or output.has_asked or not output.is_out_of_time


def _save_recording(root: str, tested: AgentUnderTest, scenario: Scenario, output: ScenarioOutput) -> None:
    """In the layout of recorded tests: `<agent>/<version>/<scenario>/`."""
    version = tested.version or "unknown"
    folder = os.path.join(root, tested.agent.name, version, scenario.name)
    os.makedirs(folder, exist_ok=True)
    meta = {
        "agent": tested.agent.name,
        "version": version,
        "scenario": scenario.name,
        "argv": output.argv,
        "cwd": output.request.cwd,
        "prompt": output.request.prompt,
        "exit_code": output.exit_code,
        "line_times_ms": output.line_times_ms,
        "script": scenario.source,
    }
    files = {
        "stdout.jsonl": output.stdout,
        "stderr.txt": output.stderr,
        "meta.json": msgspec.json.format(msgspec.json.encode(meta), indent=1) + b"\n",
    }
    for name, content in files.items():
        if content or name != "stderr.txt":
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)


def missing_interpreter(binary: str) -> str:
    """The program that a script's first line names with `env`, if it is not there; else empty."""
    try:
        with open(binary, "rb") as file:
            parts = file.readline(200).decode("utf-8", "replace").split()
    except OSError:
        return ""
    if not parts or not parts[0].startswith("#!") or os.path.basename(parts[0]) != "env":
        return ""
    program = next((word for word in parts[1:] if not word.startswith("-") and "=" not in word), "")
    return "" if not program or shutil.which(program) else program


def _emit(value: ExaminedAgent | ScenarioResult) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
