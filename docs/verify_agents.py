"""Installs pinned real agents, lets the doctor examine each, and writes docs/verified.md.

usage: python docs/verify_agents.py [NAME …] [--accept] [--jobs N] [--cache DIR] [--report]

    NAME       only these (an agent, or agent@version)
    --accept   take what came out as it is, after you have read it: what is not visible becomes a known gap
               (src/harness/lab/verified.toml), and new fields become known ones (src/harness/lab/known)
    --report   examine nothing: write the documents from the results in the cache

Needs npm and the network for the installation, which is kept in the cache; the examination itself has none.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import known_fields
import verify_gateway
import verify_hand_overs
import verify_modes

from harness.config.settings import key_to_toml, to_toml
from harness.lab.doctor import VERIFIED
from harness.lab.doctor_report import Finding, verdict_of
from harness.lab.scenario import load_scenario, scenario_names

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PLATFORM = f"{sys.platform}-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x64'}"
MARKS = {"verified": "✓", "skipped": "–"}
"""Every other verdict is its own."""
TWO_WAY_MARKS = {**MARKS, "skipped": "cannot"}


class Pin(NamedTuple):
    agent: str
    version: str
    packages: tuple[str, ...]
    program: str
    """Below the installation."""
    node: str = ""
    """A Node of this version runs it; empty: the one on PATH, or none."""
    is_unpacked: bool = False
    """The package is taken as it is, without what it depends on."""
    beside: tuple[str, ...] = ()
    """What it needs of that all the same."""


_NPM = f"node_modules/{{}}-{PLATFORM}"
PINS = (
    Pin(
        "claude",
        "2.1.325",
        ("@anthropic-ai/claude-code@2.1.325",),
        _NPM.format("@anthropic-ai/claude-code") + "/claude",
    ),
    Pin("codex", "0.166.0", ("@openai/codex@0.166.0",), "node_modules/.bin/codex"),
    Pin("opencode", "1.18.33", ("opencode-ai@1.18.33",), _NPM.format("opencode") + "/bin/opencode"),
    Pin("kilo", "7.7.9", (f"@kilocode/cli-{PLATFORM}@7.7.9",), _NPM.format("@kilocode/cli") + "/bin/kilo"),
    Pin("cline", "3.0.65", ("cline@3.0.65",), _NPM.format("@cline/cli") + "/bin/cline"),
    Pin(
        "pi",
        "1.5.0",
        ("@earendil-works/pi-coding-agent@1.5.0",),
        "package/dist/bundle/cli.js",
        "24",
        is_unpacked=True,
        beside=("jiti@2.7.0",),
    ),
    Pin("pi", "0.73.1", ("@mariozechner/pi-coding-agent@0.73.1",), "node_modules/.bin/pi"),
    Pin(
        "goose",
        "1.52.0",
        (f"@aaif/goose-binary-{PLATFORM}@1.52.0",),
        _NPM.format("@aaif/goose-binary") + "/bin/goose",
    ),
    Pin("gemini", "0.61.0", ("@google/gemini-cli@0.61.0",), "node_modules/.bin/gemini"),
    Pin("qwen", "0.24.4", ("@qwen-code/qwen-code@0.24.4",), "node_modules/.bin/qwen"),
    Pin("copilot", "1.0.102", ("@github/copilot@1.0.102",), _NPM.format("@github/copilot") + "/copilot"),
    Pin(
        "kimi",
        "2.1.0",
        ("@moonshot-ai/kimi-code@2.1.0",),
        "node_modules/@moonshot-ai/kimi-code/dist/main.mjs",
        "24",
    ),
    Pin(
        "droid", "0.225.2", (f"@factory/cli-{PLATFORM}@0.225.2",), _NPM.format("@factory/cli") + "/bin/droid"
    ),
    Pin("grok", "1.0.41", ("@xai-official/grok@1.0.41",), "node_modules/.bin/grok"),
)


NEWEST = {next(pin for pin in PINS if pin.agent == agent) for agent in {pin.agent for pin in PINS}}
"""The first of each agent: what becomes its last verified version."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "agents")
    parser.add_argument("--scenario", action="append", default=[])
    arguments = parser.parse_args()
    wanted = [
        pin
        for pin in PINS
        if not arguments.names or {pin.agent, f"{pin.agent}@{pin.version}"} & {*arguments.names}
    ]
    if not arguments.report:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for line in pool.map(lambda pin: _verify(pin, arguments.cache, arguments.scenario), wanted):
                print(line, flush=True)
    results = [(pin, _result(pin, arguments.cache)) for pin in PINS]
    if arguments.accept:
        known_fields.main([str(arguments.cache / "recordings")])
        for pin, result in results:
            if pin in wanted and pin in NEWEST and result.get("trials"):
                result["trials"] = [_accepted(trial) for trial in result["trials"]]
                _save(pin, arguments.cache, result)
        Path(VERIFIED).write_text(_verified(results), encoding="utf-8")
    (DOCS / "verified.md").write_text(_page(results), encoding="utf-8")
    return 0


