"""Guards and hooks: functions of the application at the places where a run takes something in or gives something out.

    def only_in_src(guarded: GuardContext) -> Stop | None:
        return Stop("only below src") if any(not path.startswith("src/") for path in guarded.writes) else None

    Harness(..., guards=Guards(call=[only_in_src]), hooks=Hooks(after_call=format_file))

| place | a guard sees | `Stop` | `Replace` |
|---|---|---|---|
| `input` | the message of the user | no run begins: outcome `blocked` | the message is another one |
| `output` | the answer | outcome `blocked` | `outcome.text` is another one |
| `call` | a tool call, before anybody is asked | the call is refused | its arguments are others |
| `result` | what a call gave | the model gets the reason instead | the model gets another text |

Rules
1. A guard that raises, or takes longer than its time, counts as `Stop`. What a guard stopped or replaced is in the log.
2. Guards of calls decide before the permission rules, never instead of them: what passes may still be asked about.
   An agent program asks before it acts: there `Stop` refuses the call, and nothing can be replaced.
3. A hook that raises, or takes too long, is logged and changes nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from harness.approvals.call import ProposedCall
from harness.contracts.model import Call, Turn
from harness.contracts.tool import ToolOutput
from harness.conversation.turns import StepContext
from harness.errors import UsageError
from harness.events import Event, Warning
from harness.session.run_outcomes import BLOCKED, RunOutcome

_logger = logging.getLogger("harness.session")
LONGEST_S = 30.0
CLOSING_S = 5.0
"""How long closing a session waits for hooks that only look on: the last one may be telling somebody of the end."""
Place: TypeAlias = Literal["input", "output", "call", "result"]


class GuardContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a guard looks at."""

    where: Place
    text: str = ""
    """The message, the answer, or what the call gave; empty for a call."""
    tool_name: str = ""
    arguments: Mapping[str, Any] = {}
    category: str = ""
    """Of a call: read, edit, execute …"""
    command: str = ""
    """The command line, of a call that runs one."""
    paths: tuple[str, ...] = ()
    """Every path that the call names."""
    request: Mapping[str, Any] = {}
    """The request context of the message."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The paths of files that the call changes."""
        return self.paths if self.category == "edit" else ()


class Pass(msgspec.Struct, frozen=True):
    """Nothing is wrong; None says the same."""


class Stop(msgspec.Struct, frozen=True):
    """It does not go any further, for this reason."""

    reason: str


class Replace(msgspec.Struct, frozen=True):
    """Something else is used instead: a text, or for a call its arguments."""

    value: Any
    reason: str = ""


STOPPED = Stop("Aborted by the user")
"""What is said of a message or an answer that guards looked at when the session was stopped."""


_Verdict: TypeAlias = Pass | Stop | Replace | None
Guard: TypeAlias = Callable[[GuardContext], _Verdict | Awaitable[_Verdict]]


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """Guards by their place, each called in order; the next one sees what the one before has replaced."""

    input: Sequence[Guard] = ()
    output: Sequence[Guard] = ()
    call: Sequence[Guard] = ()
    result: Sequence[Guard] = ()


class HookedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call, as hooks see it; `output` when it has ended."""

    tool_name: str
    arguments: Mapping[str, Any]
    call_id: str = ""
    output: ToolOutput | None = None


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that observe a run and may change what it works with; they never decide what is allowed.

    Those before and after a call, and before the model, are for the built-in agent.
    """

    before_model: Callable[[StepContext], Any] | None = None
    """Gives the turns to send, or None for what would be sent anyway."""
    after_model: Callable[[str], Any] | None = None
    """Called with each message of the agent."""
    before_call: Callable[[HookedCall], Any] | None = None
    """Gives other arguments, `Stop`, or None."""
    after_call: Callable[[HookedCall], Any] | None = None
    """Gives another `ToolOutput`, or None."""
    on_end: Callable[[RunOutcome[Any]], Any] | None = None
    """Called with the outcome of each run."""


