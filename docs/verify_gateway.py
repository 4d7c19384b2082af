"""Tries the gateway with the agents that are installed, and writes the table into docs/verified.md.

usage: python docs/verify_gateway.py [NAME …]
       python docs/verify_gateway.py --report FILE …

The first runs the scenarios of the gateway of `harness doctor` with the agents on PATH; the second takes what
`harness doctor NAME --scenario gateway --json` has written. The results are added to docs/gateway_trials.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.lab.scenario import load_scenario, scenario_names

DOCS = Path(__file__).parent
DATA = DOCS / "gateway_trials.json"
PAGE = DOCS / "verified.md"
HEADING = "## Through a gateway\n"
NEXT = "## The scenarios\n"
CELLS = {"verified": "✓", "skipped": "–"}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--report", nargs="*", type=Path, default=[], metavar="FILE")
    arguments = parser.parse_args()
    texts = [path.read_text(encoding="utf-8") for path in arguments.report]
    if not texts:
        command = [sys.executable, "-m", "harness.cli.main", "doctor", *arguments.names, "--json"]
        command += [word for name in scenarios() for word in ("--scenario", name)]
        texts = [subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout]
    results = read_results()
    for report in (one for text in texts for one in json.loads(text)):
        trials = {one["scenario"]: _kept(one) for one in report["trials"] if one["scenario"] in scenarios()}
        if trials and report.get("version"):
            key = f"{report['agent']} {report['version']}"
            results[key] = {**results.get(key, {}), **trials}
    results = dict(sorted(results.items()))
    DATA.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def scenarios() -> list[str]:
    return [name for name in scenario_names() if load_scenario(name).through_gateway]


def _kept(trial: dict[str, Any]) -> dict[str, Any]:
    notes = [_plain(finding["what"]) for finding in trial.get("findings", ())]
    return {
        "verdict": trial["verdict"],
        "notes": notes or [trial["reason"]] if trial.get("reason") else notes,
    }


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def read_results() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    return found


def section() -> str:
    """The part of docs/verified.md, from its heading on."""
    names = scenarios()
    lines = [
        HEADING,
        "The same programs behind a [gateway](gateway.md) whose provider is the scripted model: recorded, played again offline and",
        "sealed with the same texts, operations and files, and continued by a model from a step on; the usage is what the model",
        "really gave, and its key is nowhere in the record. –: the agent does not offer it. Written by `docs/verify_gateway.py`.\n",
        "| agent | " + " | ".join(f"`{name}`" for name in names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    notes = []
    for agent, trials in read_results().items():
        verdicts = [trials.get(name, {}).get("verdict", "") for name in names]
        lines.append(f"| {agent} | " + " | ".join(CELLS.get(one, one) for one in verdicts) + " |")
        notes += [
            f"- {agent}, `{name}`: {'; '.join(trials[name]['notes'])}"
            for name in names
            if trials.get(name, {}).get("notes")
        ]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def with_section(page: str) -> str:
    """The page with this part in the place of the old one, or before the list of scenarios."""
    before, _, rest = page.partition(HEADING) if HEADING in page else page.partition(NEXT)
    after = rest[rest.index(NEXT) :] if HEADING in page else f"{NEXT}{rest}"
    return f"{before}{section()}\n{after}"


if __name__ == "__main__":
    sys.exit(main())
