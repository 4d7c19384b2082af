"""Hand a session over to another agent, which continues it: as a session of its own, else as a briefing.

ID is a session's id, the beginning of one, `last`, or an agent's own id of a session (`AGENT:ID` if it is not unique).
With a PROMPT the other agent is run at once, shown and recorded like any run; without one, the command that continues
is printed. What is lost is listed each time. `--list` lists earlier hand-overs, `--remove ID` removes their files.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from harness.cli.commands.resume import add_run_options, run_arguments, screen_command
from harness.cli.console import Console, number_of
from harness.cli.output import write_text
from harness.cli.parser import EXIT_CODES, completes
from harness.errors import UsageError
from harness.formatting.escapes import single_line

if TYPE_CHECKING:
    from harness.clients.sessions.any_session import AnySession
    from harness.config import Settings
    from harness.contracts.agent import Agent
    from harness.histories.handover.delivery import HandoverFolder, Manifest, Target
    from harness.session.hand_over import HandedOver, HandoverPlan

SUMMARY = "let another agent continue a session"
TAKES_EXTRA = True
INTERMIXED = True
USAGE = "harness hand-over ID --to AGENT [PROMPT] [OPTIONS] [-- ARGUMENTS FOR THE AGENT]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXIT_CODES
    add = parser.add_argument
    help_text = "an id, the beginning of one, or `last`"
    completes(add("id", metavar="ID", nargs="?", default="", help=help_text), "sessions")
    add("prompt", metavar="PROMPT", nargs="?", help="what to do next (default: print how to continue)")
    completes(add("--to", default="", metavar="AGENT", help="the agent that is to continue it"), "agents")
    help_text = "native: as a session of the agent; briefing: as text before the prompt (default: the best)"
    add("--as", dest="form", choices=("native", "briefing"), default="", metavar="FORM", help=help_text)
    add("--list", action="store_true", help="list what was handed over")
    add("--remove", default="", metavar="ID", help="remove the files of a hand-over")
    add("--force", action="store_true", help="with --remove: also files that were changed since")
    add_run_options(parser)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences
    from harness.histories.handover.delivery import HandoverFolder
    from harness.session.hand_over import handover_directory

    folder = HandoverFolder(handover_directory())
    if arguments.list:
        return _list(folder)
    if arguments.remove:
        return _remove(folder, arguments, console)
    if not arguments.id or not arguments.to:
        raise UsageError("a session and an agent are needed", hint="harness hand-over ID --to AGENT")
    settings = preferences.load(console, has_verbose=arguments.verbose)
    settings.require_valid()
    return _hand_over(folder, arguments, settings, console)


def _hand_over(
    folder: HandoverFolder, arguments: argparse.Namespace, settings: Settings, console: Console
) -> int:
    from msgspec.structs import replace

    from harness.agents.registry import load
    from harness.cli import preferences
    from harness.cli.commands.run import carry_out as run
    from harness.cli.run_request import request_of
    from harness.clients.sessions.any_session import find_session, require_folder
    from harness.session.hand_over import carry_out, plan

    session = find_session(preferences.open_store(settings), arguments.id)
    agent = load(arguments.to)
    wanted_folder = arguments.cwd or session.cwd  # --dry-run also works for a directory that was deleted
    folder_of = wanted_folder if arguments.dry_run else require_folder(session, arguments.cwd)
    arguments.cwd = os.path.abspath(folder_of or os.getcwd())
    target = _target(session, agent, arguments, settings)
    events = (event for batch in session.current_batches() for event in batch)
    planned = plan(events, agent, target.version, arguments.form)
    _say_plan(planned, session, arguments.cwd, console)
    if arguments.dry_run:
        return 0
    request_options = run_arguments(arguments, agent.name, arguments.prompt or "-")
    request = replace(request_of(request_options, settings, console), prompt=arguments.prompt or "")
    outcome = carry_out(planned, folder, target, request)
    if outcome.failure:
        console.warning(f"{outcome.failure}; it gets a briefing instead")
    if arguments.prompt is None:
        return _print_next(outcome, agent, arguments.cwd)
    return run(outcome.request, request_options, settings, console)


def _target(session: AnySession, agent: Agent, arguments: argparse.Namespace, settings: Settings) -> Target:
    """Raises AgentNotFound."""
    from harness.clients.installed_agents import names_of
    from harness.contracts.history import current_home
    from harness.histories.handover.delivery import Target
    from harness.process.version_probe import probe_version
    from harness.runs.launch import find_binary, not_found

    binary = find_binary(agent, arguments.binary or settings.binary_for(names_of(agent)), os.environ)
    if not binary and agent.work is None:
        raise not_found(agent)
    return Target(
        at_ms=int(time.time() * 1000),
        source=session.name,
        cwd=arguments.cwd,
        home=current_home([arguments.cwd]),
        binary=binary,
        version=probe_version(binary, agent.version_args) if binary else "",
        model=arguments.model,
    )


def _say_plan(planned: HandoverPlan, session: AnySession, cwd: str, console: Console) -> None:
    from harness.session.hand_over import losses_of, workspace_of

    conversation = planned.conversation
    kinds = {"native": "a session of its own", "briefing": "a briefing before the prompt"}
    console.say(
        f"{session.name}: {len(conversation.turns)} messages, {len(conversation.calls)} calls of "
        f"{conversation.agent or session.agent} → {planned.agent.title} {planned.version}".rstrip()
    )
    console.say(f"as {kinds[planned.form]}: {planned.why}")
    for line in workspace_of(conversation, cwd):
        console.say(f"now:       {single_line(line)}")
    if count := session.rewound:
        console.say(
            f"not there: {count} {'prompt' if count == 1 else 'prompts'} that were taken back, and the answers"
        )
    for line in losses_of(planned):
        console.say(f"not there: {single_line(line)}")


def _print_next(outcome: HandedOver, agent: Agent, cwd: str) -> int:
    """How to continue: with Harness, and in the agent's own screen. A briefing is printed itself."""
    from harness.cli.run_request import quoted
    from harness.histories.handover.registry import load as load_writer

    if outcome.session is None:
        write_text(f"{outcome.request.briefing}\n")
        return 0
    writer = load_writer(agent.name)
    screen = (writer.resume_args if writer is not None else ()) or agent.screen_resume
    words = tuple(word.replace("{file}", outcome.session.file) for word in screen)
    command = screen_command(agent, outcome.session.session_id, cwd, words)
    lines = [command]
    if outcome.request.resume:
        lines.append(f"harness resume {agent.name}:{quoted(outcome.session.session_id)} PROMPT")
    write_text("\n".join(lines) + "\n")
    return 0


