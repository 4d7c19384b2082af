"""Run an agent on a task, show what it does as it happens, and record everything.

On a terminal the output is for reading, elsewhere it is one JSON object per line. Arguments after `--` are passed to the
agent unchanged.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.cli.console import Console, can_erase, is_terminal, wants_color, width_of
from harness.cli.folder_question import FOLDER_SETTINGS_HELP, USES, settle
from harness.cli.gateway_options import add_gateway
from harness.cli.output import STDOUT, OutputWriter
from harness.cli.parser import (
    EXIT_CODES,
    add_at_limit,
    at_least_zero,
    completes,
    count,
    positive,
    seconds,
    window,
)
from harness.cli.tracing import add_collector, traced
from harness.errors import UsageError
from harness.stage import ViewOptions

if TYPE_CHECKING:
    from harness.cli.limit_hand_over import LimitHandOver
    from harness.config import Settings
    from harness.contracts.request import Request
    from harness.runs.program_conversation import ProgramConversation
    from harness.runs.run import Run

ON_ASK = ("deny", "allow", "wait")
_ON_ASK_HELP = (
    "what to do with a call that needs approval: deny refuses it, allow allows it, wait waits for an answer (default: "
    "wait on a terminal, where you are asked, else deny)"
)
SUMMARY = "run an agent on a task"
TAKES_EXTRA = True
USAGE = "harness run [OPTIONS] [-- ARGUMENTS FOR THE AGENT]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXIT_CODES
    _add_task(parser)
    _add_limits(parser.add_argument_group("limits"))
    _add_output(parser.add_argument_group("output"))
    _add_special(parser.add_argument_group("special"))


def _add_task(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    completes(add("-a", "--agent", default="", metavar="NAME", help=_agents_help()), "agents")
    add("-p", "--prompt", metavar="TEXT", help="what to do")
    add("words", nargs="*", help=argparse.SUPPRESS)  # only to say what is wrong with them
    add("--prompt-file", metavar="FILE", help="read the prompt from a file (- is standard input)")
    help_text = "a picture, PDF or text file beside the prompt (may be repeated)"
    add("--attach", action="append", default=[], metavar="FILE", help=help_text)
    add("-d", "--cwd", default="", metavar="DIR", help="where the agent works (default: here)")
    add("-m", "--model", default="", metavar="NAME", help="model name or alias (see `harness models`)")
    help_text = (
        "full-access (default), read-only, ask (before it changes or runs anything), accept-edits (ask, but edit files "
        "below the folder), plan (read-only until its plan is approved), or agent-default (as the agent itself is set)"
    )
    completes(add("--permissions", default="", metavar="MODE", help=help_text), "permissions")
    add("--on-ask", choices=ON_ASK, metavar="POLICY", help=_ON_ASK_HELP)
    help_text = "how long to wait for an answer before the call is refused (default: 5m)"
    add("--ask-timeout", type=seconds, metavar="SECONDS", help=help_text)
    add("--folder-settings", choices=USES, default="", metavar="use|none", help=FOLDER_SETTINGS_HELP)
    add("--sandbox", action="store_true", help="confine it to the workspace and its own files")
    add_gateway(add, takes_login=True)
    help_text = "use the servers of this mcp.json (may be repeated)"
    add("--mcp", action="append", default=[], metavar="FILE", help=help_text)
    earlier = parser.add_mutually_exclusive_group().add_argument
    earlier("--resume", default="", metavar="ID", help="continue this session of the agent, or its `last`")
    earlier(
        "--continue",
        dest="continue_last",
        action="store_true",
        help="continue its latest session in this directory",
    )
    add(
        "--fork",
        action="store_true",
        help="with --resume: continue in a copy, and leave that session as it is",
    )
    help_text = "how much the model reasons: low, medium, high, or another level of its provider"
    add("--effort", default="", metavar="LEVEL", help=help_text)
    add("--temperature", type=at_least_zero, metavar="NUMBER", help="of the model's answers")
    add("--max-output-tokens", type=count, metavar="N", help="for one answer of the model")
    help_text = "how many tokens the model can read, if its name does not say so"
    add("--context-window", type=window, metavar="N", help=help_text)
    add("--system-prompt", default="", metavar="TEXT", help="instead of the agent's own")
    add("--append-system-prompt", default="", metavar="TEXT", help="after the agent's own")
    help_text = "set in the agent's environment (may be repeated)"
    add("--env", action="append", default=[], metavar="NAME=VALUE", help=help_text)


def _add_limits(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--timeout", type=seconds, metavar="SECONDS", help="for the whole run; for example 90, 90s, 5m or 2h")
    add("--first-output-timeout", type=seconds, metavar="SECONDS", help="until the agent's first output")
    add("--inactivity-timeout", type=seconds, metavar="SECONDS", help="between two pieces of output")
    add("--max-turns", type=count, metavar="N", help="model turns")
    add("--max-budget-usd", "--max-budget", type=positive, metavar="USD", help="maximum cost")
    add_at_limit(add, can_hand_over=True)


def _add_output(group: argparse._ArgumentGroup) -> None:
    from harness.clients.formats import help_text

    add = group.add_argument
    completes(add("-f", "--format", "--output", default="", metavar="FORMAT", help=help_text()), "formats")
    add("-o", "--output-file", default="", metavar="FILE", help="also write the output to this file")
    add("--usage", action="store_true", help="in ndjson: also tokens and cost, live")
    add("--reasoning", action="store_true", help="in pretty and activity: also the model's reasoning")
    add_collector(group)
    add(
        "--content",
        action="store_true",
        help="in otel, pretty and for --otlp: also texts, arguments and results",
    )
    add("--record", default="", metavar="DIR", help="also write raw.jsonl and events.jsonl there")
    add("--name", default="", metavar="TEXT", help="a name for the session")
    add("--tag", action="append", default=[], metavar="TEXT", help="a tag for the session (may be repeated)")
    add("--no-redact", action="store_true", help="do not mask secrets in what is recorded and shown")


def _add_special(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--binary", default="", metavar="PATH", help="the agent's program, if not the one on PATH")
    add("--recording", default="", metavar="FILE", help="replay recorded output instead of running an agent")
    add(
        "--as",
        dest="native",
        default="",
        metavar="NAME",
        help="the agent that wrote the recording, if there is no metadata beside it",
    )
    add(
        "--context",
        default="",
        metavar="FILE",
        help="a text to work on, for agents that take one apart from the prompt",
    )
    add("--extra-args", action="append", default=[], metavar="WORDS", help="more arguments for the agent")
    add("--dry-run", action="store_true", help="print the command without running it")


def _agents_help() -> str:
    from harness.agents.registry import names

    return (
        f"{', '.join(names())} (default: the one that is installed, else native; other packages may bring more: "
        "`harness agents list --all`)"
    )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences, run_request
    from harness.clients import formats

    if arguments.words:
        raise UsageError(f"unexpected: {' '.join(arguments.words)}", hint="give the prompt with --prompt")
    formats.choose(arguments.format, is_terminal=False)  # a wrong one is reported first
    settings = preferences.load(console, has_verbose=arguments.verbose)
    settings.require_valid()
    request = run_request.request_of(arguments, settings, console)
    run_request.say_rights(request, arguments, settings, console)
    return _with_waits(request, arguments, settings, console)


def _with_waits(request: Request, arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """The run, and those that continue it: when a window of its provider opens again, or with another agent."""
    from harness.cli.limit_wait import LimitWait
    from harness.clients.conversations.parking import parking_of

    wait = LimitWait(parking_of(settings, arguments.at_limit, arguments.max_windows), console)
    others: LimitHandOver | None = None
    if (arguments.at_limit or settings.value("limits.at_limit")) == "hand-over":
        from harness.cli.limit_hand_over import LimitHandOver

        others = LimitHandOver(settings, console)
    code = carry_out(request, arguments, settings, console, on_end=wait.note)
    while True:
        following = wait.follow_up(request)
        if following is None and others is not None and (run := wait.run_at_full_window) is not None:
            following = others.next_request(run, request)
        if following is None:
            return code
        code = carry_out(following, arguments, settings, console, on_end=wait.note, follows=True)


def carry_out(
    request: Request,
    arguments: argparse.Namespace,
    settings: Settings,
    console: Console,
    on_end: Callable[[Run], object] | None = None,
    conversation: ProgramConversation | None = None,
    *,
    follows: bool = False,
) -> int:
    """Start the run and show it as the options say, or with `--dry-run` only its command line.

    `follows`: it continues one that was shown.
    """
    from harness.cli import preferences
    from harness.cli.live import RunDisplay, run_and_show
    from harness.clients import formats

    on_terminal = is_terminal(STDOUT)
    view = formats.choose(arguments.format, is_terminal=on_terminal)
    if arguments.dry_run:
        return _dry_run(request, arguments.cwd, console)
    options = ViewOptions(
        usage=arguments.usage,
        reasoning=arguments.reasoning,
        content=arguments.content,
        human=on_terminal,
        color=wants_color(arguments.color, os.environ, is_terminal=on_terminal),
        width=width_of(STDOUT, os.environ),
        live=can_erase(STDOUT, os.environ),
    )
    output = OutputWriter(console, arguments.output_file, is_json=view in formats.JSON, follows=follows)
    request = _with_folder_settings(request, console)
    showing = RunDisplay(view, options, output, console, on_terminal)
    store = preferences.open_store(settings)
    redact = settings.value("log.redact") and not arguments.no_redact
    with traced(settings, console.warning, arguments.otlp, content=arguments.content):
        return run_and_show(
            request,
            store,
            showing,
            redact=redact,
            record=arguments.record,
            on_end=on_end,
            conversation=conversation,
        )


def _with_folder_settings(request: Request, console: Console) -> Request:
    """The request with what a person says about settings that the folder brings, if someone can be asked."""
    from msgspec.structs import replace

    from harness.agents.registry import load

    if request.recording:
        return request
    agent = load(request.agent)
    use = settle(agent, request.cwd, request.permissions, request.folder_settings, console)
    return replace(request, folder_settings=use)


def _dry_run(request: Request, cwd: str, console: Console) -> int:
    from harness.cli import run_request
    from harness.runs.launch import not_found, prepare

    launch = prepare(request)
    for warning in launch.warnings:
        console.warning(warning)
    if not launch.binary and launch.agent.work is None:
        console.error(not_found(launch.agent))
        return 1
    run_request.show_dry_run(launch, cwd)
    return 0