def _verify(pin: Pin, cache: Path, scenarios: list[str]) -> str:
    try:
        folder = _install(pin, cache)
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stdout", "") or str(error)
        _save(pin, cache, {"failure": " ".join(output.split())[-300:]})
        return f"{pin.agent} {pin.version}: not installed"
    command = [sys.executable, "-m", "harness.cli.main", "doctor", pin.agent, "--json"]
    command += ["--record", str(cache / "recordings")]
    command += [word for name in scenarios for word in ("--scenario", name)]
    path = [str(folder / "program"), *_ripgrep(cache), os.environ["PATH"]]
    env = {**os.environ, "PATH": os.pathsep.join(path)}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout.strip():
        return f"{pin.agent} {pin.version}: the doctor broke off"
    report = json.loads(done.stdout)[0]
    if scenarios:
        report["trials"] = _merged(_result(pin, cache).get("trials", []), report["trials"])
    _save(pin, cache, report)
    return f"{pin.agent} {pin.version}: {report['verdict']}"


def _ripgrep(cache: Path) -> list[str]:
    """Where there is one, when the machine has none: some agents would download it, and here they cannot."""
    if shutil.which("rg"):
        return []
    return [
        str(found.parent) for found in cache.glob("codex-*/node_modules/@openai/*/vendor/*/codex-path/rg")
    ][:1]


