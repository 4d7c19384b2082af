"""Plans that the user trusts: a plan runs commands on this machine, like a Makefile, so it is read first.

A plan is trusted as it is: with another command, task or hidden file it is asked about again.
"""

from __future__ import annotations

import os
import sys

from harness import config
from harness.approvals.trust import write_record
from harness.cli.console import Console, is_terminal
from harness.cli.trust_text import fleet_key, visible
from harness.config.trust import read_record
from harness.errors import UsageError
from harness.fleet.plans.plan import FleetPlan
from harness.fleet.plans.plan_trust import commands_of, digest_of_plan

_MOST_LINES = 40


def require_trust(plan: FleetPlan, path: str, console: Console, *, is_granted: bool) -> None:
    """Raises UsageError where the plan runs something and is not trusted. `is_granted`: --trust was given."""
    commands = commands_of(plan)
    key, digest = fleet_key(path), digest_of_plan(plan)
    record, problem = read_record(config.trust_file())
    if problem:
        console.warning(f"{config.trust_file()} {problem}")
    if not commands or record["trusted"].get(key) == digest:
        return
    if not is_granted:
        _ask(path, commands, console)
    write_record({**record, "trusted": {**record["trusted"], key: digest}})


def _ask(path: str, commands: list[str], console: Console) -> None:
    shown_lines = [f"  {visible(line)}" for line in commands[:_MOST_LINES]]
    if hidden := len(commands) - len(shown_lines):
        shown_lines.append(f"  … and {hidden} more, which are in {visible(path)}")
    text = "\n".join([f"{visible(path)} runs on this machine, as you:", *shown_lines])
    if not is_terminal(0):
        raise UsageError(
            f"{text}\nIt is not trusted, and there is no terminal to ask on",
            hint="after you have read it: the same with --trust",
        )
    console.say(text)
    console.put("Trust this plan, as it is now? [y/N] ")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError(f"{os.path.basename(path)} is not trusted, and nothing was started")
