"""The runs of a runner: each started once per key, and stopped when its lease ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from harness.contracts.request import OWN_AGENT, Limits, Permissions, Request
from harness.errors import UnknownSession, UsageError
from harness.events import Warning
from harness.log.ids import is_log_id
from harness.log.store import Store
from harness.runs.run import Run, start
from harness.server.access.responses import Conflict, NotFound

MOST_RUNS = 1_000
_LONGEST_LEASE_S = 24 * 3600.0


class NewRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    agent: str
    prompt: str
    key: str = ""
    """The client's own, for this run alone: it is started once, and this is its id."""
    lease_s: float | None = None
    """How long it may run without a follower or a request. None: without limit."""
    model: str = ""
    cwd: str = ""
    permissions: Permissions = "full-access"
    resume: str = ""
    system_prompt: str = ""
    append_system_prompt: str = ""
    extra_args: tuple[str, ...] = ()
    timeout_s: float | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None

    def request(self, cwd: str) -> Request:
        return Request(
            agent=self.agent,
            prompt=self.prompt,
            model=self.model,
            cwd=self.cwd or cwd,
            permissions=self.permissions,
            resume=self.resume,
            system_prompt=self.system_prompt,
            append_system_prompt=self.append_system_prompt,
            extra_args=self.extra_args,
            limits=Limits(
                timeout_s=self.timeout_s, max_turns=self.max_turns, max_budget_usd=self.max_budget_usd
            ),
        )


class KnownRun:
    """A run, and when it was last claimed. Contract: lives in one event loop."""

    def __init__(self, run: Run, lease_s: float | None) -> None:
        self.run = run
        self._lease_s = lease_s
        self._followers = 0
        self._taken_keys: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._claimed_s = self._loop.time()
        if lease_s is not None:
            self._loop.call_later(lease_s, self._check_lease)

    def claim(self) -> None:
        self._claimed_s = self._loop.time()

    @contextmanager
    def followed(self) -> Iterator[Run]:
        self._followers += 1
        try:
            yield self.run
        finally:
            self._followers -= 1
            self.claim()

    def is_new(self, key: str) -> bool:
        """Whether this key is new; it is recorded as used."""
        is_known = bool(key) and key in self._taken_keys
        self._taken_keys.add(key)
        return not is_known

    def forget(self, key: str) -> None:
        """The request was refused: its key may be used again."""
        self._taken_keys.discard(key)

    def _check_lease(self) -> None:
        if self.run.is_ended or self._lease_s is None:
            return
        if self._followers:
            self.claim()
        left_s = self._claimed_s + self._lease_s - self._loop.time()
        if left_s > 0:
            self._loop.call_later(left_s, self._check_lease)
            return
        message = f"no client has asked for this run for {self._lease_s:g} s: it is stopped"
        self.run.hub.source(self.run.id).append([Warning(message=message, code="unclaimed")])
        threading.Thread(target=self.run.cancel, daemon=True).start()


class KnownRuns:
    """Contract: lives in one event loop; `close` last."""

    def __init__(self, store: Store, cwd: str) -> None:
        self._store = store
        self._cwd = cwd
        self._runs: dict[str, KnownRun] = {}
        self._beginning: dict[str, asyncio.Lock] = {}

    async def start(self, new_run: NewRun) -> KnownRun:
        """The one of this key, if there is one. Raises UsageError and its kin, UnknownSession, Conflict."""
        if new_run.key and not is_log_id(new_run.key):
            raise UsageError(f"not a key: {new_run.key[:100]!r}", hint="1 to 128 letters, digits, - and _")
        if new_run.lease_s is not None and not 0 < new_run.lease_s <= _LONGEST_LEASE_S:
            raise UsageError(f"leaseS is above 0 and at most {_LONGEST_LEASE_S:g}")
        async with self._beginning.setdefault(new_run.key, asyncio.Lock()):
            known_run = self._runs.get(new_run.key)
            if known_run is None:
                known_run = await self._begin(new_run)
        self._beginning.pop(new_run.key, None)
        known_run.claim()
        return known_run

    async def _begin(self, new_run: NewRun) -> KnownRun:
        await asyncio.to_thread(self._check, new_run)
        request = new_run.request(self._cwd)
        run = await asyncio.to_thread(start, request, store=self._store, run_id=new_run.key)
        self._runs[run.id] = known_run = KnownRun(run, new_run.lease_s)
        ended_ids = (id for id, run_state in self._runs.items() if run_state.run.is_ended)
        while len(self._runs) > MOST_RUNS and (oldest := next(ended_ids, "")):
            self._runs.pop(oldest)
            ended_ids = (id for id, run_state in self._runs.items() if run_state.run.is_ended)
        return known_run

    def _check(self, new_run: NewRun) -> None:
        if new_run.key and self._is_recorded(new_run.key):
            raise Conflict(
                "this run was started before, and the runner no longer has it",
                hint="it ended with the runner that started it; start another one",
            )
        if new_run.resume and new_run.agent == OWN_AGENT:
            known_ids = ((session.session_id, session.agent_session_id) for session in self._store.list())
            if not any(new_run.resume in ids or ids[0].startswith(new_run.resume) for ids in known_ids):
                raise UnknownSession(
                    f"unknown session: {new_run.resume}", hint="this runner does not have it"
                )

    def _is_recorded(self, key: str) -> bool:
        try:
            self._store.metadata(key)
        except UnknownSession:
            return False
        return True

    def get(self, run_id: str) -> KnownRun:
        """Raises NotFound. Asking for a run also renews its lease."""
        known_run = self._runs.get(run_id)
        if known_run is None:
            raise NotFound("no such run", hint="runs are available as long as the runner is running")
        known_run.claim()
        return known_run

    @property
    def ids(self) -> list[str]:
        return list(self._runs)

    def close(self) -> None:
        for known_run in self._runs.values():
            known_run.run.cancel()
