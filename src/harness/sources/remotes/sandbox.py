"""A run in a sandbox runner, written into a log here as if it had happened here.

Rules
1. The log gets every event of the runner's log once, in order, with the runs' ids mapped to ours.
2. A connection that is cut off is made again, and the stream taken up after the last event that was written.
3. A runner that stays away, or has forgotten the run, ends the run: it failed.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from harness.errors import HarnessError
from harness.events import Error, Event, Message, RelayReply, Result, SessionStart, Warning
from harness.log.codec import UNREADABLE, decode
from harness.log.hub import Hub
from harness.sources.launch import Launch
from harness.sources.remotes.runner_client import BROKEN, RunnerClient, Told
from harness.sources.worker import OnEnd

if TYPE_CHECKING:
    from harness.sources.request import Request

_PATIENCE_S = 60.0
"""How long a runner may be away."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0


class RemoteRun:
    """A `Worker`, steerable and answerable as far as the agent there is."""

    def __init__(
        self, launch: Launch, hub: Hub, on_end: OnEnd, client: RunnerClient, agent: str, cwd: str
    ) -> None:
        self.result: Result | None = None
        self._launch = launch
        self._hub = hub
        self._on_end = on_end
        self._client = client
        self._agent = agent
        self._cwd = cwd
        self._run_id = launch.run_id or hub.log_id
        self._source = hub.source(self._run_id)
        self._remote_id = ""
        self._last = 0
        self._session: SessionStart | None = None
        self._stopped = threading.Event()

    def work(self) -> None:
        for warning in self._launch.warnings:
            self._put([Warning(message=warning, code="unsupported_option")])
        try:
            self._remote_id = self._client.start(self._wanted())
            self._source.run_ids[self._remote_id] = self._run_id
            self._follow()
        except (HarnessError, msgspec.DecodeError, *BROKEN) as error:
            self._give_up(error)
        if self.result is not None:
            self._on_end(self.result, self._session)

    def stop(self) -> None:
        self._stopped.set()
        if self._remote_id:
            self._tell("cancel", {})

    def steer(self, text: str) -> None:
        self._tell("steer", {"message": text})

    def reply(self, reply: RelayReply) -> bool:
        return self._tell(
            "reply",
            {
                "relayId": reply.id,
                "approved": reply.approved,
                "always": reply.always,
                "answer": reply.answer,
                "reason": reply.reason,
            },
        )

    def _tell(self, action: str, body: dict[str, Any]) -> bool:
        try:
            return bool(self._remote_id) and self._client.tell(self._remote_id, action, body)
        except BROKEN:
            return False

    def _follow(self) -> None:
        heard_s, pause_s = time.monotonic(), _FIRST_PAUSE_S
        while not self._has_ended():
            try:
                for told in self._client.events(self._remote_id, self._last):
                    self._take(told)
                    heard_s, pause_s = time.monotonic(), _FIRST_PAUSE_S
            except BROKEN:
                pass  # it is tried again below
            if self._has_ended():
                return
            if time.monotonic() - heard_s > _PATIENCE_S:
                raise HarnessError(f"the runner has not answered for {_PATIENCE_S:g} s")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            if self._stopped.is_set():
                self._tell("cancel", {})

    def _has_ended(self) -> bool:
        return self.result is not None

    def _take(self, told: Told) -> None:
        if told.id <= self._last:
            return  # it was told twice
        events: list[Event] = []
        for value in told.data.get("events", ()):
            try:
                events.append(decode(msgspec.json.encode(value)))
            except UNREADABLE:
                continue
        for event in events:
            known = self._source.run_ids
            known.setdefault(event.run_id, event.run_id)
            parts = replace(event, session_id=known.get(event.session_id, event.session_id))
            self._put([parts], event.timestamp_ms)
        self._last = told.id

    def _put(self, events: list[Event], at_ms: int | None = None) -> None:
        for event in self._source.append(events, at_ms):
            if isinstance(event, SessionStart) and self._session is None:
                self._session = event
            elif isinstance(event, Result) and event.run_id == self._run_id:
                self.result = event

    def _give_up(self, error: Exception) -> None:
        """The run could not begin there, or is lost."""
        message = (
            error.message if isinstance(error, HarnessError) else f"the runner cannot be reached: {error}"
        )
        events: list[Event] = []
        if self._session is None:
            request = self._launch.request
            events.append(SessionStart(agent=self._agent, model=request.model, cwd=self._cwd))
            events.append(Message(role="user", text=request.prompt))
        outcome = "interrupted" if self._stopped.is_set() else "failed" if self._session else "spawn_failed"
        events += [Error(message=message, code="runner"), Result(success=False, outcome=outcome)]  # type: ignore[arg-type]
        self._put(events)

    def _wanted(self) -> dict[str, Any]:
        request: Request = self._launch.request
        wanted = {
            "agent": self._agent,
            "prompt": request.prompt,
            "model": request.model,
            "cwd": self._cwd,
            "permissions": request.permissions,
            "resume": request.resume,
            "systemPrompt": request.system_prompt,
            "appendSystemPrompt": request.append_system_prompt,
            "timeoutS": request.limits.timeout_s,
            "maxTurns": request.limits.max_turns,
            "maxBudgetUsd": request.limits.max_budget_usd,
        }
        return {name: value for name, value in wanted.items() if value not in ("", None)}
