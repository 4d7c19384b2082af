"""`harness fleet try`: one prompt for several agents, in copies of this project; the changes of one are then applied."""

from __future__ import annotations

import argparse
import os
import time

from harness.cli.console import Console, screen_width
from harness.cli.fleet import planned, running
from harness.cli.output import write_text
from harness.config import Settings
from harness.errors import UsageError
from harness.fleet.fleet import Fleet, open_fleet
from harness.fleet.overview import CaseOverview, overview
from harness.fleet.plans.plan import FleetPlan, FleetTask, RunLimits
from harness.formatting.columns import aligned, columns, cut
from harness.formatting.escapes import revealed, single_line
from harness.log.private_files import replace_private
from harness.workspace.git_calls import GitFailed, blank_git

_TASK = "try"
_APPLY_TIMEOUT_S = 60.0
_MOST_LINES = 400


def try_prompt(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Run the prompt with every agent, then show what each changed; with --apply, apply the changes of one."""
    if arguments.apply:
        return apply_changes(arguments, console)
    if not arguments.prompt or len(arguments.agent) < 1:
        hint = '`harness fleet try "PROMPT" -a claude -a codex`'
        raise UsageError("a prompt and at least one agent are needed", hint=hint)
    fleet = planned.stored(_plan(arguments, settings), arguments, settings, console)
    code = running.run_fleet(fleet, arguments, console, quiet=True)
    cases = overview(fleet)
    write_text(changes_text(fleet, cases, screen_width(os.environ)))
    console.say(f"apply one of them with: harness fleet try --apply CASE --name {fleet.name}")
    return code


def _plan(arguments: argparse.Namespace, settings: Settings) -> FleetPlan:
    here = os.path.abspath(arguments.cwd or os.getcwd())
    is_repository = os.path.isdir(os.path.join(here, ".git"))
    task = FleetTask(
        id=_TASK,
        prompt=arguments.prompt,
        workspace=here,
        commit="HEAD" if is_repository and not arguments.dirty else "",
        check=arguments.check,
        setup=arguments.setup,
    )
    variants = tuple(planned.variant_of(words, settings) for words in dict.fromkeys(arguments.agent))
    return FleetPlan(
        name=arguments.name or f"try-{time.strftime('%Y%m%d-%H%M%S')}",
        tasks=(task,),
        variants=planned.with_folder_settings(variants, arguments),
        repeats=arguments.repeats or 1,
        budget_usd=arguments.budget_usd,
        limits=RunLimits(timeout_s=arguments.timeout, run_budget_usd=arguments.max_budget_usd),
    )


def changes_text(fleet: Fleet, cases: list[CaseOverview], width: int) -> str:
    """A table of the runs, then their patches: two of them side by side, more of them one after the other."""
    rows: list[tuple[str, ...]] = [("case", "agent", "run", "state", "$", "s", "files", "+", "−")]
    patches: list[tuple[str, list[str]]] = []
    for case in cases:
        diff = fleet.records.diff(case.result).decode("utf-8", "replace") if case.result else ""
        lines = diff.split("\n")
        added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
        removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
        files = sum(line.startswith("diff --git ") for line in lines)
        seconds = f"{case.result.run_s:.1f}" if case.result else ""
        name = single_line(case.case.variant.name)
        numbers = map(str, (files, added, removed))
        money = f"{case.cost_usd:.4f}"
        rows.append((case.case.id, name, str(case.case.repeat + 1), case.state, money, seconds, *numbers))
        patches.append((f"{case.case.id} {name}", _shown(lines)))
    text = aligned(rows)
    if len(patches) == 2:
        return f"{text}\n{_side_by_side(patches[0], patches[1], width)}"
    return text + "".join(f"\n── {title}\n" + "\n".join(lines) + "\n" for title, lines in patches)


def _shown(lines: list[str]) -> list[str]:
    shown_lines = [revealed(line) for line in lines[:_MOST_LINES]]
    return (
        [*shown_lines, f"… {len(lines) - _MOST_LINES} more lines"]
        if len(lines) > _MOST_LINES
        else shown_lines
    )


def _side_by_side(a: tuple[str, list[str]], b: tuple[str, list[str]], width: int) -> str:
    half = max(20, (width - 3) // 2)
    left_lines, right = [a[0], *a[1]], [b[0], *b[1]]
    count = max(len(left_lines), len(right))
    left_lines += [""] * (count - len(left_lines))
    right += [""] * (count - len(right))
    lines = []
    for x, y in zip(left_lines, right, strict=True):
        text = cut(x.expandtabs(4), half)
        lines.append(f"{text}{' ' * (half - columns(text))} │ {cut(y.expandtabs(4), half)}".rstrip())
    return "\n".join(lines) + "\n"


def apply_changes(arguments: argparse.Namespace, console: Console) -> int:
    """Apply the patch of a case to the project, all of it or nothing. Raises UsageError."""
    if not arguments.name:
        raise UsageError(
            "no fleet was named", hint="give it with --name; `harness fleet list` shows what there is"
        )
    fleet = open_fleet(arguments.name, arguments.store)
    case = fleet.case(arguments.apply)
    result = fleet.records.result(case.id)
    patch = fleet.records.diff(result) if result is not None else b""
    if not patch:
        raise UsageError(f"case {case.id} has changed nothing, or has no result")
    here = os.path.abspath(arguments.cwd or os.getcwd())
    path = os.path.join(fleet.directory, f"{case.id}.patch")
    replace_private(path, patch)
    try:
        with blank_git(here, timeout_s=_APPLY_TIMEOUT_S) as git:
            for options in (("--check",), ()):
                git.ask("apply", "--whitespace=nowarn", *options, path)
    except GitFailed as error:
        raise UsageError(
            f"the changes of case {case.id} do not fit here: {single_line(error.message)}",
            hint=f"nothing was changed; the patch is {path}",
        ) from error
    console.say(f"applied the changes of {single_line(case.title)} in {here}")
    return 0
