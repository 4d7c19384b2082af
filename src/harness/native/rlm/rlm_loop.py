"""A recursive language model: it does not read the context, it writes programs that do, and asks itself.

Each round the model writes one block of Python, which runs in a REPL (`repl`) that holds the context; it is
shown what was printed, until the code calls FINAL.

Rules
1. Everything that a run emits has the run's own id: it emits no steps. Queries are runs of their own, below
   the `ReplInput` whose code asked: recursive models down to `max_depth`, single calls of a model below that.
2. The usage of a single call is emitted and counted by the run that made it, that of a recursive model by
   itself: nothing is counted twice.
3. An answer that cannot be run costs an iteration, and so does code that fails; the run continues. A failure
   of the model ends the run. When the iterations are used up there is no answer.
4. Cancelling the task that runs `run` stops it at once: the model's stream, the REPL, commands and queries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.contracts.limits import LIMITS
from harness.contracts.model import AssistantTurn, Call, SystemTurn, Turn, UserTurn
from harness.contracts.tool import ToolFailure, ToolOutput
from harness.contracts.worker import OnEnd
from harness.conversation.inbox import Inbox, not_taken
from harness.errors import HarnessError, UsageError
from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    ReplInput,
    ReplOutput,
    ReplProgress,
    Result,
    SessionStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.log.hub import Hub
from harness.models.registry import open_model
from harness.native.loop.cancellation import GRACE_S, stoppable
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.loop_worker import LoopWorker
from harness.native.loop.model_calls import Answered, call_model
from harness.native.loop.native import RELAY_DEADLINE_S, chosen_model, gate_of
from harness.native.loop.subagent import ended
from harness.native.loop.tool_calls import ToolExecutor
from harness.native.loop.tool_messages import shortened
from harness.native.rlm.exec_tool import (
    Exec,
    error_feedback,
    extract,
    output_feedback,
    system_prompt,
)
from harness.native.rlm.options import MAX_ITERATIONS, RlmOptions, parse
from harness.native.rlm.repl import CodeResult, Repl, ReplStream
from harness.questions.open_questions import answering
from harness.questions.permissions import permissions_for
from harness.runs.launch import Launch

_MOST_LOGGED_CHARACTERS = 100_000
"""Of the prompt of a single call: the log need not repeat the context each time."""
_SHOWN_PROMPT_CHARACTERS = 80


class RlmRun:
    def __init__(
        self,
        loop_context: LoopContext,
        options: RlmOptions,
        context: str = "",
        *,
        run_id: str = "",
        parent_id: str = "",
        depth: int = 0,
        inbox: Inbox | None = None,
    ) -> None:
        """`context`: empty means the prompt itself."""
        self.loop_context = loop_context
        self.options = options
        self.run_id = run_id or loop_context.new_id()
        self.depth = depth
        self.inbox = inbox or Inbox()
        self.failure = ""
        """The last error of the model."""
        self._context = context
        self._parent_id = parent_id
        self._channel = loop_context.outbox.channel(self.run_id)
        self._emit: Callable[[Event], bool] = self._channel.put
        self._results: dict[str, Any] = {}
        self._calls = ToolExecutor(loop_context, self._tool_options(), self._channel, _no_spawn)
        self._commands = 0
        self._queries = asyncio.Semaphore(options.most_queries_at_once)
        self._repl: Repl | None = None
        self._input: ReplInput | None = None
        self._turns: list[Turn] = []
        self._usage_so_far = Usage()
        self._asked_count = 0
        self._answer = ""
        self._started_ms = loop_context.hub.clock()

    async def run(self, prompt: str) -> Result:
        """Answer the prompt. When it is cancelled, it closes everything before it raises CancelledError."""
        self._emit(
            SessionStart(
                agent=self.options.agent.agent,
                model=self.options.agent.model.name,
                cwd=self.loop_context.cwd,
                version=self.options.agent.version,
                sandbox=self.loop_context.sandbox,
                parent_id=self._parent_id,
                max_turns=self.options.agent.max_iterations,
            )
        )
        outcome: Outcome = "failed"
        try:
            outcome = await stoppable(self.loop_context, self._rounds(prompt), self._grace_s)
        except asyncio.CancelledError:
            outcome = self.loop_context.stopped or "interrupted"
            raise
        except HarnessError as error:
            self.failure = error.words
            self._emit(Error(message=error.words, code="spawn_failed"))
        except Exception as error:
            self._emit(Error(message=f"the loop broke: {error!r}", code="internal_error"))
            raise
        finally:
            await self._close()
            result = self._finish(outcome)
        return result

    async def _rounds(self, prompt: str) -> Outcome:
        options = self.options
        context = self._context or prompt
        self._turns.append(SystemTurn(self._system_prompt(context)))
        self._say(prompt)
        self.loop_context.outbox.flush()
        self.inbox.open(partial(self.loop_context.outbox.append_steering, self.run_id))
        functions = {"llm_query": self._query, "exec": self._execute}
        self._repl = Repl(context, options.limits, functions, self._show)
        await self._repl.start()  # before the model is asked: without it every answer would be in vain
        for iteration in range(options.agent.max_iterations):
            for steered in self.inbox.take_steering():
                self._say(steered.text, steered.message_id)
            if self._is_budget_spent:
                limit = LIMITS["budget"]
                message = limit.message.format(f"${options.agent.max_budget_usd:g}")
                self._emit(Error(message=message, code=limit.code))
                return "limit_exceeded"
            if not await self._is_admitted():
                return "limit_exceeded"
            answered = await self._ask()
            if answered.message is None:
                return "failed"
            if answered.is_cut_off:  # half a program is not run
                self._turns.append(UserTurn(error_feedback(f"{answered.failure}. Write less at a time")))
            elif await self._round(answered.message.text, iteration):
                return "completed"
        limit = LIMITS["turns"]
        self._emit(Warning(message=limit.message.format(options.agent.max_iterations), code=limit.code))
        return "limit_exceeded"

    async def _round(self, answer: str, iteration: int) -> bool:
        """Run what the model wrote; whether that was the end."""
        code, problem = extract(answer)
        if problem:
            self._emit(Error(message=problem, code="no_code"))
            self._turns.append(UserTurn(error_feedback(problem)))
            return False
        turn = await self._run(code, iteration)
        self._turns.append(UserTurn(output_feedback(turn.stdout, turn.error)))
        if turn.final is None:
            return False
        self._answer = turn.final
        self._emit(Message(role="assistant", text=turn.final, id=self.loop_context.new_id()))
        last = self.inbox.take_last()
        for message in last:
            self._say(message.text, message.message_id)
        return not last

    async def _ask(self) -> Answered:
        self._asked_count += 1
        answered = await call_model(
            self.loop_context, self.options.agent, self._turns, self._emit, self._count
        )
        self.failure = answered.failure or self.failure
        if answered.message is not None:
            self._turns.append(AssistantTurn(answered.message.text, opaque=answered.message.opaque))
        return answered

    async def _run(self, code: str, iteration: int) -> CodeResult:
        assert self._repl is not None
        began = self._input = ReplInput(id=self.loop_context.new_id(), code=code, iteration=iteration)
        self._emit(began)
        turn = await self._repl.run(code)
        self._input = None
        self._emit(
            ReplOutput(
                id=began.id,
                stdout=turn.stdout,
                error=turn.error,
                done=turn.final is not None,
                iteration=iteration,
                duration_ms=turn.duration_ms,
                truncated=turn.is_truncated,
            )
        )
        return turn

    # What the code may call

    async def _query(self, arguments: dict[str, Any]) -> str:
        """`llm_query`."""
        prompt, context = str(arguments["prompt"]), arguments.get("context")
        context = "" if context is None else str(context)
        options, question_input = self.options, self._input
        if question_input is None:
            raise ToolFailure("the turn is over")
        if len(prompt) > options.prompt_budget:
            raise ToolFailure(
                f"the prompt has {len(prompt)} characters, and may have {options.prompt_budget}: "
                "give what is to be read as ctx"
            )
        async with self._queries:
            if self._is_budget_spent or not await self._is_admitted():
                raise ToolFailure("the budget is used up")
            depth = self.depth + 1
            prompt_shown = repr(shortened(prompt, _SHOWN_PROMPT_CHARACTERS))
            self._show(
                "stderr", f"[llm_query] prompt={prompt_shown} context={len(context)} chars depth={depth}\n"
            )
            ask = self._ask_recursively if options.max_depth > 0 else self._ask_once
            answer = await ask(prompt, context, question_input.id)
            self._show("stderr", f"[llm_query] done result={len(answer)} chars\n")
        return answer

    async def _ask_recursively(self, prompt: str, context: str, parent_id: str) -> str:
        child = RlmRun(
            self.loop_context, self.options.inner(), context, parent_id=parent_id, depth=self.depth + 1
        )
        result = await ended(
            self.loop_context, child.run_id, child.run(prompt), if_stopped="the query was stopped"
        )
        if not result.success:
            raise ToolFailure(f"there is no answer: {child.failure or result.outcome}")
        return result.text

    async def _ask_once(self, prompt: str, context: str, parent_id: str) -> str:
        """A run of one call, the usage of which is ours."""
        agent = self.options.inner().agent
        text = f"{prompt}\n\n{context}" if context else prompt
        channel = self.loop_context.outbox.channel(self.loop_context.new_id())
        start = SessionStart(
            agent=agent.agent,
            model=agent.model.name,
            cwd=self.loop_context.cwd,
            version=agent.version,
            name="llm_query",
            parent_id=parent_id,
        )
        channel.put(start)
        channel.put(Message(role="user", text=shortened(text, _MOST_LOGGED_CHARACTERS)))
        outcome: Outcome = "failed"
        answer = ""
        try:
            answered = await call_model(self.loop_context, agent, [UserTurn(text)], channel.put, self._count)
            if answered.message is None or answered.is_cut_off:
                raise ToolFailure(f"there is no answer: {answered.failure}")
            outcome, answer = "completed", answered.message.text
        except asyncio.CancelledError:
            outcome = self.loop_context.stopped or "interrupted"
            raise
        finally:
            channel.put(Result(success=outcome == "completed", outcome=outcome, text=answer))
            channel.close()
        return answer

    async def _execute(self, arguments: dict[str, Any]) -> Any:
        """`exec`."""
        self._commands += 1
        call = Call(f"exec-{self._commands}", Exec.spec.name, arguments)
        turns = await self._calls.execute(await self._calls.admit([call]))
        assert turns is not None, "commands ask no questions"
        [turn] = turns
        result = self._results.pop(f"{self.run_id}/{call.id}", None)
        if result is None:
            raise ToolFailure(f"exec {_in_words(turn.text)}")
        return result

    def _tool_options(self) -> AgentOptions:
        """Those under which commands are permitted and run."""
        options = self.options
        tool = Exec(self.loop_context.cwd, self._show, options.exec_timeout_s, options.sandbox)
        return replace(options.agent, tools=(tool,), on_output=self._keep_result)

    def _keep_result(self, call_id: str, output: ToolOutput) -> None:
        self._results[call_id] = output.result

    def _show(self, stream: ReplStream, text: str) -> None:
        if self._input is not None:
            self._emit(ReplProgress(id=self._input.id, text=text, stream=stream))

    # Bookkeeping

    def _system_prompt(self, context: str) -> str:
        options = self.options
        own = system_prompt(
            context,
            prefix_characters=options.prefix_characters,
            most_characters=options.limits.most_characters,
            prompt_budget=options.prompt_budget,
            exec_timeout_s=options.exec_timeout_s,
            is_recursive=options.max_depth > 0,
        )
        return f"{own}\n\n{options.agent.system_prompt}" if options.agent.system_prompt else own

    def _say(self, text: str, message_id: str = "") -> None:
        """A message of the user."""
        self._emit(Message(role="user", text=text, id=message_id))
        self._turns.append(UserTurn(text))

    def _count(self, event: UsageDelta) -> None:
        for warning in self.loop_context.unpriced_warnings(self.options.agent):
            self._emit(warning)
        self._usage_so_far = self._usage_so_far.plus(event.usage)
        self._emit(event)

    @property
    def _is_budget_spent(self) -> bool:
        budget_usd = self.options.agent.max_budget_usd
        return budget_usd is not None and self.loop_context.spent_usd >= budget_usd

    async def _is_admitted(self) -> bool:
        """At the limits of `harness budget`."""
        gate = self.options.agent.gate
        return gate is None or await gate.admits(self._emit)

    def _grace_s(self) -> float:
        return GRACE_S / (1 + self.depth)

    async def _close(self) -> None:
        """End the REPL and everything that was asked from there, however often it is cancelled."""
        if self._repl is None:
            return
        closing = asyncio.ensure_future(self._repl.close())
        while not closing.done():
            try:
                await asyncio.wait([closing])
            except asyncio.CancelledError:
                continue  # it is being cancelled already, and every process was asked to end

    def _finish(self, outcome: Outcome) -> Result:
        self._calls.close()
        if self._input is not None:
            self._emit(
                ReplOutput(id=self._input.id, error="the run was stopped", iteration=self._input.iteration)
            )
        if messages_left := self.inbox.close():
            self._emit(not_taken(messages_left))
        result = Result(
            success=outcome == "completed",
            outcome=outcome,
            text=self._answer if outcome == "completed" else "",
            duration_ms=max(0, self.loop_context.hub.clock() - self._started_ms),
            total_cost_usd=self._usage_so_far.cost_usd,
            usage=self._usage_so_far or None,
            turns=self._asked_count,
        )
        self._emit(result)
        self._channel.close()
        return result


def _in_words(failure: str) -> str:
    """A model that calls tools gets a refusal as data; code gets an exception with this text."""
    try:
        answer = msgspec.json.decode(failure)
    except msgspec.DecodeError:
        return failure
    is_refusal = isinstance(answer, dict) and answer.get("status") == "denied"
    return f"denied: {answer.get('reason', '')}" if is_refusal else failure


async def _no_spawn(call_id: str, task: str, name: str) -> str:
    del call_id, task, name
    raise ToolFailure("sub-agents cannot be started here")


# From a request to a recursive language model: its models, its context, what it may do.


def start(launch: Launch, hub: Hub, on_end: OnEnd, redact: bool) -> LoopWorker:
    """The worker of a run."""

    def open_run(loop_context: LoopContext, inbox: Inbox) -> RlmRun:
        context = read_context(launch.request.context)
        run_id = launch.run_id or hub.log_id
        options = _options(launch)
        on_ask = answering(launch.request.on_ask, loop_context.outbox.channel(run_id).put)
        options = replace(
            options, agent=replace(options.agent, on_ask=on_ask, gate=gate_of(launch, loop_context))
        )
        return RlmRun(loop_context, options, context, run_id=run_id, inbox=inbox)

    return LoopWorker(launch, hub, on_end, open_run, redact=redact)


def read_context(path: str) -> str:
    """Empty when none was named. Raises UsageError when it cannot be read."""
    if not path:
        return ""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8-sig", "replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read the context {path}: {reason}", hint="give a text file with --context"
        ) from error


def _options(launch: Launch) -> RlmOptions:
    from harness.sandbox.ladder import find_sandbox

    request = launch.request
    arguments = parse(request.extra_args)
    environ = launch.invocation.env
    options = RlmOptions(
        agent=AgentOptions(
            model=chosen_model(request.model, environ),
            permissions=permissions_for(request.permissions, request.cwd),
            system_prompt=request.append_system_prompt,
            max_iterations=request.limits.max_turns or MAX_ITERATIONS,
            max_budget_usd=request.limits.max_budget_usd,
            relay_deadline_s=request.ask_timeout_s or RELAY_DEADLINE_S,
            effort=request.effort,
            temperature=request.temperature,
            max_output_tokens=request.max_output_tokens,
            agent=launch.agent.name,
            version=launch.version,
        ),
        sandbox=find_sandbox(environ) if request.sandbox else None,
    )
    sub_model = open_model(arguments.sub_model, environ) if arguments.sub_model else None
    return arguments.applied(options, sub_model)