class GuardRunner:
    """Calls the guards and hooks of a harness for one session. `note` puts a warning into its log."""

    def __init__(
        self,
        guards: Guards,
        hooks: Hooks,
        note: Callable[[Event], object],
        request: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._guards, self._hooks, self._note, self._request = guards, hooks, note, request
        self._tasks: set[asyncio.Task[Any]] = set()
        self._checks: set[asyncio.Task[str | Stop]] = set()
        """Messages and answers that guards look at now."""

    @property
    def has_calls(self) -> bool:
        """Whether anything looks at calls."""
        return bool(
            self._guards.call or self._guards.result or self._hooks.before_call or self._hooks.after_call
        )

    @property
    def has_input(self) -> bool:
        """Whether anything looks at messages of the user."""
        return bool(self._guards.input)

    async def check_text(
        self,
        where: Literal["input", "output"],
        text: str,
        request: Mapping[str, Any],
        timeout_s: float | None = None,
    ) -> str | Stop:
        """The text that goes on, or why it does not; `STOPPED` if `stop` ended it. `timeout_s`: of the run."""
        guards = self._guards.input if where == "input" else self._guards.output
        if not guards:
            return text
        context = GuardContext(where=where, text=text, request=request)
        longest_s = min(LONGEST_S, timeout_s or LONGEST_S)
        check = asyncio.get_running_loop().create_task(self._checked_text(guards, context, longest_s))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)
        try:
            return await check
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return STOPPED

    def stop(self) -> None:
        """End what guards do to messages and answers now: none of them goes on."""
        for check in self._checks:
            check.cancel()

    async def _checked_text(
        self, guards: Sequence[Guard], context: GuardContext, longest_s: float
    ) -> str | Stop:
        for guard in guards:
            verdict = await self._verdict(guard, context, longest_s)
            if isinstance(verdict, Stop):
                return verdict
            if isinstance(verdict, Replace):
                context = msgspec.structs.replace(context, text=str(verdict.value))
        return context.text

    async def check_call(
        self, call: ProposedCall, propose: Callable[[dict[str, Any]], ProposedCall] | None = None
    ) -> dict[str, Any] | Stop | None:
        """Other arguments for a call, or why it is refused; None: as it is. `propose`: the call with other arguments."""
        changed: dict[str, Any] | None = None
        for guard in self._guards.call:
            verdict = await self._verdict(guard, self._context_of(call))
            if isinstance(verdict, Stop):
                return verdict
            if isinstance(verdict, Replace):
                if propose is None:
                    return Stop("a guard wants other arguments, which an agent program cannot be given")
                if not isinstance(verdict.value, Mapping):
                    return Stop(f"{_name(guard)} gave no arguments for {call.tool}")
                changed = dict(verdict.value)
                call = propose(changed)  # what it names now is what the next guard has to see
        return changed

    def _context_of(self, call: ProposedCall) -> GuardContext:
        return GuardContext(
            where="call",
            tool_name=call.tool,
            arguments=call.input if isinstance(call.input, Mapping) else {},
            category=str(call.category),
            command=call.command,
            paths=call.paths,
            request=self._request(),
        )

    async def before_call(
        self, call: Call, propose: Callable[[dict[str, Any]], ProposedCall]
    ) -> Call | str | None:
        """For the loop: the call as it is carried out, or why it is not; None: as it is."""
        changed = call
        hook = self._hooks.before_call
        if hook is not None:
            use = HookedCall(tool_name=call.name, arguments=_arguments(call), call_id=call.id)
            made = await self._observed(hook, use)
            if isinstance(made, Stop):
                return made.reason
            if isinstance(made, Mapping):
                changed = msgspec.structs.replace(call, input=dict(made))
        checked = await self.check_call(propose(dict(_arguments(changed))), propose)
        if isinstance(checked, Stop):
            return checked.reason
        if checked is not None:
            changed = msgspec.structs.replace(call, input=checked)
        return None if changed is call else changed

    async def after_call(self, call: Call, output: ToolOutput) -> ToolOutput:
        """For the loop: what the model gets."""
        context = GuardContext(
            where="result",
            text=output.text,
            tool_name=call.name,
            arguments=_arguments(call),
            request=self._request(),
        )
        for guard in self._guards.result:
            verdict = await self._verdict(guard, context)
            if isinstance(verdict, Stop):
                return ToolOutput(text=f"What it gave is withheld: {verdict.reason}", success=False)
            if isinstance(verdict, Replace):
                context = msgspec.structs.replace(context, text=str(verdict.value))
                output = msgspec.structs.replace(output, text=context.text, result=None)
        if self._hooks.after_call is not None:
            arguments = _arguments(call)
            use = HookedCall(tool_name=call.name, arguments=arguments, call_id=call.id, output=output)
            made = await self._observed(self._hooks.after_call, use)
            output = made if isinstance(made, ToolOutput) else output
        return output

    async def before_model(self, context: StepContext) -> Sequence[Turn] | None:
        """The turns that the hook chose."""
        hook = self._hooks.before_model
        made = await self._observed(hook, context) if hook is not None else None
        return made if isinstance(made, Sequence) and not isinstance(made, str) else None

    @property
    def has_before_model(self) -> bool:
        return self._hooks.before_model is not None

    def after_model(self, text: str) -> None:
        self._later(self._hooks.after_model, text)

    def on_end(self, outcome: RunOutcome[Any]) -> None:
        self._later(self._hooks.on_end, outcome)

    def _later(self, hook: Callable[[Any], Any] | None, given: Any) -> None:
        if hook is not None:
            task = asyncio.get_running_loop().create_task(self._observed(hook, given))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """The session is closed: hooks that only look on get a moment to finish."""
        if self._tasks:
            _done, late = await asyncio.wait(self._tasks, timeout=CLOSING_S)
            for task in late:
                task.cancel()

    async def _verdict(self, guard: Guard, context: GuardContext, longest_s: float | None = None) -> _Verdict:
        verdict: _Verdict
        longest_s = longest_s or LONGEST_S
        try:
            given: Any = await _called(guard, context, longest_s)
            is_verdict = given is None or isinstance(given, Pass | Stop | Replace)
            verdict = given if is_verdict else Stop(f"{_name(guard)} gave a {type(given).__name__}")
        except TimeoutError:
            verdict = Stop(f"{_name(guard)} took longer than {longest_s:g} s")
        except Exception as error:
            _logger.exception("a guard failed")
            verdict = Stop(f"{_name(guard)} failed: {error!r}")
        if isinstance(verdict, Stop | Replace):
            effect = "stopped" if isinstance(verdict, Stop) else "replaced"
            what = f"{context.where} {context.tool_name}".strip()
            reason = f": {verdict.reason}" if verdict.reason else ""
            self._note(Warning(message=f"{_name(guard)} {effect} the {what}{reason}", code=f"guard_{effect}"))
        return verdict

    async def _observed(self, hook: Callable[[Any], Any], given: Any) -> Any:
        try:
            return await _called(hook, given, LONGEST_S)
        except Exception as error:
            _logger.exception("a hook failed")
            self._note(Warning(message=f"the hook {_name(hook)} failed: {error!r}", code="hook_failed"))
            return None


