"""Questions to a person while a run waits: who waits, what is a valid answer, and what happens unattended.

While a run waits in this process, `OpenRelays` decides which answer counts: the first, from whichever thread it
comes. Callers pass an answer on and report what became of it. A suspended run is answered by
`AgentConversation.resume`.

Who answers an unattended run, by `on_ask`:

| `on_ask` | a permission | another question |
|---|---|---|
| `wait` | a person has to answer in time, else it is refused | the same |
| `deny` | refused at once | refused at once |
| `allow` | allowed at once | refused at once: there is no answer to give |

Whatever is decided is in the log: the question, and an answer by policy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from harness.contracts.request import OnAsk
from harness.errors import UsageError
from harness.events import Event, Relay, RelayReply, Warning
from harness.questions.choices import check_choice

if TYPE_CHECKING:
    import asyncio


_Held = TypeVar("_Held")


class OpenRelays(Generic[_Held]):
    """Approvals and questions that wait for an answer, each with what the run that asks needs. Used from any thread.

    Which of two answers counts is decided here, for the loop, for agent programs and for runs elsewhere: the first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Relay, _Held]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def __iter__(self) -> Iterator[tuple[Relay, _Held]]:
        return iter(list(self._open.values()))

    def add(self, relay: Relay, question: _Held) -> None:
        """From now on it can be answered."""
        with self._lock:
            self._open[relay.id] = (relay, question)

    def take(self, reply: RelayReply) -> tuple[Relay, _Held] | None:
        """What this reply answers; None when it is not open (any more).

        Raises UsageError for a reply that is no answer to it: it then stays open.
        """
        with self._lock:
            open_question = self._open.get(reply.id)
            if open_question is not None:
                check_reply(open_question[0], reply)
                del self._open[reply.id]
            return open_question

    def withdraw(self, relay_id: str) -> bool:
        """It cannot be answered any more. False when it was not open."""
        with self._lock:
            return self._open.pop(relay_id, None) is not None

    def withdraw_all(self) -> list[Relay]:
        """Those that were open."""
        with self._lock:
            open_questions, self._open = self._open, {}
        return [relay for relay, _ in open_questions.values()]


