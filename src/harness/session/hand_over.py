"""Hands a conversation over to another agent: as a session of its own where that was proven, else as a briefing.

`losses_of` names what cannot be handed over, `workspace_of` how the files have changed since.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.config import data_directory
from harness.contracts.agent import Agent
from harness.contracts.conversation import HandedConversation
from harness.contracts.history import Home
from harness.contracts.request import OWN_AGENT, Request
from harness.contracts.writer import Delivered, HandoverWriter, origin_note, with_origin
from harness.errors import UsageError
from harness.events import Briefed, Event
from harness.events.operation import Write
from harness.folds.handed_conversation import conversation_of
from harness.formatting.calls import short_path
from harness.histories.handover.budget import within_budget
from harness.histories.handover.delivery import HandoverFailed, HandoverFolder, Target, masked
from harness.histories.handover.registry import load as load_writer
from harness.log.redact.redactor import secrets_in
from harness.process.version_probe import parse_version, probe_version
from harness.runs.folder_trust import decide_use
from harness.runs.launch import find_binary
from harness.session.briefing import conversation_briefing
from harness.workspace.git_calls import GitCalls, GitFailed

HandoverForm: TypeAlias = Literal["native", "briefing"]
_MOST_FILES = 8
_ALL_THE_SAME = " (--as native does it all the same)"


class HandoverPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a conversation is going to be handed over."""

    agent: Agent
    conversation: HandedConversation
    form: HandoverForm
    why: str
    """Why in this form."""
    writer: HandoverWriter | None = None
    version: str = ""


