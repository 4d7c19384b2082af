"""Hands real conversations over between the agents that are installed, and writes the table of docs/verified.md.

usage: python docs/verify_hand_overs.py [--from NAME …] [--to NAME …] [--data FILE]
       python docs/verify_hand_overs.py --doctor [NAME …]

Each agent on PATH holds the conversation of the scenario `hand-over` with the scripted model. What came of it is handed
over to each other agent as a session of its own, which is resumed; the request that then reaches the model must hold
every message, and every call with its result. The results are added to docs/hand_overs.json.

With --doctor, the scenarios `store` and `hand-over` of `harness doctor` are run instead; those results are added to
docs/stored_sessions.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.agents.registry import load
from harness.contracts.conversation import HandedConversation
from harness.contracts.request import Limits
from harness.errors import HarnessError
from harness.events import Result
from harness.folds.handed_conversation import conversation_of
from harness.histories.handover.registry import names as targets
from harness.lab.hand_over_run import hand_over
from harness.lab.offline_agent import OfflineAgent
from harness.lab.scenario import load_scenario
from harness.lab.scenario_run import make_project
from harness.log.stores.files import FileStore
from harness.process.version_probe import parse_version, probe_version
from harness.runs.launch import find_binary
from harness.runs.run import start

DOCS = Path(__file__).parent
DATA = DOCS / "hand_overs.json"
DOCTOR_DATA = DOCS / "stored_sessions.json"
EXAMINED = ("store", "hand-over")
PAGE = DOCS / "verified.md"
HEADING = "## Handed over\n"
FIRST = ("claude", "codex", "opencode", "pi", "gemini", "goose")
LIMITS = Limits(timeout_s=120.0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--from", dest="sources", nargs="*", default=[])
    parser.add_argument("--to", dest="targets", nargs="*", default=[])
    parser.add_argument("--data", type=Path, default=DATA, help="where the results are")
    parser.add_argument("--doctor", nargs="*", metavar="NAME", help="run the scenarios of the doctor instead")
    arguments = parser.parse_args()
    if arguments.doctor is not None:
        return examine(arguments.doctor)
    here = [name for name in _ordered(targets()) if _binary(name) and _has_fixture(name)]
    results = read_results(arguments.data)
    for source in [name for name in here if not arguments.sources or name in arguments.sources]:
        conversation = _held(source)
        for target in [name for name in here if not arguments.targets or name in arguments.targets]:
            if source == target:
                continue
            began_s = time.monotonic()
            verdict = "not run" if conversation is None else _handed(conversation, target)
            print(f"{source} → {target}: {verdict} ({time.monotonic() - began_s:.0f} s)", flush=True)
            key = f"{source} {_version(source)}"
            results.setdefault(key, {})[f"{target} {_version(target)}"] = verdict
            text = json.dumps(results, indent=1, ensure_ascii=False)
            arguments.data.write_text(f"{text}\n", encoding="utf-8")
    if arguments.data == DATA:
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    return 0


def _ordered(names: tuple[str, ...]) -> list[str]:
    return sorted(names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))


def _binary(name: str) -> str:
    return find_binary(load(name), "", os.environ)


def _has_fixture(name: str) -> bool:
    from harness.contracts.fixture import fixture_names

    return name in fixture_names()


def _version(name: str) -> str:
    return probe_version(_binary(name), load(name).version_args)


def _held(name: str) -> HandedConversation | None:
    """What comes of the scenario with this agent; None if it did not come to its end."""
    scenario = load_scenario("hand-over")
    folder = tempfile.mkdtemp(prefix="harness-hand-over-")
    try:
        cwd = os.path.join(folder, "project")
        make_project(cwd)
        version = parse_version(_version(name))
        with OfflineAgent(
            scenario.script, name, home=os.path.join(folder, "home"), cwd=cwd, version=version
        ) as offline:
            request = offline.request(scenario.prompt, binary=_binary(name), limits=LIMITS)
            run = start(request, store=FileStore(os.path.join(folder, "sessions")), redact=False)
            result: Result = run.wait()
        return conversation_of(run) if result.outcome == "completed" else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _handed(conversation: HandedConversation, name: str) -> str:
    scenario = load_scenario("hand-over")
    folder = tempfile.mkdtemp(prefix="harness-hand-over-")
    try:
        cwd = os.path.join(folder, "project")
        make_project(cwd)
        version = _version(name)
        with OfflineAgent(
            scenario.script, name, home=os.path.join(folder, "home"), cwd=cwd, version=parse_version(version)
        ) as offline:
            request = offline.request(scenario.hand_over_prompt, binary=_binary(name), limits=LIMITS)
            findings = hand_over(conversation, offline, request, version, folder)
    except HarnessError as error:
        return error.message
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return "; ".join(finding.what for finding in findings) or "verified"


def examine(names: list[str]) -> int:
    """Let the doctor try the scenarios with each agent on PATH, or with these."""
    results = read_results(DOCTOR_DATA)
    for name in names or [one for one in _ordered(targets()) if _binary(one) and _has_fixture(one)]:
        command = [sys.executable, "-m", "harness", "doctor", name, "--json"]
        command += [part for scenario in EXAMINED for part in ("--scenario", scenario)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        [report] = json.loads(done.stdout)
        if not report.get("version"):
            continue  # one that does not start here
        verdicts = {one["scenario"]: one["verdict"] for one in report["trials"]}
        results[f"{name} {report['version']}"] = verdicts
        print(name, report["version"], verdicts, flush=True)
        DOCTOR_DATA.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), read_results()), encoding="utf-8")
    return 0


def read_results(path: Path = DATA) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def section(results: dict[str, dict[str, Any]]) -> str:
    """The part of docs/verified.md, from its heading on."""
    sources = sorted(results, key=lambda name: _ordered(targets()).index(name.split()[0]))
    heads = dict.fromkeys(target for row in results.values() for target in row)
    columns = sorted(heads, key=lambda name: _ordered(targets()).index(name.split()[0]))
    lines = [
        HEADING,
        "Real conversations (a prompt, answers, six calls, two of them at once, one failed), held by the agent of the line",
        "and continued by the agent of the column as a session of its own: ✓ every message, and every call with its one",
        "result, was in the next request to the model. Written by `docs/verify_hand_overs.py`.\n",
        "| from \\ to | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    notes: list[str] = []
    for source in sources:
        cells = []
        for target in columns:
            verdict = results[source].get(target, "")
            cells.append({"verified": "✓", "": ""}.get(verdict, "✗"))
            if verdict not in ("verified", ""):
                notes.append(f"- {source} → {target}: {' '.join(verdict.split())}")
        lines.append(f"| {source} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, *(["", *notes] if notes else []), *_examined()]) + "\n"


def _examined() -> list[str]:
    """The table of what the doctor found."""
    results = read_results(DOCTOR_DATA)
    if not results:
        return []
    cells = {"verified": "✓", "skipped": "–"}
    return [
        "",
        "What the doctor found of stored sessions. `store`: what the agent has stored of a run gives the live log again, but",
        "for what `AgentHistory.differs` names. `hand-over`: a session that was written for it is resumed with all its calls",
        "and results; by a process that is held in a conversation too, for the agents that",
        "[histories.md](histories.md#hand-over) names.\n",
        "| agent | " + " | ".join(f"`{name}`" for name in EXAMINED) + " |",
        "|---" * (len(EXAMINED) + 1) + "|",
        *(
            f"| {agent} | "
            + " | ".join(cells.get(row.get(name, ""), row.get(name, "")) for name in EXAMINED)
            + " |"
            for agent, row in sorted(results.items())
        ),
    ]


def with_section(page: str, results: dict[str, dict[str, Any]]) -> str:
    """The page with this part in the place of the old one, or before the list of scenarios."""
    before, _, rest = page.partition(HEADING) if HEADING in page else page.partition("## The scenarios\n")
    after = rest[rest.index("\n## ") + 1 :] if HEADING in page else f"## The scenarios\n{rest}"
    return f"{before}{section(results)}\n{after}"


if __name__ == "__main__":
    sys.exit(main())
