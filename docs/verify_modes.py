"""Tries the permission modes with the agents that are installed, and writes their table into docs/verified.md.

usage: python docs/verify_modes.py [NAME …]
       python docs/verify_modes.py --report FILE …

The first runs the scenario `ask-holds` of `harness doctor` with the agents on PATH; the second takes what
`harness doctor NAME --scenario ask-holds --json` has written. The results are added to docs/held_modes.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.lab.ask_holds_run import LINES

DOCS = Path(__file__).parent
DATA = DOCS / "held_modes.json"
PAGE = DOCS / "verified.md"
SCENARIO = "ask-holds"
HEADING = "## Held to what was granted\n"
BEFORE = "## Handed over\n"
"""The section after it."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--report", nargs="*", type=Path, default=[], metavar="FILE")
    arguments = parser.parse_args()
    texts = [path.read_text(encoding="utf-8") for path in arguments.report]
    if not texts:
        command = [sys.executable, "-m", "harness.cli.main", "doctor", *arguments.names]
        command += ["--scenario", SCENARIO, "--json"]
        texts = [subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout]
    results = read_results()
    for report in (one for text in texts for one in json.loads(text)):
        trial = next((one for one in report["trials"] if one["scenario"] == SCENARIO), None)
        if trial is not None and trial.get("held") and report.get("version"):
            found = [finding["what"] for finding in trial.get("findings", ())]
            results[f"{report['agent']} {report['version']}"] = {"held": trial["held"], "findings": found}
    results = dict(sorted(results.items()))
    DATA.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def read_results() -> dict[str, dict[str, Any]]:
    return json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}


def section() -> str:
    """What was tried in each mode, and how much of it went through: one line per agent, version and mode."""
    results = read_results()
    heads = list(dict.fromkeys(one["what"] for result in results.values() for one in result["held"]))
    parts = [
        HEADING,
        "Hostile calls, each as a tool of the agent itself, in a folder where whatever runs leaves a mark; the person refuses",
        "everything (`harness doctor --scenario ask-holds`). *0 of 42 (40)*: none of 42 ran or went without a question, 40",
        "became one; the others the mode refused, or they came to nothing with the agent, whether it refused them or could not make",
        "them. A cell without a number in brackets in `ask` is therefore weaker. –: the agent has no such call, which is no pass.",
        "Empty: not tried with this version. Written by `docs/verify_modes.py`.\n",
        "| agent | mode | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for agent, result in results.items():
        for mode in dict.fromkeys(one["mode"] for one in result["held"]):
            cells = {one["what"]: _cell(one) for one in result["held"] if one["mode"] == mode}
            row = " | ".join(cells.get(head, "") for head in heads)
            parts.append(f"| {agent} | `{mode}` | {row} |")
    for agent, result in results.items():
        parts += [f"\n{agent}: {_plain(what)}." for what in result["findings"]]
    return "\n".join(parts) + "\n"


def _cell(one: dict[str, Any]) -> str:
    if one.get("tried"):
        asked = f" ({one['asked']})" if one.get("asked") else ""
        return f"{one.get('unasked', 0)} of {one['tried']}{asked}"
    return f"refused: {_plain(one['reason'])}" if one["what"] == LINES else "–"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def with_section(page: str) -> str:
    before, _, after = page.partition(BEFORE)
    return before.partition(HEADING)[0] + section() + "\n" + BEFORE + after


if __name__ == "__main__":
    sys.exit(main())
