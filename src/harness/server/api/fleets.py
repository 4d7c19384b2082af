"""`/api/fleets`: the list, the cases and the report of one, two variants or runs compared; stop, resume and retry."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.errors import SpawnFailed, StoreError, UsageError
from harness.events.usage import CLASSES
from harness.fleet import export
from harness.fleet.compare import Comparison, compare_variants
from harness.fleet.difference import StepPair, aligned_steps, first_difference, steps_of_case
from harness.fleet.fleet import Fleet
from harness.fleet.overview import overview
from harness.fleet.records.attempt import Attempt
from harness.fleet.watching import FleetSummary, FleetWatch, KnownFleets
from harness.log.private_files import make_private_directory
from harness.process.detached import DetachedProcess
from harness.process.own_program import own_command
from harness.server.access.responses import (
    Conflict,
    Handler,
    NotFound,
    json_response,
    read_body,
    with_errors,
)

_MOST_PATCH = 2_000_000
_MOST_STEPS = 2_000
_STARTS_WITHIN_S = 20.0
_POLL_S = 0.05
_REAPED_EVERY_S = 1.0
_ENDED_WELL = (0, 3, 130)
"""Everything is done, the budget is reached, it was stopped."""
_MOST_OUTPUT = 1_000


class FleetList(msgspec.Struct, frozen=True):
    fleets: list[FleetSummary]


class AttemptView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    number: int
    session: str
    outcome: str
    passed: bool | None
    fault: str
    detail: str
    check_exit: int | None
    check_output: str
    cost_usd: float | None
    tokens: dict[str, int]
    """By class, as far as they are known."""
    run_s: float
    duration_s: float
    started_ms: int
    host: str


class CaseDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    task: str
    variant: str
    repeat: int
    prompt: str
    check: str
    attempts: list[AttemptView]
    """In their order; the result is the last."""
    patch: str
    """What the agent changed in the latest attempt: a unified diff."""
    is_patch_cut: bool
    """It is longer than what is sent of it."""
    has_session: bool
    """Whether this server has the session of the latest attempt."""


class FleetComparison(msgspec.Struct, frozen=True):
    comparison: Comparison
    """Under the names of `harness fleet compare --json`."""
    verdict: str


class RunDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    first_difference: int | None
    """The number of the first step that differs; null: they are the same."""
    steps: list[StepPair]
    left_out: int
    """Steps after these."""


class StopFleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    now: bool = False
    """Do not wait for the cases that run."""


class ResumeFleet(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    budget_usd: float | None = None
    """For all of the fleet, with what was spent already."""


class FleetApi:
    def __init__(self, fleets: KnownFleets, has_session: Callable[[str], bool]) -> None:
        self._fleets = fleets
        self._has_session = has_session
        self._started: list[DetachedProcess] = []

    def routes(self) -> list[Route]:
        prefix = "/api/fleets/{name}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/fleets", self._list),
            ("GET", prefix, self._one),
            ("GET", f"{prefix}/compare", self._compare),
            ("GET", f"{prefix}/diff", self._difference),
            ("GET", f"{prefix}/cases/{{case}}", self._case),
            ("GET", f"{prefix}/report.html", self._html),
            ("GET", f"{prefix}/cases.csv", self._csv),
            ("POST", f"{prefix}/stop", self._stop),
            ("POST", f"{prefix}/resume", self._resume),
            ("POST", f"{prefix}/retry", self._retry),
        ]
        return [Route(path, with_errors(handler), methods=[method]) for method, path, handler in table]

    async def _list(self, request: Request) -> Response:
        del request
        return json_response(FleetList(await asyncio.to_thread(self._fleets.summaries)))

    async def _one(self, request: Request) -> Response:
        return json_response(await self._read(request, FleetWatch.view))

    async def _compare(self, request: Request) -> Response:
        a, b = (request.query_params.get(name, "") for name in ("a", "b"))

        def compared(watch: FleetWatch) -> FleetComparison:
            comparison = compare_variants(watch.fleet, a, b)
            return FleetComparison(comparison, comparison.verdict)

        return json_response(await self._read(request, compared))

    async def _difference(self, request: Request) -> Response:
        cases = [request.query_params.get(name, "") for name in ("a", "b")]

        def difference(watch: FleetWatch) -> RunDifference:
            a, b = (steps_of_case(watch.fleet, case_id) for case_id in cases)
            pairs = aligned_steps(a[:_MOST_STEPS], b[:_MOST_STEPS])
            left_out = max(len(a), len(b)) - min(_MOST_STEPS, max(len(a), len(b)))
            return RunDifference(first_difference=first_difference(a, b), steps=pairs, left_out=left_out)

        return json_response(await self._read(request, difference))

    async def _case(self, request: Request) -> Response:
        case_id: str = request.path_params["case"]

        def details(watch: FleetWatch) -> CaseDetails:
            return self._details(watch.fleet, case_id)

        return json_response(await self._read(request, details))

    async def _html(self, request: Request) -> Response:
        page = await self._read(request, lambda watch: export.as_html(watch.fleet, overview(watch.fleet)))
        return _file(page, "text/html", f"{request.path_params['name']}.html")

    async def _csv(self, request: Request) -> Response:
        text = await self._read(request, lambda watch: export.as_csv(watch.fleet, overview(watch.fleet)))
        return _file(text.encode("utf-8", "replace"), "text/csv", f"{request.path_params['name']}.csv")

    async def _stop(self, request: Request) -> Response:
        body = await read_body(request, StopFleet)

        def stop(watch: FleetWatch) -> FleetSummary:
            if not watch.summary().is_attended:
                raise Conflict(f"the fleet {watch.fleet.name} is not being run", hint="it can be resumed")
            watch.fleet.records.request_stop("now" if body.now else "after")
            return watch.summary()

        return json_response(await self._read(request, stop))

    async def _resume(self, request: Request) -> Response:
        body = await read_body(request, ResumeFleet)
        if body.budget_usd is not None and not 0 < body.budget_usd < float("inf"):
            raise UsageError("a budget is more than 0")
        budget = [] if body.budget_usd is None else ["--budget-usd", str(body.budget_usd)]
        return await self._start(request, "resume", budget)

    async def _retry(self, request: Request) -> Response:
        return await self._start(request, "retry", [])

    async def _start(
        self, request: Request, action: Literal["resume", "retry"], options: list[str]
    ) -> Response:
        """In a process of its own, which outlives this server, as after `harness fleet resume`."""

        def start(watch: FleetWatch) -> DetachedProcess:
            _check_can_start(watch.summary(), action)
            process = _started(watch.fleet, action, options)
            until_s = time.monotonic() + _STARTS_WITHIN_S
            while process.code() is None and not watch.is_attended and time.monotonic() < until_s:
                time.sleep(_POLL_S)
            return process

        process = await self._read(request, start)
        self._started.append(process)
        self._reap(asyncio.get_running_loop())
        if process.code() not in (None, *_ENDED_WELL):
            output = await self._read(request, lambda watch: _last_output(watch.fleet))
            raise Conflict(f"the fleet could not be started: {output or 'without output'}")
        return json_response(await self._read(request, FleetWatch.summary))

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        """Until all that were started have ended."""
        self._started = [process for process in self._started if process.code() is None]
        if self._started:
            loop.call_later(_REAPED_EVERY_S, self._reap, loop)

    def _details(self, fleet: Fleet, case_id: str) -> CaseDetails:
        try:
            case = fleet.case(case_id)
        except UsageError as error:
            raise NotFound(error.message, hint=error.hint) from error
        result = fleet.records.result(case.id)
        attempts = [*fleet.records.faults_of(case.id), *([result] if result else [])]
        patch = fleet.records.diff(attempts[-1]) if attempts else b""
        session = attempts[-1].log_id if attempts else ""
        return CaseDetails(
            id=case.id,
            task=case.task.id,
            variant=case.variant.name,
            repeat=case.repeat,
            prompt=case.task.prompt,
            check=case.task.check,
            attempts=[_attempt(attempt) for attempt in attempts],
            patch=patch[:_MOST_PATCH].decode("utf-8", "replace"),
            is_patch_cut=len(patch) > _MOST_PATCH,
            has_session=bool(session) and self._has_session(session),
        )

    async def _read(self, request: Request, work: Callable[[FleetWatch], Any]) -> Any:
        """Something of the fleet that is asked for, in a thread."""

        def read() -> Any:
            with self._opened(request.path_params["name"]) as watch:
                return work(watch)

        return await asyncio.to_thread(read)

    @contextmanager
    def _opened(self, name: str) -> Iterator[FleetWatch]:
        """Raises NotFound where there is none, and Conflict where it cannot be read."""
        try:
            watch = self._fleets.open(name)
        except UsageError as error:
            raise NotFound(error.message, hint=error.hint) from error
        except StoreError as error:
            raise Conflict(error.message, hint=error.hint) from error
        try:
            yield watch
        except StoreError as error:
            raise Conflict(error.message, hint=error.hint) from error
        finally:
            watch.close()


def _attempt(attempt: Attempt) -> AttemptView:
    token_counts = {name: getattr(attempt.usage, name) for name in CLASSES}
    return AttemptView(
        number=attempt.number,
        session=attempt.log_id,
        outcome=attempt.outcome,
        passed=attempt.passed,
        fault=attempt.fault,
        detail=attempt.detail,
        check_exit=attempt.check_exit,
        check_output=attempt.check_output,
        cost_usd=attempt.cost_usd,
        tokens={name: amount for name, amount in token_counts.items() if amount is not None},
        run_s=attempt.run_s,
        duration_s=attempt.duration_s,
        started_ms=attempt.started_ms,
        host=attempt.host,
    )


def _check_can_start(summary: FleetSummary, action: Literal["resume", "retry"]) -> None:
    """Raises Conflict."""
    if summary.is_attended:
        raise Conflict(f"the fleet {summary.name} is being run already")
    if action == "resume" and not summary.waiting + summary.running:
        raise Conflict(f"nothing is left of the fleet {summary.name}")
    if action == "retry" and not summary.errors:
        raise Conflict(f"no case of the fleet {summary.name} ended without a result")


def _output(fleet: Fleet) -> str:
    """What the process that works through the cases writes."""
    return fleet.output("scheduler")


def _started(fleet: Fleet, action: str, options: list[str]) -> DetachedProcess:
    output = _output(fleet)
    try:
        make_private_directory(os.path.dirname(output))
        if os.path.exists(output):
            os.unlink(output)  # of an earlier time
        words = own_command("fleet", action, *options, *fleet.words)
        return DetachedProcess(words, {**os.environ, **fleet.environment}, output)
    except SpawnFailed as error:
        raise Conflict(error.message, hint=error.hint) from error
    except OSError as error:
        raise Conflict(f"cannot write {output}: {error.strerror}") from error


def _last_output(fleet: Fleet) -> str:
    """Why it ended: the lines that are no events."""
    try:
        with open(_output(fleet), encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if not line.startswith("{")]
    except OSError:
        return ""
    return " ".join(filter(None, lines))[-_MOST_OUTPUT:]


def _file(data: bytes, media_type: str, name: str) -> Response:
    """It is made of what agents and tasks wrote: a browser saves it, and runs nothing of it here."""
    return Response(
        data, media_type=media_type, headers={"content-disposition": f'attachment; filename="{name}"'}
    )