async def _called(function: Callable[[Any], Any], given: Any, longest_s: float) -> Any:
    made = function(given)
    if not inspect.isawaitable(made):
        return made
    async with asyncio.timeout(longest_s):
        return await made


def _name(function: object) -> str:
    return str(getattr(function, "__name__", "") or type(function).__name__)


def _arguments(call: Call) -> Mapping[str, Any]:
    return call.input if isinstance(call.input, Mapping) else {}


def check_guards(guards: object, hooks: object) -> tuple[Guards, Hooks]:
    """Raises UsageError for what cannot be called."""
    guards, hooks = guards or Guards(), hooks or Hooks()
    if not isinstance(guards, Guards):
        raise UsageError(
            f"guards cannot be a {type(guards).__name__}", hint="give Guards(input=[…], call=[…])"
        )
    if not isinstance(hooks, Hooks):
        raise UsageError(f"hooks cannot be a {type(hooks).__name__}", hint="give Hooks(before_call=…)")
    for place in Guards.__struct_fields__:
        functions = getattr(guards, place)
        if (
            isinstance(functions, str)
            or not isinstance(functions, Sequence)
            or not all(map(callable, functions))
        ):
            raise UsageError(
                f"guards: {place} is not a list of functions", hint=f"Guards({place}=[function])"
            )
    for name in Hooks.__struct_fields__:
        if getattr(hooks, name) is not None and not callable(getattr(hooks, name)):
            raise UsageError(f"hooks: {name} cannot be called", hint="give a function")
    return guards, hooks


__all__ = [
    "BLOCKED",
    "GuardContext",
    "GuardRunner",
    "Guards",
    "HookedCall",
    "Hooks",
    "Pass",
    "Replace",
    "Stop",
]