class OpenQuestions:
    """The questions of all runs of a conversation that wait in this process. Asked in the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.open: OpenRelays[asyncio.Future[RelayReply]] = OpenRelays()

    def expect(self, relay: Relay) -> asyncio.Future[RelayReply]:
        """From now on it can be answered."""
        future: asyncio.Future[RelayReply] = self._loop.create_future()
        self.open.add(relay, future)
        return future

    async def answer(
        self, relay: Relay, deadline_s: float | None, expected: asyncio.Future[RelayReply] | None = None
    ) -> RelayReply:
        """Wait for the reply; no reply in time is a refusal."""
        import asyncio  # only here: conversations with programs are held without it

        future = expected or self.expect(relay)
        try:
            await asyncio.wait((future,), timeout=deadline_s)
        finally:
            is_unanswered = self.open.withdraw(relay.id)
        if is_unanswered:
            reason = f"no answer within {deadline_s:g} s"
            return RelayReply(id=relay.id, approved=False, by="timeout", reason=reason)
        # `reply` has returned true: the answer counts, though the loop may not have delivered it yet.
        return await future

    def reply(self, reply: RelayReply) -> bool:
        """Answer a question, from any thread. True when this answer counts, false when the question is not open (any
        more): the first answer counts. Raises UsageError for what is no answer to it: the question stays open.
        """
        answered = self.open.take(reply)
        if answered is None:
            return False
        try:
            self._loop.call_soon_threadsafe(_settle, answered[1], reply)
        except RuntimeError:  # the loop is closed: the run has ended
            return False
        return True


def _settle(future: asyncio.Future[RelayReply], reply: RelayReply) -> None:
    if not future.done():
        future.set_result(reply)


_TO_THE_MODEL = {
    "permission": "no user is there to allow it: find another way, or say what you would need",
    "other": "no user is there to answer: decide yourself, or say what you would need to know",
}


class Unattended:
    """Contract of `AgentOptions.on_ask`. Emits one `Warning` that questions are answered without a person."""

    def __init__(self, emit: Callable[[Event], object]) -> None:
        self._emit = emit
        self._has_warned = False

    def deny(self, relay: Relay) -> RelayReply:
        if not self._has_warned:
            self._has_warned = True
            self._emit(Warning(message=_warning(relay), code="nobody_to_ask"))
        kind = "permission" if relay.kind == "permission" else "other"
        why = f"{relay.why}; " if kind == "permission" and relay.why else ""
        return RelayReply(id=relay.id, approved=False, by="policy", reason=f"{why}{_TO_THE_MODEL[kind]}")

    def allow(self, relay: Relay) -> RelayReply:
        if relay.kind != "permission":
            return self.deny(relay)
        return RelayReply(id=relay.id, approved=True, by="policy", reason="everything is allowed")


def answering(on_ask: OnAsk | None, emit: Callable[[Event], object]) -> Callable[[Relay], RelayReply] | None:
    """The function that answers at once; None: a person has to answer."""
    unattended = Unattended(emit)
    return {"wait": None, "deny": unattended.deny, "allow": unattended.allow}[on_ask or "wait"]


def _warning(relay: Relay) -> str:
    what = f"{relay.tool_name} was refused" if relay.tool_name else "a question was not answered"
    return (
        f"there is no user to ask: {what}, and so will be every other call that needs approval; --permissions "
        "full-access or --on-ask allow permits them, --on-ask wait waits for an answer"
    )


_MOST_PROBLEMS = 3


LIMIT_CATEGORY = "limit"


def is_limit_question(relay: Relay) -> bool:
    """Whether any limit is why it is asked: no call waits for the answer then."""
    return relay.kind == "question" and relay.category in ("budget", LIMIT_CATEGORY)


def is_budget_question(relay: Relay) -> bool:
    """Whether a limit of `harness budget` is why it is asked: no call waits for the answer then."""
    return relay.category == "budget" and relay.kind == "question"


def check_reply(relay: Relay, reply: RelayReply) -> None:
    """Whether a reply is an answer to its question. Raises UsageError when it is not."""
    check_choice(relay, reply)
    if is_budget_question(relay):
        from harness.usage import budget  # only here: most runs have no limit

        budget.answer(relay, reply)
    if relay.kind == "permission" or relay.resume_schema is None:
        return
    if reply.answer is None and not reply.approved:
        return  # it is refused, or given up
    if problems := list(problems_of(reply.answer, relay.resume_schema)):
        problems_listed = "; ".join(problems[:_MOST_PROBLEMS])
        raise UsageError(f"Invalid answer: {problems_listed}", hint=f"it still waits; {_wanted(relay)}")


def problems_of(value: Any, schema: Any, where: str = "") -> Iterator[str]:
    """Why a value does not fit a JSON Schema, by the keywords below; others are ignored."""
    if schema is False:
        yield _located(where, "nothing is allowed here")
    if not isinstance(schema, Mapping):
        return
    for keyword, check in _CHECKS.items():
        if keyword in schema:
            yield from check(value, schema[keyword], schema, where)


def _wanted(relay: Relay) -> str:
    if relay.kind == "plan":
        return 'a plan is answered with {"action": "approved"} or {"action": "rejected", "feedback": "…"}'
    return "see its resumeSchema"


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
    "integer": lambda value: (
        not isinstance(value, bool)
        and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def _type(value: Any, types: Any, _schema: Any, where: str) -> Iterator[str]:
    names = types if isinstance(types, list) else [types]
    if not any(_TYPES.get(name, lambda _: True)(value) for name in names):
        yield _located(where, f"{_shown(value)} is no {' or '.join(map(str, names))}")


def _enum(value: Any, values: Any, _schema: Any, where: str) -> Iterator[str]:
    if value not in values:
        yield _located(where, f"{_shown(value)} is none of {', '.join(map(repr, values))}")


def _const(value: Any, expected: Any, _schema: Any, where: str) -> Iterator[str]:
    if value != expected:
        yield _located(where, f"{_shown(value)} is not {expected!r}")


def _any_of(value: Any, schemas: Any, _schema: Any, where: str) -> Iterator[str]:
    problem_lists = [list(problems_of(value, schema, where)) for schema in schemas]
    if all(problem_lists):
        yield " and ".join(dict.fromkeys(problems[0] for problems in problem_lists))


def _one_of(value: Any, schemas: Any, _schema: Any, where: str) -> Iterator[str]:
    fitting = sum(not list(problems_of(value, schema, where)) for schema in schemas)
    if fitting > 1:
        yield _located(where, f"{_shown(value)} fits several of the forms that exclude each other")
    elif not fitting:
        yield from _any_of(value, schemas, None, where)


def _all_of(value: Any, schemas: Any, _schema: Any, where: str) -> Iterator[str]:
    for schema in schemas:
        yield from problems_of(value, schema, where)


def _required(value: Any, names: Any, _schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name in names:
            if name not in value:
                yield _located(where, f"{name!r} is missing")


def _properties(value: Any, schemas: Any, _schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, schema in schemas.items():
            if name in value:
                yield from problems_of(value[name], schema, f"{where}.{name}" if where else str(name))


def _additional(value: Any, schema_of_rest: Any, schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name in value:
            if name not in schema.get("properties", {}) and "patternProperties" not in schema:
                if schema_of_rest is False:
                    yield _located(where, f"{name!r} is not known")
                else:
                    yield from problems_of(
                        value[name], schema_of_rest, f"{where}.{name}" if where else str(name)
                    )


def _items(value: Any, item_schema: Any, schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, list | tuple):
        first = len(schema.get("prefixItems", ()))
        for place, item in enumerate(value[first:], first):
            yield from problems_of(item, item_schema, f"{where}[{place}]")


def _least(value: Any, bound: Any, _schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, str | list | tuple) and len(value) < bound:
        yield _located(where, f"{_shown(value)} is too short")


def _most(value: Any, bound: Any, _schema: Any, where: str) -> Iterator[str]:
    if isinstance(value, str | list | tuple) and len(value) > bound:
        yield _located(where, f"{_shown(value)} is too long")


def _minimum(value: Any, bound: Any, _schema: Any, where: str) -> Iterator[str]:
    if _TYPES["number"](value) and value < bound:
        yield _located(where, f"{value} is less than {bound}")


def _maximum(value: Any, bound: Any, _schema: Any, where: str) -> Iterator[str]:
    if _TYPES["number"](value) and value > bound:
        yield _located(where, f"{value} is more than {bound}")


_CHECKS: Mapping[str, Callable[[Any, Any, Any, str], Iterator[str]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "minItems": _least,
    "maxItems": _most,
    "minLength": _least,
    "maxLength": _most,
    "minimum": _minimum,
    "maximum": _maximum,
}


def _located(where: str, problem: str) -> str:
    return f"{where}: {problem}" if where else problem


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