def _list(folder: HandoverFolder) -> int:
    for session in folder.all():
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.at_ms / 1000))
        write_text(
            single_line(f"{session.id}  {when}  {session.source} → {session.agent}:{session.session_id}")
            + "\n"
        )
    return 0


def _remove(folder: HandoverFolder, arguments: argparse.Namespace, console: Console) -> int:
    manifest = folder.find(arguments.remove)
    changed = folder.remove(manifest, is_forced=arguments.force)
    if changed and not arguments.force:
        raise UsageError(
            f"{manifest.agent} has continued this session since: {changed[0]}",
            hint="--force removes it with its new messages",
        )
    console.say(f"removed {manifest.id}: {number_of(len(manifest.files), 'file')}")
    others = {session.session_id for session in folder.all()}
    for line in _left_over(manifest, others):
        console.say(line)
    return 0


def _left_over(manifest: Manifest, others: Collection[str]) -> Iterator[str]:
    """The copies that its agent has made of the session and still has, and how each is removed.

    `others`: the sessions of other hand-overs.
    """
    from harness.agents.registry import load
    from harness.clients.sessions.histories import HistorySessions
    from harness.histories.catalogue_filter import SessionFilter
    from harness.histories.handover.delivery import session_folders
    from harness.histories.handover.registry import load as load_writer

    for folder in filter(os.path.isdir, session_folders(manifest)):
        yield f"{manifest.agent} has put files of its own beside them, which are still in {folder}"
    histories = HistorySessions()
    choice = SessionFilter(agent=manifest.agent, with_deleted=False)
    writer = load_writer(manifest.agent)
    removing = writer.removing if writer is not None else ()
    for session in histories.read(histories.sessions(choice)):
        is_copy = session.session_id == manifest.session_id or (
            manifest.note and manifest.note in session.prompt
        )
        if not is_copy or session.session_id in others:
            continue
        command = (
            screen_command(load(manifest.agent), session.session_id, arguments=removing) if removing else ""
        )
        hint = f"`{command}` deletes it" if command else f"it is in {session.path}"
        yield f"{manifest.agent} still has a copy of its own, session {session.session_id}: {hint}"
