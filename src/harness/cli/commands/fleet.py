"""Many runs, compared: tasks × agents × repeats, each run an ordinary session, scored by a check.

FLEET is the name of a fleet, or its folder. A plan is a TOML file (docs/fleet.md), or folders of tasks with -a AGENT.
"""

from __future__ import annotations

import argparse
import os

from harness import config
from harness.cli.console import Console
from harness.cli.folder_question import FOLDER_SETTINGS_HELP, USES
from harness.cli.parser import (
    add_actions,
    at_least_zero,
    completes,
    count,
    count_or_zero,
    positive,
    seconds,
)

SUMMARY = "run tasks with several agents and compare them"
DEFAULT_ACTION = "list"
ACTIONS = {
    "run": "run a plan; one that was started is continued",
    "plan": "show what a plan would run and probably cost, and create the fleet without running it",
    "try": "one prompt for several agents in copies of this project; then apply the changes of one",
    "resume": "continue a fleet that was started",
    "status": "what is done, what runs, and what is left",
    "list": "list fleets",
    "report": "pass rates with intervals, cost, time and errors of each variant",
    "compare": "compare two variants, of one fleet or of two",
    "diff": "show where the runs of two cases part",
    "export": "write results for other programs: csv, parquet, html, atif, swe-bench, json",
    "retry": "attempt again what ended without a result",
    "stop": "stop a fleet that is being run; it can be continued",
    "grade": "run the checks again on workspaces that were kept",
    "delete": "delete a fleet; the sessions of its runs stay",
    "work": "attempt one case; this is what an engine starts",
}
_ENGINES = ("local", "ray")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    _add_plan(actions["run"])
    _add_execution(actions["run"])
    _add_plan(actions["plan"])
    actions["plan"].add_argument("--dry-run", action="store_true", help="create nothing")
    actions["plan"].add_argument("--budget-usd", type=positive, metavar="USD", help="for the whole fleet")
    _add_try(actions["try"])
    for name in ("resume", "retry"):
        _add_execution(actions[name])
    for name in ("run", "plan", "resume", "retry", "grade"):
        _add_choice(actions[name])
    for name in ("run", "plan", "try"):
        actions[name].add_argument(
            "--folder-settings", choices=USES, default="", metavar="use|none", help=FOLDER_SETTINGS_HELP
        )
    actions["delete"].add_argument("--yes", action="store_true", help="do not ask")
    for name in ("resume", "status", "retry", "stop", "work", "report", "diff", "export", "grade", "delete"):
        actions[name].add_argument("fleet", metavar="FLEET", help="the name of a fleet, or its folder")
    actions["work"].add_argument("case", metavar="CASE", help="the id of a case, or the beginning of one")
    _add_keep(actions["work"])
    actions["stop"].add_argument("--now", action="store_true", help="do not wait for the cases that run")
    _add_results(actions)
    for name in ("plan", "status", "list", "report", "compare", "diff"):
        actions[name].add_argument("--json", action="store_true", help="print JSON")
    for action in actions.values():
        _add_store(action)


def _add_results(actions: dict[str, argparse.ArgumentParser]) -> None:
    help_text = "FLEET:VARIANT, or FLEET where it has only one"
    actions["compare"].add_argument("a", metavar="A", help=help_text)
    help_text = "the same; may be left out where the fleet of A has two variants"
    actions["compare"].add_argument("b", metavar="B", nargs="?", default="", help=help_text)
    help_text = "exit with 1 if B is clearly worse by more than this share, with 3 if it perhaps is"
    actions["compare"].add_argument(
        "--max-drop", type=at_least_zero, default=0.0, metavar="SHARE", help=help_text
    )
    for name in ("case_a", "case_b"):
        actions["diff"].add_argument(name, metavar=name.upper(), help="a case, or the beginning of its id")
    formats = ("csv", "parquet", "html", "atif", "swe-bench", "json")
    add = actions["export"].add_argument
    add("-f", "--format", choices=formats, required=True, metavar="FORMAT", help=", ".join(formats))
    add(
        "-o",
        "--output",
        default="",
        metavar="PATH",
        help="a file; for atif, and for swe-bench with several variants, a folder (default: standard output)",
    )


def _add_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep", action="store_true", help="keep the workspaces of cases that are not solved"
    )


