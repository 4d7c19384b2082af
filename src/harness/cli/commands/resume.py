"""Continue any session of this machine, by the means of its own agent.

ID is a session's id, the beginning of one, `last`, or the agent's own id of a session (`AGENT:ID` if it is not unique).
With a PROMPT it is a run, shown and recorded like any other, in the directory of the session. Without one it is
`harness chat`, or, for an agent that cannot be held in a conversation, the command that opens the agent's own screen.
Arguments after `--` are passed to the agent unchanged.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.cli import parser
from harness.cli.console import Console
from harness.cli.output import write_text
from harness.cli.parser import EXIT_CODES, completes
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.clients.sessions.any_session import AnySession
    from harness.config import Settings
    from harness.contracts.agent import Agent

SUMMARY = "continue any session, by the means of its agent"
TAKES_EXTRA = True
INTERMIXED = True
USAGE = "harness resume ID [PROMPT] [OPTIONS] [-- ARGUMENTS FOR THE AGENT]"
_VALUES = ("cwd", "model", "permissions", "format", "output_file", "timeout", "binary")
"""Options that are passed on to `harness run` as they are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXIT_CODES
    add = parser.add_argument
    completes(add("id", metavar="ID", nargs="?", help="an id, the beginning of one, or `last`"), "sessions")
    add("prompt", metavar="PROMPT", nargs="?", help="what to do next (default: talk to it)")
    help_text = "continue all that wait for a window of their provider which is open again (for a timer)"
    add("--due", action="store_true", help=help_text)
    add("--print", action="store_true", help="print the command that opens it in the agent's own screen")
    help_text = "continue in a copy, and leave the session as it is"
    add("--fork", action="store_true", help=help_text)
    add_run_options(parser)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Those of `harness run` that a run with an earlier session takes too."""
    from harness.clients.formats import help_text as formats

    add = parser.add_argument
    add("-d", "--cwd", default="", metavar="DIR", help="where the agent works (default: as before)")
    add("-m", "--model", default="", metavar="NAME", help="model name or alias (see `harness models`)")
    help_text = "full-access, read-only, ask or agent-default, as of `harness run`"
    completes(add("--permissions", default="", metavar="MODE", help=help_text), "permissions")
    add("--timeout", default="", metavar="SECONDS", help="for the whole run; for example 90, 90s, 5m or 2h")
    completes(add("-f", "--format", "--output", default="", metavar="FORMAT", help=formats()), "formats")
    add("-o", "--output-file", default="", metavar="FILE", help="also write the output to this file")
    add("--binary", default="", metavar="PATH", help="the agent's program, if not the one on PATH")
    add("--dry-run", action="store_true", help="do nothing, and print what would be done")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.agents.registry import load
    from harness.cli import preferences
    from harness.cli.run_request import require_installed
    from harness.clients.sessions.any_session import find_session, model_of_session, require_folder

    settings = preferences.load(console, has_verbose=arguments.verbose)
    settings.require_valid()
    if arguments.due:
        from harness.cli.due_sessions import continue_due
        from harness.cli.tracing import traced

        with traced(settings, console.warning):
            return continue_due(preferences.open_store(settings), console)
    if arguments.id is None:
        raise UsageError("no session was named", hint="an id, `last`, or --due; see `harness sessions list`")
    session = find_session(preferences.open_store(settings), arguments.id)
    agent = load(session.agent)
    if arguments.print:
        return _print_command(session, agent)
    _require_resumable(session, agent)
    arguments.cwd = require_folder(session, arguments.cwd)
    if session.is_thread:
        return _talk(session, arguments, settings, console)
    arguments.model = arguments.model or model_of_session(session)
    require_installed(agent, settings, arguments.binary)
    if arguments.prompt is not None:
        return _run(session, agent, arguments, settings, console)
    if session.log_id or _is_two_way(agent):
        return _talk(session, arguments, settings, console)
    return _print_command(session, agent)


def _print_command(session: AnySession, agent: Agent) -> int:
    if not agent.screen_resume or not session.session_id:
        hint = f"continue it with: harness resume {session.name} PROMPT"
        raise UsageError(f"{agent.title} has no command that opens one of its sessions by its id", hint=hint)
    write_text(screen_command(agent, session.session_id, session.cwd) + "\n")
    return 0


def screen_command(agent: Agent, session_id: str, cwd: str = "", arguments: Sequence[str] = ()) -> str:
    """The command line, for a shell, that continues a session in the agent's own screen."""
    from harness.cli.run_request import quoted

    words = [word.replace("{id}", session_id) for word in arguments or agent.screen_resume]
    command = " ".join(map(quoted, [next(iter(agent.binaries)), *words]))
    return f"cd {quoted(cwd)} && {command}" if cwd else command


def _require_resumable(session: AnySession, agent: Agent) -> None:
    from harness.clients.sessions.any_session import is_deleted

    if session.is_thread:
        return
    supports = agent.supports | (agent.two_way.supports or frozenset() if agent.two_way else frozenset())
    if "resume" not in supports:
        raise UsageError(
            f"{agent.title} cannot continue a session by its id",
            hint=f"let another agent continue it: harness hand-over {session.name} --to AGENT",
        )
    if is_deleted(session):
        raise UsageError(
            f"{agent.title} has deleted this session, so it cannot continue it by its id",
            hint=f"give it the copy as a new session: harness hand-over {session.name} --to {agent.name}",
        )
    if not session.session_id and agent.work is None:
        raise UsageError(
            f"{agent.title} has not reported the id of this session, so it cannot be continued",
            hint=f"start a new session with its messages: harness hand-over {session.name} --to {agent.name}",
        )


def _is_two_way(agent: Agent) -> bool:
    from harness.runs.launch import installed_two_way

    two_way = installed_two_way(agent)
    return two_way is not None and "resume" in (two_way.supports or agent.supports)


def _run(
    session: AnySession, agent: Agent, arguments: argparse.Namespace, settings: Settings, console: Console
) -> int:
    from msgspec.structs import replace

    from harness.cli.commands.run import carry_out
    from harness.cli.run_request import request_of

    options = run_arguments(arguments, agent.name, arguments.prompt)
    request = request_of(options, settings, console)
    request = replace(request, resume=session.session_id or session.log_id, fork=arguments.fork)
    if "resume" not in agent.supports:
        request = replace(request, two_way=True)  # it can, but only in a conversation
    return carry_out(request, options, settings, console)


def run_arguments(arguments: argparse.Namespace, agent: str, prompt: str) -> argparse.Namespace:
    """The same options, as those of `harness run`."""
    words = [f"--agent={agent}", f"--prompt={prompt}"]
    words += [
        f"--{name.replace('_', '-')}={value}" for name in _VALUES if (value := getattr(arguments, name))
    ]
    words += ["--dry-run"] if arguments.dry_run else []
    extra = ["--", *arguments.extra] if arguments.extra else []
    return parser.parse("run", [*words, *extra], verbose=arguments.verbose, color=arguments.color)


def _talk(session: AnySession, arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    from harness.cli.chat.own_chat import OwnChat

    options = parser.parse("chat", [], verbose=arguments.verbose, color=arguments.color)
    for name in ("cwd", "model", "permissions"):
        setattr(options, name, getattr(arguments, name))
    options.agent = session.agent
    options.resume = session.log_id
    agent_session = "" if session.log_id else session.session_id
    chat = OwnChat(options, settings, session.store, console, agent_session, arguments.prompt or "")
    return chat.run()