def _merged(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    trials = {trial["scenario"]: trial for trial in [*before, *now]}
    return [trials[name] for name in sorted(trials)]


def _install(pin: Pin, cache: Path) -> Path:
    """The folder of an installation, whose `program` holds the agent's own program and nothing else."""
    folder = cache / f"{pin.agent}-{pin.version}"
    program = folder / "program" / pin.agent
    if program.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    if pin.is_unpacked:
        packed = _npm(folder, "pack", "--silent", *pin.packages).strip().split("\n")[-1]
        subprocess.run(["tar", "xzf", packed], cwd=folder, check=True)
    if packages := pin.beside if pin.is_unpacked else pin.packages:
        _npm(folder, "install", "--ignore-scripts", "--no-audit", "--no-fund", *packages)
    program.parent.mkdir(exist_ok=True)
    target = folder / pin.program
    target.stat()
    if pin.node:
        _npm(folder, "install", "--ignore-scripts", "--no-audit", "--no-fund", f"node-{PLATFORM}@{pin.node}")
        node = folder / f"node_modules/node-{PLATFORM}/bin/node"
        program.write_text(f'#!/bin/sh\nexec "{node}" "{target}" "$@"\n')
        program.chmod(0o755)
    else:
        program.symlink_to(target)
    return folder


def _npm(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["npm", *words], cwd=folder, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.stdout


def _result(pin: Pin, cache: Path) -> dict[str, Any]:
    path = cache / "results" / f"{pin.agent}-{pin.version}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _save(pin: Pin, cache: Path, result: dict[str, Any]) -> None:
    path = cache / "results" / f"{pin.agent}-{pin.version}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")


def _verified(results: list[tuple[Pin, dict[str, Any]]]) -> str:
    lines = [
        "# Written by `make verify-agents ARGS=--accept`: what each agent's last verified version does not show.\n"
    ]
    for pin, result in results:
        if pin not in NEWEST or not result.get("trials"):
            continue
        lines.append(f"[{key_to_toml(pin.agent)}]\nversion = {to_toml(pin.version)}\n")
        gaps = {trial["scenario"]: _gaps(trial) for trial in result["trials"] if _gaps(trial)}
        if gaps:
            lines.append(f"[{key_to_toml(pin.agent)}.gaps]")
            lines += [f"{key_to_toml(name)} = {to_toml(missing)}" for name, missing in gaps.items()]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _accepted(trial: dict[str, Any]) -> dict[str, Any]:
    """As the doctor would judge it now. What is broken, and records that nobody knows, cannot be accepted."""
    findings = [
        Finding(**finding)
        for finding in trial.get("findings", ())
        if finding["kind"] not in ("degraded", "new field")
    ]
    verdict = trial["verdict"] if trial["verdict"] == "skipped" else verdict_of(tuple(findings))
    kept = [finding for finding in trial.get("findings", ()) if Finding(**finding) in findings]
    return {**trial, "known_gaps": _gaps(trial), "findings": kept, "verdict": verdict}


def _gaps(trial: dict[str, Any]) -> list[str]:
    found = [finding["what"] for finding in trial.get("findings", ()) if finding["kind"] == "degraded"]
    return [*trial.get("known_gaps", ()), *found]


def _page(results: list[tuple[Pin, dict[str, Any]]]) -> str:
    names = scenario_names()
    one_way, two_way = _families()
    shown = [
        (pin, {trial["scenario"]: trial for trial in result.get("trials", ())}) for pin, result in results
    ]
    watched = [(pin, trials) for pin, trials in shown if trials.keys() & {*one_way}]
    heads = [f"{pin.agent} {pin.version}" for pin, _ in watched]
    parts = [
        "<!-- Generated by docs/verify_agents.py (make verify-agents); do not edit. -->\n",
        "# Verified agents\n",
        "Real programs, installed from their registries at these versions, run offline against the scripted model:",
        "what `harness doctor` found. ✓ all that was expected is visible · ✓* the same but for known gaps,",
        "listed below · – the agent does not offer it · empty: not run. What was reviewed and accepted",
        "(`--accept`: gaps, and fields that no recording had) counts as known from then on, without another run.\n",
        "| scenario | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for name in one_way:
        cells = [_cell(trials.get(name)) for _, trials in watched]
        parts.append(f"| `{name}` | " + " | ".join(cells) + " |")
    parts += _two_way(two_way, shown)
    parts.append("\n" + verify_modes.section().rstrip())
    parts.append("\n" + verify_hand_overs.section(verify_hand_overs.read_results()).rstrip())
    parts.append("\n" + verify_gateway.section().rstrip())
    parts.append("\n## The scenarios\n")
    parts += [f"- `{name}`: {load_scenario(name).title}" for name in names]
    parts.append("\n## Every gap")
    for (pin, trials), (_, result) in zip(shown, results, strict=True):
        parts.append(f"\n### {pin.agent} {pin.version}\n")
        parts += _gap_lines(trials, result)
    return "\n".join(parts).rstrip() + "\n"


def _families() -> tuple[list[str], list[str]]:
    """The scenarios that are only watched, and those in which a conversation is held."""
    held = [name for name in scenario_names() if load_scenario(name).person is not None]
    return [name for name in scenario_names() if name not in held], held


def _two_way(names: list[str], shown: list[tuple[Pin, dict[str, dict[str, Any]]]]) -> list[str]:
    """The table of conversations: one line per agent."""
    held = [(pin, trials) for pin, trials in shown if any(name in trials for name in names)]
    heads = [name.removeprefix("two-way-") for name in names]
    parts = [
        "\n## Held in a conversation\n",
        "The same programs, held in one process by a scripted person who answers, steers and interrupts (the scenarios",
        "`two-way-…`): files, requests to the model, processes and the proof of the log were looked at. *cannot*: the",
        "agent does not offer it, for the reason given below; that is never a pass.\n",
        "| agent | version | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for pin, trials in held:
        cells = [_cell(trials.get(name), TWO_WAY_MARKS) for name in names]
        parts.append(f"| {pin.agent} | {pin.version} | " + " | ".join(cells) + " |")
    return parts


def _cell(trial: dict[str, Any] | None, marks: dict[str, str] = MARKS) -> str:
    if trial is None:
        return ""
    return marks.get(trial["verdict"], trial["verdict"]) + (
        "*" if trial["verdict"] == "verified" and trial.get("known_gaps") else ""
    )


def _gap_lines(trials: dict[str, dict[str, Any]], result: dict[str, Any]) -> list[str]:
    if not trials:
        return [f"Not run: {result.get('failure') or result.get('note') or 'not yet'}"]
    lines = []
    if result.get("network"):
        lines.append(f"- on the network of the machine: {result['network']}")
    for name, trial in trials.items():
        if trial["verdict"] == "skipped":
            lines.append(f"- `{name}` not offered: {trial['reason']}")
        lines += [f"- `{name}` not shown: {_plain(gap)}" for gap in trial.get("known_gaps", ())]
        lines += [
            f"- `{name}` **{finding['kind']}**: {_plain(finding['what'])}"
            for finding in trial.get("findings", ())
        ]
    for family in _families():
        unrun = [f"`{name}`" for name in family if name not in trials]
        if unrun and len(unrun) < len(family):
            lines.append(f"- not run: {', '.join(unrun)}")
    return lines or ["None."]


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
