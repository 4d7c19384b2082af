"""What the tools of `harness mcp` do: begin, wait, answer and hand over; list, show and find sessions."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from harness.clients.acp.host import AcpHost, OpenedSession
from harness.clients.acp.wire import INVALID_PARAMETERS, RpcError
from harness.clients.commands import Approve, Configuration, Configure, Submit
from harness.clients.mcp.agent_runs import DelegatedRun
from harness.clients.mcp.limits import CallLimits, Reach
from harness.errors import AlreadyAnswered, HarnessError, UnknownSession, UsageError
from harness.events import Relay, Result
from harness.formatting.json_text import compact
from harness.log.store import read_batches
from harness.log.stores.files import FileStore
from harness.stage import ViewOptions
from harness.views import markdown

_LOOKS, _LOOK_S = 100, 0.02
_LONGEST_WAIT_S = 50.0
"""Clients give up after a minute."""
_USUAL_WAIT_S = 45.0
_MOST_RUNS = 32
_MOST_LISTED, _MOST_PASSAGES = 200, 50
_SHOWN, _MOST_SHOWN = 20_000, 200_000
Fields = dict[str, Any]


class AgentTools:
    """Contract: lives in one event loop. Every method raises HarnessError in words that a model understands."""

    def __init__(self, host: AcpHost, limits: CallLimits, reach: Reach) -> None:
        self._host, self._limits, self._reach = host, limits, reach
        self._runs: dict[str, DelegatedRun] = {}

    async def close(self) -> None:
        for run in self._runs.values():
            if not run.is_over:
                await run.stop()
                await run.wait(5.0)
            run.close()
        self._limits.close()

    async def known(self, session: str) -> DelegatedRun:
        """A run of this server, or of one before it: clients start their servers again. Raises HarnessError."""
        if (run := self._runs.get(session)) is not None:
            return run
        session_found = await self._found(session)
        if session_found.metadata.kind != "thread":
            raise UnknownSession(
                f"no session {session[:80]!r} was started here", hint="run_agent with `session` continues it"
            )
        await self._check_session(session_found, self._host.default.cwd)
        await self._host.revive(session_found)
        run = self._run(session_found.log_id, None)
        run.check_alive()
        return run

    def _run(self, log_id: str, budget: float | None) -> DelegatedRun:
        if log_id not in self._runs:
            self._runs[log_id] = DelegatedRun(self._host, log_id, budget, self._limits)
        return self._runs[log_id]

    async def _found(self, session: str) -> OpenedSession:
        """Raises UnknownSession."""
        try:
            return await self._host.open(session)
        except RpcError as error:
            raise UnknownSession(str(error)) from error

    async def call(self, name: str, arguments: Fields) -> Fields:
        if name == "start_agent":
            return (await self.begin(name, arguments)).as_result()
        if name == "wait_agent":
            run = await self.known(text_of(arguments, "session"))
            seconds = number_of(arguments, "seconds")
            await run.wait(_USUAL_WAIT_S if seconds is None else min(seconds, _LONGEST_WAIT_S))
            return run.as_result()
        if name == "answer":
            run = await self.known(text_of(arguments, "session"))
            answer = text_of(arguments, "answer")
            if not run.questions:
                raise UsageError("this session asks nothing now", hint="wait_agent says how far it is")
            relay = next(iter(run.questions.values()))
            self._check_answer(run, relay, answer)
            await self.answer(run, relay, answer)
            await run.wait(_USUAL_WAIT_S)
            return run.as_result()
        if name == "list_sessions":
            return await self._list(arguments)
        if name == "show_session":
            return await self._show(arguments)
        return await asyncio.to_thread(self._recall, arguments)

    async def begin(self, name: str, arguments: Fields) -> DelegatedRun:
        """Start a turn: in a new session, or in one that is continued."""
        prompt = text_of(arguments, "prompt", most=1_000_000)
        budget = self._limits.admit(number_of(arguments, "max_budget_usd"))
        if len(self._runs) >= _MOST_RUNS:
            self._forget_old()
        run = await self._opened(arguments, budget)
        await self._check_idle(run)
        if name == "hand_over":
            agent = text_of(arguments, "agent")
            await self._host.carry_out(run.id, Configure(config=Configuration(agent=agent)))
        run.begin_turn(budget)
        try:
            await self._host.carry_out(run.id, Submit(prompt=prompt))
        except HarnessError:
            run.result = Result(success=False, outcome="failed")  # no run will end
            raise
        return run

    async def _check_idle(self, run: DelegatedRun) -> None:
        """Raises UsageError. A run that has said its last word takes a moment to be over."""
        for _ in range(_LOOKS if run.is_over else 1):
            if run.questions:
                raise UsageError(
                    "this session waits for an answer", hint="answer it first, with the tool `answer`"
                )
            if not self._host.backend.status(run.id).is_running:
                return
            await asyncio.sleep(_LOOK_S)
        raise UsageError(
            "this session is being worked on", hint="wait_agent waits until it has ended its turn"
        )

    async def _opened(self, arguments: Fields, budget: float | None) -> DelegatedRun:
        session = arguments.get("session")
        cwd = arguments.get("cwd") or self._host.default.cwd or os.getcwd()
        if not isinstance(cwd, str) or not cwd.startswith("/"):
            raise UsageError("cwd must be an absolute path")
        if session:
            session_found = await self._found(str(session)[:200])
            await self._check_session(session_found, cwd)
            if session in self._runs:
                return self._runs[session]
            log_id = await self._host.continued(session_found, cwd)
        else:
            agent, model = (str(arguments.get(name) or "")[:200] for name in ("agent", "model"))
            default = self._host.default
            if agent and agent != default.agent:
                default = replace(default, agent=agent, model="")
            setup = replace(default, cwd=cwd, model=model or default.model)
            self._reach.check(setup)
            log_id = self._host.opened(await self._host.backend.create(setup))
        return self._run(log_id, budget)

    async def _check_session(self, session: OpenedSession, cwd: str) -> None:
        """Raises UsageError for one that is a person's at this moment, or that reaches further than this server."""
        setup = self._host.setup(session)
        self._reach.check(replace(setup, cwd=session.metadata.cwd or cwd))
        is_ours = self._host.backend.hub(session.log_id) is not None
        if (
            not is_ours
            and session.log_id
            and await asyncio.to_thread(self._host.store.is_live, session.log_id)
        ):
            raise UsageError(
                "this session is open in another program",
                hint="what is to be done there its user decides; begin a new session",
            )

    def _forget_old(self) -> None:
        for session in [session_id for session_id, run in self._runs.items() if run.is_over][
            : _MOST_RUNS // 2
        ]:
            self._runs.pop(session).close()
        if len(self._runs) >= _MOST_RUNS:
            raise UsageError(f"{_MOST_RUNS} agents are at work already", hint="wait for some of them first")

    async def answer(self, run: DelegatedRun, relay: Relay, answer: Any) -> None:
        """The first answer counts; a later one is none. Raises UsageError for what is no answer to it."""
        with suppress(AlreadyAnswered):
            await self._host.carry_out(run.id, run.answer(relay, answer))
            await run.wait_for_answer(relay.id)

    def _check_answer(self, run: DelegatedRun, relay: Relay, answer: str) -> None:
        """Raises UsageError for what only a person allows: all of it, or what would be allowed from now on."""
        command = run.answer(relay, answer)
        if not isinstance(command, Approve):
            return
        if not self._reach.lets_agents_allow:
            raise UsageError(
                "only a person can allow this",
                hint=f"ask your user to answer it (`harness attach {run.id}`), then wait_agent; or answer no",
            )
        if command.always:
            raise UsageError(
                "only a person can allow something always",
                hint="answer with the option for this once, or ask your user",
            )

    async def _list(self, arguments: Fields) -> Fields:
        limit = whole_of(arguments, "limit", 20, _MOST_LISTED)
        cwd = arguments.get("cwd")
        rows: list[Fields] = []
        start: int | None = 0
        while start is not None and len(rows) < limit:
            page, start = await self._host.rows(cwd if isinstance(cwd, str) else "", start)
            rows += page
        sessions = [
            {
                "session": row["sessionId"],
                "title": row.get("title", ""),
                "cwd": row["cwd"],
                "changed": row["updatedAt"],
                "agent": row.get("_meta", {}).get("harness", {}).get("agent", ""),
            }
            for row in rows[:limit]
        ]
        return _data({"sessions": sessions})

    async def _show(self, arguments: Fields) -> Fields:
        session = text_of(arguments, "session")
        most = whole_of(arguments, "most_characters", _SHOWN, _MOST_SHOWN)
        session_found = await self._found(session)

        def shown() -> str:
            batches = (
                session_found.batches()
                if session_found.stored
                else read_batches(self._host.store, session_found.log_id)
            )
            view = markdown.open(ViewOptions())
            pieces = [piece for batch in batches for event in batch for piece in view.feed(event)]
            return b"".join([*pieces, *view.finish()]).decode("utf-8", "replace")

        text = await asyncio.to_thread(shown)
        if len(text) > most:
            text = f"(the last {most} of {len(text)} characters)\n\n{text[-most:]}"
        data = {"session": session, "text": text}
        return {"content": [{"type": "text", "text": text}], "structuredContent": data}

    def _recall(self, arguments: Fields) -> Fields:
        """In a thread, which alone uses its catalogue: it may have to read sessions first."""
        from harness.clients.sessions.filters import SessionChoice
        from harness.clients.sessions.histories import HistorySessions
        from harness.clients.sessions.search import find_hits
        from harness.histories.catalogue_search import SessionSearch, parts_of

        store = self._host.store
        if not isinstance(store, FileStore):
            raise UsageError("only sessions in files can be searched")
        limit = whole_of(arguments, "limit", 10, _MOST_PASSAGES)
        cwd = arguments.get("cwd")
        choice = SessionChoice(project=cwd if isinstance(cwd, str) else "")
        search = SessionSearch(parts=parts_of(text_of(arguments, "query")))
        histories = HistorySessions() if self._host.has_histories else None
        if histories is not None:
            histories.read_all(lambda _words: None)
        hits = find_hits(search, choice, store, histories, limit)
        passages = [
            {
                "session": hit.session_id if hit.is_ours else f"{hit.agent}:{hit.session_id}",
                "agent": hit.agent,
                "cwd": hit.project,
                "title": hit.title,
                "at_ms": hit.passage.at_ms,
                "passage": hit.passage.text,
            }
            for hit in hits
        ]
        return _data({"passages": passages})


def _data(data: Fields) -> Fields:
    return {"content": [{"type": "text", "text": compact(data)}], "structuredContent": data}


def text_of(arguments: Mapping[str, Any], name: str, most: int = 4096) -> str:
    """Raises RpcError."""
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RpcError(INVALID_PARAMETERS, f"`{name}` must be a text that is not empty")
    if len(value) > most:
        raise RpcError(INVALID_PARAMETERS, f"`{name}` has at most {most} characters")
    return value


def number_of(arguments: Mapping[str, Any], name: str) -> float | None:
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise RpcError(INVALID_PARAMETERS, f"`{name}` must be a number that is not negative")
    return float(value)


def whole_of(arguments: Mapping[str, Any], name: str, usual: int, most: int) -> int:
    value = number_of(arguments, name)
    return usual if value is None else max(1, min(int(value), most))
