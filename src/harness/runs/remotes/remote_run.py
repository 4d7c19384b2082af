"""A run in a sandbox runner, written into a log here as if it had happened here.

Rules
1. The log gets every event of the runner's log once, in order, with the runs' ids mapped to ours.
2. A connection that is cut off is opened again, and the stream resumed after the last event that was written.
   The request that starts the run is repeated as well: the run's id there is chosen here, so it starts only
   once.
3. A runner that stays away, or has forgotten the run, ends the run: it failed. What still runs there ends by
   itself when it has not been claimed for a while.
4. In a conversation the agent there continues its own session of it, where it has one in this runner; else it
   gets a briefing of the conversation so far.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from harness.contracts.model import AssistantTurn, ToolTurn, Turn, UserTurn
from harness.contracts.worker import OnEnd
from harness.conversation.history import history
from harness.errors import HarnessError, UsageError
from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    Warning,
)
from harness.log.codec import UNREADABLE, decode
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import read_all
from harness.questions.open_questions import OpenRelays
from harness.runs.launch import Launch
from harness.runs.remotes.places import RemotePlace, find, read_token, without_secrets
from harness.runs.remotes.runner_client import (
    BROKEN,
    CommandSender,
    RunnerClient,
    RunnerRefused,
    ServerEvent,
    Unreachable,
)

_MOST_CHARACTERS = 60_000
_MOST_OF_A_RESULT = 2_000
_OPENING = (
    "This conversation went on elsewhere, and you have not seen that. What was said and done there, in order"
    " (long results are shortened):"
)


class RemoteMemory(NamedTuple):
    session_id: str = ""
    """The session to continue."""
    briefing: str = ""
    """A briefing besides, of what that session has not seen."""
    full_briefing: Callable[[], str] = str

    def as_briefing(self) -> RemoteMemory:
        """The same for a runner that does not know the session any more."""
        return RemoteMemory(briefing=self.full_briefing())


def remembered(launch: Launch, hub: Hub, place: RemotePlace) -> RemoteMemory:
    """A run with a log of its own continues the session it was asked to. In a thread, that session may belong
    to another runner, or to another agent there.
    """
    resume = launch.request.resume
    if not launch.run_id or not resume:
        return RemoteMemory(session_id=resume)

    def briefing_since(cursor: int = 0) -> str:
        return briefing(history(read_all(hub.store, hub.log_id, cursor)).turns)

    session_id, unseen_from = "", 0
    for event in read_all(hub.store, hub.log_id):
        if not isinstance(event, SessionStart) or event.parent_id or not event.runner:
            continue
        if (event.runner, event.agent) == (place.name, place.agent):
            session_id, unseen_from = event.session_id, -1
        elif unseen_from < 0:
            unseen_from = event.seq
    if not session_id:
        return RemoteMemory(briefing=briefing_since())
    return RemoteMemory(session_id, briefing_since(unseen_from) if unseen_from >= 0 else "", briefing_since)


def briefing(turns: list[Turn]) -> str:
    """Empty for an empty conversation; only its end where it is too long."""
    parts = [part for turn in turns if (part := _text_of(turn))]
    briefing_lines, size = list[str](), 0
    for part in reversed(parts):
        size += len(part)
        if size > _MOST_CHARACTERS:
            briefing_lines.append(
                f"[{len(parts) - len(briefing_lines)} earlier messages and results are left out]"
            )
            break
        briefing_lines.append(part)
    return "\n\n".join([_OPENING, *reversed(briefing_lines)]) if briefing_lines else ""


def _text_of(turn: Turn) -> str:
    match turn:
        case UserTurn():
            files = [
                f"[attached: {attachment.name or attachment.media_type}]" for attachment in turn.attachments
            ]
            return "\n".join([f"User: {turn.text}", *files])
        case AssistantTurn():
            calls = [f"[called {call.name}: {str(call.input)[:_MOST_OF_A_RESULT]}]" for call in turn.calls]
            return "\n".join(filter(None, [f"Agent: {turn.text}" if turn.text else "", *calls]))
        case ToolTurn():
            return f"[result: {turn.text[:_MOST_OF_A_RESULT]}]"
        case _:
            return ""


_TIMEOUT_S = 60.0
"""How long a runner may be away."""
_STOPPED_TIMEOUT_S = 10.0
_LEASE_S = 120.0
"""How long what runs there continues without us. Longer than we try to reconnect."""
_LAST_COMMANDS_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_UNKNOWN = 404


class RemoteRun:
    """A `Worker`, steerable and answerable as far as the agent there is."""

    def __init__(self, launch: Launch, hub: Hub, on_end: OnEnd, place: RemotePlace) -> None:
        self.result: Result | None = None
        self.is_steerable = False
        self._launch = launch
        self._hub = hub
        self._on_end = on_end
        self._place = place
        self._client = RunnerClient(place.url, place.token)
        self._run_id = launch.run_id or hub.log_id
        self._source = hub.source(self._run_id)
        self._remote_id = new_run_id(hub.clock())
        self._sender = CommandSender(self._client, self._remote_id)
        self._last = 0
        self._session: SessionStart | None = None
        self._waiting: OpenRelays[None] = OpenRelays()
        """What waits for an answer there."""
        self._stopped = threading.Event()

    def work(self) -> None:
        for warning in self._launch.warnings:
            self._put([Warning(message=warning, code="unsupported_option")])
        try:
            self._begin()
            self._follow()
        except (HarnessError, msgspec.DecodeError, *BROKEN) as error:
            self._give_up(error)
        self._sender.close()
        if self.result is not None:
            self._on_end(self.result, self._session)

    def stop(self) -> None:
        self._stopped.set()
        self._sender.put("cancel")

    def steer(self, text: str, message_id: str = "") -> None:
        del message_id  # the run in the runner has messages of its own
        if not self.is_steerable or self.result is not None:
            raise UsageError(
                f"{self._place.agent} in the runner accepts no message now",
                hint="send it when the run has ended",
            )
        self._sender.put("steer", message=text)

    def reply(self, reply: RelayReply) -> bool:
        if self._waiting.take(reply) is None:
            return False
        self._sender.put(
            "reply",
            relayId=reply.id,
            approved=reply.approved,
            always=reply.always,
            answer=reply.answer,
            reason=reply.reason,
            choice=reply.choice,
        )
        return True

    def _begin(self) -> None:
        memory = remembered(self._launch, self._hub, self._place)
        try:
            self._ask_to_begin(memory)
        except RunnerRefused as refused:
            if refused.status != _UNKNOWN or not memory.session_id:
                raise
            self._ask_to_begin(memory.as_briefing())  # the runner is another one than it was

    def _ask_to_begin(self, memory: RemoteMemory) -> None:
        """Until it is known to have started. Where nothing ever arrived, it is not tried again."""
        if self._stopped.is_set():
            raise HarnessError("the run was stopped before it began")
        run_order = self._wanted(memory)
        until_s, pause_s, may_have_begun = time.monotonic() + _TIMEOUT_S, _FIRST_PAUSE_S, False
        while True:
            try:
                started_run = self._client.start(run_order)
                break
            except BROKEN as error:
                may_have_begun = may_have_begun or not isinstance(error, Unreachable)
                if not may_have_begun or self._stopped.is_set() or time.monotonic() > until_s:
                    raise
            self._stopped.wait(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        self._source.run_ids[started_run.run_id] = self._run_id
        if started_run.run_id != self._remote_id:  # a runner that knows no keys
            self._remote_id = started_run.run_id
            self._sender = CommandSender(self._client, started_run.run_id)
        if self._stopped.is_set():
            self._sender.put("cancel")  # it may have come before the run was known there
        self.is_steerable = started_run.is_steerable

    def _follow(self) -> None:
        last_event_s, pause_s = time.monotonic(), _FIRST_PAUSE_S
        while not self._has_ended():
            try:
                for message in self._client.events(self._remote_id, self._last):
                    self._take(message)
                    last_event_s, pause_s = time.monotonic(), _FIRST_PAUSE_S
            except BROKEN:
                pass  # it is tried again below
            if self._has_ended():
                return
            timeout_s = _STOPPED_TIMEOUT_S if self._stopped.is_set() else _TIMEOUT_S
            if time.monotonic() - last_event_s > timeout_s:
                raise HarnessError(
                    f"the runner has not answered for {timeout_s:g} s",
                    hint=f"what runs there ends when no client has asked for it for {_LEASE_S:g} s",
                )
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _has_ended(self) -> bool:
        return self.result is not None

    def _take(self, received: ServerEvent) -> None:
        if received.id <= self._last:
            return  # it was sent twice
        for value in received.data.get("events", ()):
            try:
                event = decode(msgspec.json.encode(value))
            except UNREADABLE:
                continue
            known_ids = self._source.run_ids
            known_ids.setdefault(event.run_id, event.run_id)
            is_ours = known_ids[event.run_id] == self._run_id
            if is_ours and isinstance(event, SessionStart):
                event = replace(event, runner=self._place.name)
            elif is_ours and isinstance(event, Result):
                self._note_untaken(event.timestamp_ms)
            self._put([event], event.timestamp_ms)
        self._last = received.id

    def _note_untaken(self, at_ms: int) -> None:
        """The run has ended: report the messages that came too late."""
        self.is_steerable = False
        for command in self._sender.drain(_LAST_COMMANDS_S):
            if command.action == "steer":
                message = f"the run had ended before it took this: {command.body['message']}"
                self._put([Warning(message=message, code="not_taken")], at_ms)

    def _put(self, events: list[Event], at_ms: int | None = None) -> None:
        for event in self._source.append(events, at_ms):
            if isinstance(event, SessionStart) and self._session is None:
                self._session = event
            elif isinstance(event, Relay):
                self._waiting.add(event, None)
            elif isinstance(event, RelayReply):
                self._waiting.withdraw(event.id)
            elif isinstance(event, Result) and event.run_id == self._run_id:
                self.result = event

    def _give_up(self, error: Exception) -> None:
        """The run could not begin there, or is lost."""
        message = error.words if isinstance(error, HarnessError) else self._unreached(error)
        outcome: Outcome = "failed"
        if self._session is None:
            request, place = self._launch.request, self._place
            start = SessionStart(agent=place.agent, model=request.model, cwd=place.cwd, runner=place.name)
            self._put([start, Message(role="user", text=request.prompt)])
            outcome = "spawn_failed"
        self._note_untaken(self._hub.clock())
        outcome = "interrupted" if self._stopped.is_set() else outcome
        self._put([Error(message=message, code="runner"), Result(success=False, outcome=outcome)])

    def _unreached(self, error: Exception) -> str:
        hint = "is `harness runner` running there, and its port forwarded?"
        return f"the runner at {self._place.url} cannot be reached: {error}; {hint}"

    def _wanted(self, memory: RemoteMemory) -> dict[str, Any]:
        request, place = self._launch.request, self._place
        appended = "\n\n".join(filter(None, (request.append_system_prompt, memory.briefing)))
        run_fields = {
            "agent": place.agent,
            "prompt": request.prompt,
            "key": self._remote_id,
            "leaseS": _LEASE_S,
            "model": request.model,
            "cwd": place.cwd,
            "permissions": request.permissions,
            "resume": memory.session_id,
            "systemPrompt": request.system_prompt,
            "appendSystemPrompt": appended,
            "timeoutS": request.limits.timeout_s,
            "maxTurns": request.limits.max_turns,
            "maxBudgetUsd": request.limits.max_budget_usd,
        }
        return {name: value for name, value in run_fields.items() if value not in ("", None)}


_OPTIONS = ("--runner", "--agent", "--cwd", "--token-file")


def start(launch: Launch, hub: Hub, on_end: OnEnd, redact: bool) -> RemoteRun:
    """The worker of a run. Raises UsageError when the address of the runner is not given."""
    del redact  # the runner has masked what it sends
    return RemoteRun(launch, hub, on_end, place_of(launch))


def place_of(launch: Launch) -> RemotePlace:
    """By an address or a name after `--`, else as the user has set it."""
    arguments, environ = parse(launch.request.extra_args), launch.invocation.env
    place_name = arguments.get("--runner", "")
    if "://" in place_name:
        token = environ.get("HARNESS_RUNNER_TOKEN", "")
        place = RemotePlace(name=without_secrets(place_name), url=place_name, token=token)
        place = replace(place, agent=environ.get("HARNESS_RUNNER_AGENT", "") or place.agent)
    else:
        place = find(place_name, environ, launch.request.cwd)
    if token_file := arguments.get("--token-file", ""):
        place = replace(place, token=read_token(token_file))
    return replace(
        place, agent=arguments.get("--agent", "") or place.agent, cwd=arguments.get("--cwd", "") or place.cwd
    )


def parse(arguments: Sequence[str]) -> dict[str, str]:
    """Raises UsageError for what means nothing here."""
    values: dict[str, str] = {}
    rest = iter(arguments)
    for word in rest:
        name, sign, value = word.partition("=")
        if name not in _OPTIONS:
            raise UsageError(
                f"unknown option after --: {word}", hint=f"expected one of: {', '.join(_OPTIONS)}"
            )
        values[name] = value if sign else next(rest, "")
        if not values[name]:
            raise UsageError(f"{name} needs a value")
    return values
