"""Run a recorded session again: the agent works anew, and its model's answers come from the recording.

Nothing is asked of a provider, so that it costs nothing. With --at N the first N answers come from the recording, and then a
model answers: another one (--model), or the provider again (--live). `harness sessions replay` only shows a session again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.cli.console import Console, can_answer
from harness.cli.parser import EXIT_CODES, completes, count_or_zero, seconds
from harness.errors import UsageError
from harness.events import Error, ModelCall
from harness.formatting.escapes import single_line

if TYPE_CHECKING:
    from harness.contracts.request import Request
    from harness.runs.replay_request import RecordedRun
    from harness.runs.run import Run

SUMMARY = "run a recorded session again, offline, or continue it from a step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from harness.clients.formats import help_text

    parser.epilog = EXIT_CODES
    add = parser.add_argument
    what = "a session that was run with --gateway (an id, the beginning of one, or `last`), or a tape"
    completes(add("id", metavar="ID|FILE", help=what), "sessions")
    add("--at", type=count_or_zero, metavar="N", help="after N answers from the recording, ask a model")
    add("-m", "--model", default="", metavar="NAME", help="with --at: the model that answers then")
    add("--live", action="store_true", help="with --at: the recorded provider and model answer then")
    add("-p", "--prompt", metavar="TEXT", help="another prompt than the recorded one")
    add("-d", "--cwd", default="", metavar="DIR", help="another folder than the recorded one")
    add("--strict", action="store_true", help="end at the first difference from the recording; for CI")
    add("--no-seal", action="store_true", help="let the agent reach more than the recording")
    add("-y", "--yes", action="store_true", help="do not ask before a tape is played without a seal")
    add("--pace", action="store_true", help="keep the pauses of the recording")
    add("--binary", default="", metavar="PATH", help="the agent's program, if not the one on PATH")
    add("--timeout", type=seconds, metavar="SECONDS", help="for the whole run; for example 90, 90s, 5m or 2h")
    completes(add("-f", "--format", "--output", default="", metavar="FORMAT", help=help_text()), "formats")
    add("-o", "--output-file", default="", metavar="FILE", help="also write the output to this file")
    parser.set_defaults(
        usage=False, reasoning=False, content=False, otlp="", dry_run=False, record="", no_redact=False
    )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from msgspec.structs import replace

    from harness.cli import preferences
    from harness.cli.commands.run import carry_out
    from harness.clients import exit_codes
    from harness.runs.program_conversation import ProgramConversation

    settings = preferences.load(console, has_verbose=arguments.verbose)
    settings.require_valid()
    store = preferences.open_store(settings)
    recording = _recorded(arguments.id, store)
    request = _request(arguments, recording)
    _announce(recording, request, console)
    if recording.is_foreign and not request.sealed and not _is_trusted(recording, arguments, console):
        return 1
    runs: list[Run] = []
    conversation = ProgramConversation() if len(recording.prompts) > 1 else None
    code = 0
    try:
        for prompt in (request.prompt, *recording.prompts[1:]):
            message = replace(request, prompt=prompt)
            code = carry_out(
                message,
                arguments,
                settings,
                console,
                on_end=runs.append,
                conversation=conversation,
                follows=bool(runs),
            )
            if code == exit_codes.READER_GONE or not runs or _is_over(runs[-1]):
                break
    finally:
        if conversation is not None:
            conversation.close()
    _report(runs, recording, console)
    return code


def _is_over(run: Run) -> bool:
    """Whether no further message of the recording follows: it parted, was stopped, or a model has answered."""
    if run.wait().outcome == "interrupted":
        return True
    return any(
        event.code.startswith("replay_") if isinstance(event, Error) else event.origin != "recording"
        for event in run
        if isinstance(event, Error | ModelCall)
    )


def _is_trusted(recording: RecordedRun, arguments: argparse.Namespace, console: Console) -> bool:
    """A tape says which commands are run. Raises UsageError where nobody can be asked."""
    if arguments.yes:
        return True
    if not can_answer():
        raise UsageError(
            f"{recording.source} may run any command here, since nothing seals it, and nobody can be asked",
            hint="leave out --no-seal, or add --yes if you know who made the tape",
        )
    console.put("Its answers say which commands are run, and nothing seals them. Play it? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _recorded(text: str, store: object) -> RecordedRun:
    """Raises UsageError, UnknownSession."""
    from harness.clients.sessions.ids import find_ours, unknown
    from harness.log.stores.files import FileStore
    from harness.runs.replay_request import recorded_run, recorded_tape

    assert isinstance(store, FileStore)
    if os.sep in text or text.endswith(".tape"):
        return recorded_tape(text)
    log_id = find_ours(store, text)
    if log_id is None:
        raise unknown(store, text)
    return recorded_run(store, log_id)


def _request(arguments: argparse.Namespace, recording: RecordedRun) -> Request:
    from msgspec.structs import replace

    from harness.contracts.request import GatewayOptions, Limits
    from harness.runs.replay_request import replay_request

    is_forked = arguments.at is not None
    if is_forked and not (arguments.model or arguments.live):
        raise UsageError("--at needs to know who answers then", hint="add --model PROVIDER/NAME, or --live")
    if not is_forked and (arguments.model or arguments.live):
        raise UsageError(
            "--model and --live say who answers after a step", hint="say after which with --at N"
        )
    if arguments.model and arguments.live:
        raise UsageError("--model and --live contradict each other", hint="give one of them")
    options = GatewayOptions(fork_at=arguments.at, is_strict=arguments.strict, keeps_pace=arguments.pace)
    request = replay_request(
        recording,
        cwd=arguments.cwd,
        prompt=arguments.prompt,
        model=arguments.model,
        options=options,
        limits=Limits(timeout_s=arguments.timeout),
    )
    if is_forked and request.on_ask == "deny" and can_answer():
        request = replace(request, on_ask="wait")  # what the recording does not answer, a person does
    return replace(request, binary=arguments.binary, sealed="" if arguments.no_seal else "write")


def _announce(recording: RecordedRun, request: Request, console: Console) -> None:
    from harness.agents.registry import load
    from harness.formatting.amounts import age
    from harness.log.clock import new_clock
    from harness.runs.gateway_plan import commit_of
    from harness.runs.launch import installed_version

    start = recording.start
    gateway = start.gateway
    commit = gateway.commit if gateway is not None else ""
    when = age(max(0, new_clock()() - start.at_ms))
    at = f" at commit {commit[:7]}" if commit else ""
    cost = "No network, no tokens." if request.gateway and request.gateway.fork_at is None else ""
    program = " ".join(filter(None, (start.agent, start.version)))
    calls = f"{recording.calls} calls"
    if len(recording.prompts) > 1:
        calls = f"{_messages(len(recording.prompts))}, {calls}"
    console.say(
        f"Replaying {recording.source[:12]} ({program}, {calls}, recorded {when} ago{at}). {cost}".rstrip()
    )
    if recording.damaged:
        console.warning(f"{recording.damaged} lines of the tape are damaged: these calls are missing")
    if recording.is_masked:
        console.warning("secrets were masked in the recording: where they matter, it may part from it")
    version = installed_version(load(start.agent), request.binary)
    if start.version and version and version != start.version:
        console.warning(f"{start.agent} is {version} here, and was {start.version}: it may ask differently")
    here = commit_of(request.cwd) if os.path.isdir(request.cwd) else ""
    if commit and here and commit != here:
        console.warning(
            f"the workspace is not as recorded: HEAD is {here[:7]}, and was {commit[:7]}. Outputs may differ."
        )


def _report(runs: Sequence[Run], recording: RecordedRun, console: Console) -> None:
    """What a replay showed: how far the recording went, and what was another than in it."""
    if not runs:
        return
    calls = [event for run in runs for event in run if isinstance(event, ModelCall)]
    played = [call for call in calls if call.origin == "recording"]
    model_calls = [call for call in calls if call.origin in ("provider", "translated")]
    has_ended = len(runs) == len(recording.prompts) and runs[-1].wait().outcome == "completed"
    extent = "to its end" if has_ended else "until the run ended"
    then = f", {len(model_calls)} by the model" if model_calls else ""
    console.say(f"Played {extent}: {len(played)} of {recording.calls} calls from the recording{then}.")
    if recording.unplayed:
        console.warning(
            f"{_messages(recording.unplayed)} of the session followed, which were not held in the same conversation, or came "
            "after the agent was killed: they were not played"
        )
    differences = [(call.step, what) for call in calls for what in call.differs]
    if differences:
        console.say(f"{len(differences)} difference{'s' if len(differences) > 1 else ''} from the recording:")
    for step, what in differences:
        console.say(f"  step {step}  {single_line(what)}")


def _messages(count: int) -> str:
    return f"{count} message{'s' if count > 1 else ''}"