def _add_store(parser: argparse.ArgumentParser) -> None:
    help_text = "records and logs in this PostgreSQL database (postgresql://…; default: $HARNESS_FLEET_STORE, else files)"
    parser.add_argument("--store", default="", metavar="URL", help=help_text)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="*", metavar="PLAN", help="PLAN.toml, or folders and files of tasks")
    help_text = "an agent, or AGENT/MODEL (may be repeated)"
    completes(add("-a", "--agent", action="append", default=[], metavar="NAME", help=help_text), "agents")
    add("--repeats", type=count, metavar="N", help="runs of each task by each agent")
    add(
        "--retries",
        type=count_or_zero,
        metavar="N",
        help="further attempts where nothing was the agent's fault",
    )
    add("--max-budget-usd", type=positive, metavar="USD", help="for each run")
    add("--timeout", type=seconds, metavar="SECONDS", help="for each run; for example 90, 90s, 5m or 2h")
    add("--max-turns", type=count, metavar="N", help="model turns of each run")
    add("--name", default="", metavar="NAME", help="what the fleet is called, or its folder")
    add("--trust", action="store_true", help="the plan was read, and its commands may run")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--task", action="append", default=[], metavar="PATTERN", help="only these tasks (may be repeated)")
    help_text = "only these variants (may be repeated)"
    add("--variant", action="append", default=[], metavar="PATTERN", help=help_text)


def _add_try(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("prompt", nargs="?", default="", metavar="PROMPT", help="what to do")
    help_text = "an agent, or AGENT/MODEL (may be repeated)"
    completes(add("-a", "--agent", action="append", default=[], metavar="NAME", help=help_text), "agents")
    add("--repeats", type=count, metavar="N", help="runs of each agent")
    add(
        "--apply",
        default="",
        metavar="CASE",
        help="apply the changes of this case; the fleet is that of --name",
    )
    add("--check", default="", metavar="COMMAND", help="ends with 0 when the task is solved")
    add("--setup", default="", metavar="COMMAND", help="prepares each copy")
    add("--dirty", action="store_true", help="copy the folder as it is, not the last commit")
    add("-d", "--cwd", default="", metavar="DIR", help="the project (default: here)")
    add("--max-budget-usd", type=positive, metavar="USD", help="for each run")
    add("--timeout", type=seconds, metavar="SECONDS", help="for each run; for example 90, 90s, 5m or 2h")
    add("--name", default="", metavar="NAME", help="what the fleet is called")
    _add_execution(parser)


def _add_execution(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--budget-usd", type=positive, metavar="USD", help="for the whole fleet, with what was spent already")
    add("-j", "--jobs", type=count, metavar="N", help="cases at once (default: one for each processor)")
    add("--engine", choices=_ENGINES, default="local", metavar="NAME", help=", ".join(_ENGINES))
    help_text = "of a Ray cluster (default: $RAY_ADDRESS, else one on this machine)"
    add("--ray-address", default="", metavar="ADDRESS", help=help_text)
    _add_keep(parser)
    add("--join", action="store_true", help="work beside another process that runs the fleet")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.fleet.fleet import STORE_VARIABLE, open_fleet

    arguments.store = arguments.store or os.environ.get(STORE_VARIABLE, "")
    if arguments.action == "work":  # it is started for every case, and needs no more than this
        from harness.cli.tracing import traced
        from harness.fleet.work import work

        with traced(config.load(os.getcwd()), console.warning):
            return work(open_fleet(arguments.fleet, arguments.store), arguments.case, keep=arguments.keep)
    from harness.cli.fleet import results, running, status

    match arguments.action:
        case "run" | "try" | "plan":
            return _plan_and_run(arguments, console)
        case "list":
            return status.list_fleets(arguments, console)
        case "compare":
            return results.show_comparison(arguments)
        case _:
            fleet = open_fleet(arguments.fleet, arguments.store)
    match arguments.action:
        case "resume":
            return running.run_fleet(fleet, arguments, console)
        case "retry":
            return running.run_fleet(fleet, arguments, console, retry=True)
        case "report":
            return results.show_report(fleet, arguments)
        case "diff":
            return results.show_difference(fleet, arguments)
        case "export":
            return results.export_fleet(fleet, arguments, console)
        case "grade":
            from harness.cli.fleet.grading import grade_fleet

            return grade_fleet(fleet, arguments, console)
        case "delete":
            from harness.cli.fleet.deleting import delete_fleet

            return delete_fleet(fleet, arguments, console)
        case "stop":
            fleet.records.request_stop("now" if arguments.now else "after")
            return 0
        case _:
            return status.show_status(fleet, arguments)


def _plan_and_run(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences
    from harness.cli.fleet import best_of, planned, running

    settings = preferences.load(console, has_verbose=arguments.verbose)
    settings.require_valid()
    if arguments.action == "try":
        return best_of.try_prompt(arguments, settings, console)
    if arguments.action == "plan":
        from harness.cli.fleet.chosen_cases import show_plan

        if arguments.dry_run:
            return show_plan(planned.tried(arguments, settings, console), None, arguments, console)
        fleet = planned.fleet_of(arguments, settings, console)
        return show_plan(fleet.plan, fleet, arguments, console)
    return running.run_fleet(planned.fleet_of(arguments, settings, console), arguments, console)