class HandedOver(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    form: HandoverForm
    request: Request
    """Continues the conversation with its prompt."""
    session: Delivered | None = None
    """Of the target; None for a briefing."""
    failure: str = ""
    """Why it is a briefing after all."""


def plan(
    events: Iterable[Event], agent: Agent, version: str, wanted_form: str = "", *, is_held: bool = False
) -> HandoverPlan:
    """`wanted_form`: native, briefing, or empty for the best. `is_held`: the agent is held in a conversation.

    Raises UsageError.
    """
    conversation = masked(conversation_of(events), secrets_in(os.environ))
    if not conversation.turns:
        raise UsageError("nothing was said in this session, so there is nothing to hand over")
    writer = load_writer(agent.name)
    form, why = _form_of(agent, writer, version, wanted_form)
    if is_held and agent.name == OWN_AGENT:
        form, why = "native", "it reads the conversation itself"
    elif form == "native" and is_held and writer is not None and not writer.is_held:
        form, why = "briefing", f"a session of {agent.title} was not tried in a conversation that lasts"
    conversation = within_budget(conversation)
    return HandoverPlan(
        agent=agent, conversation=conversation, form=form, why=why, writer=writer, version=version
    )


def _form_of(
    agent: Agent, writer: HandoverWriter | None, version: str, wanted_form: str
) -> tuple[HandoverForm, str]:
    if wanted_form == "briefing":
        return "briefing", "it was asked for"
    if writer is None:
        if wanted_form == "native":
            raise UsageError(
                f"no conversation can be written as a session of {agent.title}",
                hint="leave out --as native: it gets a briefing",
            )
        return "briefing", f"no conversation can be written as a session of {agent.title}"
    if wanted_form == "native":
        return "native", "it was asked for"
    if not writer.is_proven(parse_version(version)):
        proven = ".".join(map(str, writer.proven))
        return "briefing", (
            f"{agent.title} {version or 'of an unknown version'} was not tried with this; {proven} was"
            f"{_ALL_THE_SAME}"
        )
    return "native", f"it was tried with {agent.title} {'.'.join(map(str, writer.proven[:2]))}"


def carry_out(planned: HandoverPlan, folder: HandoverFolder, target: Target, request: Request) -> HandedOver:
    """`request`: of the target, with the next prompt. What cannot be made as a session becomes a briefing."""
    failure = ""
    if planned.form == "native" and planned.writer is not None:
        try:
            target = _without_settings(planned, target, request)
            delivered = folder.deliver(planned.writer, with_origin(planned.conversation), target)
        except (HandoverFailed, UsageError) as error:
            failure = error.message
        else:
            return HandedOver(
                form="native", request=planned.writer.resumed(request, delivered), session=delivered
            )
    text, _dropped = conversation_briefing(planned.conversation)
    return HandedOver(form="briefing", request=replace(request, briefing=text), failure=failure)


def _without_settings(planned: HandoverPlan, target: Target, request: Request) -> Target:
    """The agent's own import starts what a folder brings, as a run would: without trust it is left out, whatever the run may
    do. Raises UsageError where it cannot be.
    """
    if planned.writer is None or not planned.writer.importing:
        return target
    read_only = replace(request, permissions="read-only")
    use = decide_use(planned.agent, read_only, target.cwd, target.home.environment)
    if use.settings != "none":
        return target
    return replace(target, env={**planned.agent.without_settings, **use.git}, wall=use.wall)


def hand_over_within(
    events: Iterable[Event], agent: Agent, request: Request, source: str, *, is_held: bool
) -> tuple[HandedOver, Briefed] | str:
    """Hand a conversation over to an agent that now takes part in it, as a session of its own; with the event that says
    so. A text: why it is to be briefed instead.
    """
    environment = {**os.environ, **request.env}
    binary = find_binary(agent, request.binary, environment)
    if not binary or load_writer(agent.name) is None:
        return ""
    version = probe_version(binary, agent.version_args)
    try:
        planned = plan(events, agent, version, is_held=is_held)
    except UsageError:
        return ""
    if planned.form != "native":
        return planned.why.removesuffix(_ALL_THE_SAME)
    target = Target(
        at_ms=time.time_ns() // 1_000_000,
        source=source,
        cwd=request.cwd or os.getcwd(),
        home=Home(environment.get("HOME", "") or os.path.expanduser("~"), environment, (request.cwd,)),
        binary=binary,
        version=version,
        model=request.model,
    )
    outcome = carry_out(planned, HandoverFolder(handover_directory()), target, request)
    if outcome.session is None:
        return outcome.failure
    note = origin_note(planned.conversation)
    return outcome, Briefed(
        agent=agent.name,
        session_id=outcome.session.session_id,
        text=note,
        form="native",
        why=planned.why,
        lost=list(losses_of(planned)),
        files=[outcome.session.file],
    )


def handover_directory() -> str:
    """Where the notes of all hand-overs of the user are."""
    return os.path.join(data_directory(), "hand-overs")


def losses_of(planned: HandoverPlan) -> Iterator[str]:
    """Yield, as text, what the target does not get."""
    losses = planned.conversation.losses
    if planned.form == "native" and planned.writer is None:
        yield "permissions and approvals, checkpoints, MCP servers, and processes that still run"
        return
    if planned.form == "briefing":
        yield "results of tools, but for the last ones and those of failures"
        if dropped := conversation_briefing(planned.conversation)[1]:
            yield f"{dropped} older messages"
    elif losses.shortened:
        yield f"{losses.shortened} long outputs are shortened"
    if losses.left_out:
        yield f"{losses.left_out} older messages"
    if losses.is_compacted:
        yield "what was said before the agent's last summary of it"
    if losses.files:
        yield f"{losses.files} images and files"
    if losses.sub_agents:
        yield f"what {losses.sub_agents} sub-agents said among themselves (their results stay)"
    if losses.no_result:
        yield f"the results of {losses.no_result} calls that were interrupted"
    if losses.masked:
        yield f"{losses.masked} secrets, which are masked"
    yield "reasoning, permissions and approvals, checkpoints, MCP servers, and processes that still run"
    yield "what it has cost so far, which stays with the session that it came from"


def workspace_of(conversation: HandedConversation, cwd: str) -> Iterator[str]:
    """The files are as they are now: what has changed of those that the session wrote, and which commit is there."""
    folders = dict.fromkeys(
        operation.path
        for call in conversation.calls
        if not call.has_failed
        for operation in call.operations
        if isinstance(operation, Write) and operation.success is not False
    )
    changed = [path for path in folders if _changed_after(path, conversation.ended_ms)]
    if folders:
        names = ", ".join(short_path(path, cwd) for path in changed[:_MOST_FILES])
        more = f" and {len(changed) - _MOST_FILES} more" if len(changed) > _MOST_FILES else ""
        state = (
            f"{len(changed)} changed or are gone since: {names}{more}"
            if changed
            else "none has changed since"
        )
        yield f"of {len(folders)} files that the session wrote, {state}"
    if cwd and not os.path.isdir(cwd):
        yield f"the directory of the session is gone: {cwd}"
    elif top := _repository(cwd):
        yield f"the repository is at {_commit(top)}{_since(top, conversation.ended_ms)}"


def _changed_after(path: str, at_ms: int) -> bool:
    try:
        return os.stat(path).st_mtime_ns // 1_000_000 > at_ms + 1_000
    except (OSError, ValueError):
        return True


def _repository(cwd: str) -> str:
    """The folder of the repository that a directory is in; empty if it is in none."""
    folder = cwd
    while folder and not os.path.isdir(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return folder


def _since(folder: str, ended_ms: int) -> str:
    """How many commits there are since, where git can say it."""
    try:
        count_text = (
            GitCalls(folder).ask("rev-list", "--count", f"--since={ended_ms // 1000}", "HEAD").strip()
        )
    except GitFailed:
        return ""
    count = int(count_text) if count_text.isdigit() else 0
    noun = "commit" if count == 1 else "commits"
    return f", {count} {noun} after the session" if count else ", with no commit after the session"


def _commit(folder: str) -> str:
    """Branch and commit, read from the files of the repository: none of its settings can start a program."""
    head = _first_line(os.path.join(folder, ".git", "HEAD"))
    if not head.startswith("ref: refs/heads/"):
        return head[:12]
    name = head.removeprefix("ref: ")
    commit = _first_line(os.path.join(folder, ".git", os.path.normpath(name))) if ".." not in name else ""
    return f"{name.removeprefix('refs/heads/')} {commit[:12]}".strip()


def _first_line(path: str) -> str:
    from harness.protocols.reading.store_files import first_line

    return first_line(path)
