"""The tool calls of one run: permission in order, execution at once, results as they come.

Every call gets a `ToolStart` and a `ToolEnd`, whatever becomes of it; the model gets one turn for each,
in the order in which it asked. A refusal without a question is a `RelayReply` by policy, whose id is that
of the call.

A call that waits for an answer does not stop the others: when they have ended, the question of the first
waiting call is asked, and the run is suspended. Where a run cannot be suspended, the call itself waits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from harness.approvals.call import ProposedCall
from harness.contracts.model import Call, ToolSpec, ToolTurn
from harness.contracts.tool import (
    Question,
    Stream,
    Suspension,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
)
from harness.conversation.suspended_run import Resumption, SuspendedRun
from harness.conversation.turns import file_parts, tool_turn
from harness.events import (
    Info,
    Operation,
    Relay,
    RelayReply,
    Suspended,
    Task,
    TasksChanged,
    ToolEnd,
    ToolProgress,
    ToolStart,
)
from harness.events.operation import List, Read, Write
from harness.native.loop.cancellation import settled
from harness.native.loop.instructions import in_words, nested_instructions, told_of
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.loop_guard import LoopGuard
from harness.native.loop.outbox import EventChannel
from harness.native.loop.resources import Resources
from harness.native.loop.tool_messages import (
    SAID_NO,
    bounded,
    data_of,
    failure_words,
    happening,
    problem_of,
    without_effect,
)
from harness.native.tools.function_tool import is_quick, output_of
from harness.native.tools.spellings import in_our_words
from harness.questions.choices import choices_of, granted, preview_of
from harness.questions.permissions import proposed_call

_GRACE_S = 3.0
"""How long calls that are stopped may take to clean up."""


class AdmittedCall:
    """A call that may run."""

    __slots__ = ("answers", "arguments", "call", "call_id", "context", "places", "question", "tool")

    def __init__(self, call: Call, call_id: str, tool: Tool) -> None:
        self.call: Call = call
        self.call_id: str = call_id
        self.tool: Tool = tool
        self.arguments: dict[str, Any] = dict(call.input)
        self.context: ToolContext
        self.places: tuple[str, ...] | None = None
        """Where the files that it changes really lay when it was decided; None where that is not known."""
        self.answers: list[RelayReply] = []
        """To its questions, in order; without those that it has asked again."""
        self.question: Question | None = None
        """What it waits for, when it has ended because of that."""


class ToolExecutor:
    def __init__(
        self,
        context: LoopContext,
        options: AgentOptions,
        channel: EventChannel,
        spawn: Callable[..., Awaitable[str]],
        *,
        can_suspend: bool = False,
        depth: int = 0,
        asker: tuple[str, str] = ("", ""),
        resources: Resources | None = None,
        told_paths: set[str] | None = None,
    ) -> None:
        """`spawn`: (call id, task, name, and a wish where there is one) → the answer of a sub-agent. `asker`: of a sub-agent, its name and the call
        that began it. `resources`: those of a conversation, which last longer than the run. `told_paths`: folders whose
        instructions the model has.
        """
        self.ended: dict[str, ToolTurn] = {}
        """By full id, the calls of this step that have ended."""
        self.relay: Relay | None = None
        """The question that must be answered before the calls can continue; it is not in the log yet."""
        self.answered: dict[str, tuple[RelayReply, ...]] = {}
        """By the model's id of a call: the answers to its questions so far."""
        self.is_asking = False
        """Whether a question is open."""
        self.guard: LoopGuard = LoopGuard()
        self.tasks: list[Task] = []
        """The to-do list, as far as calls of this run have changed it."""
        self.resources: Resources = resources or Resources()
        """What calls leave to later ones."""
        self.owns_resources: bool = resources is None
        self.of_run: Resources = Resources()
        """What does not outlive the run, in a conversation either."""
        self._told_paths: set[str] = set() if told_paths is None else told_paths
        self._context = context
        self._options = options
        self._longest_output = options.longest_output
        self._channel = channel
        self._spawn = spawn
        self.can_suspend = can_suspend
        """Whether the run may be suspended while it waits for an answer."""
        self._depth = depth
        self.asker = asker
        self._tools: dict[str, Tool] = {}
        self._specs: list[ToolSpec] = []
        self._more: Sequence[Tool] | None = None
        self.offered()
        self._open: dict[str, str] = {}
        self._loop = asyncio.get_running_loop()
        self._asking = asyncio.Lock()

    @property
    def open_ids(self) -> Collection[str]:
        """The full ids of calls that were started and have not ended."""
        return self._open.keys()

    def offered(self) -> list[ToolSpec]:
        """What the model may call in its next step: the tools of the options, and those that there are besides now."""
        more = self._options.more_tools() if self._options.more_tools is not None else ()
        if more is not self._more:
            self._more = more
            own = {tool.spec.name for tool in self._options.tools}
            tools = (*self._options.tools, *(tool for tool in more if tool.spec.name not in own))
            self._tools = {tool.spec.name: tool for tool in tools}
            self._specs = [tool.spec for tool in tools]
        return self._specs

    async def admit(
        self, calls: Sequence[Call], resumption: Resumption | None = None
    ) -> list[ToolTurn | AdmittedCall]:
        """Ask for permission, one call after the other; a call that may not or cannot run has its result at once."""
        if resumption is not None:
            return [await self._admit_again(call, resumption) for call in calls]
        self.ended.clear()
        return [await self._admit(call) for call in calls]

    async def execute(self, admitted: list[ToolTurn | AdmittedCall]) -> list[ToolTurn] | None:
        """Run all that were admitted at the same time; the results of all calls, in order.

        None when a call waits for a person: `relay` must be answered first.
        """
        turns = admitted
        self._context.outbox.flush()  # what is about to be done is in the log before it is done
        before_work = self._options.before_work or self._context.before_work
        if before_work is not None:
            running = [turn for turn in turns if isinstance(turn, AdmittedCall)]
            await before_work([_operations(call.tool, call.arguments) for call in running])
        if len(turns) == 1 and isinstance(only := turns[0], AdmittedCall) and is_quick(only.tool):
            turns[0] = await self._execute(only)
            await asyncio.sleep(0)  # nobody else had a turn meanwhile
        else:
            await self._execute_all(turns)
        results = [turn for turn in turns if isinstance(turn, ToolTurn)]
        if len(results) < len(turns):
            self.relay = self._question(next(turn for turn in turns if isinstance(turn, AdmittedCall)))
            return None
        return results

    async def _execute_all(self, turns: list[ToolTurn | AdmittedCall]) -> None:
        tasks = {
            asyncio.create_task(self._execute(turn)): place
            for place, turn in enumerate(turns)
            if isinstance(turn, AdmittedCall)
        }
        if tasks:
            await self._wait(tasks, turns)

    def restore(self, pending: SuspendedRun) -> None:
        """The calls of a step that was started before the run was suspended."""
        for call in pending.calls:
            call_id, entry = f"{pending.run_id}/{call.id}", pending.results.get(call.id)
            if entry is not None and isinstance(entry.turn, ToolTurn):
                self.ended[call_id] = entry.turn
            elif call.id in pending.started:
                self._open[call_id] = call.name

    def leave(self) -> bool:
        """Leave an unanswered question open in the log; what the run says later is not written."""
        if is_left := self.is_asking:
            self._channel.put(Suspended())
            self._channel.close()
        return is_left

    def close(self) -> None:
        """End what is still open: what became of it is unknown."""
        for call_id, name in list(self._open.items()):
            end = ToolEnd(call_id=call_id, tool_name=name)
            self.ended[call_id] = tool_turn(call_id.removeprefix(f"{self._channel.run_id}/"), end)
            self._put_end(end)

    async def _admit_again(self, call: Call, resumption: Resumption) -> ToolTurn | AdmittedCall:
        """A call that was admitted earlier is not asked about again, and one that has ended not carried out."""
        call_id = f"{self._channel.run_id}/{call.id}"
        if (turn := self.ended.get(call_id)) is not None:
            return turn
        call = in_our_words(call, self._tools, self.resources.get)
        if call.id not in resumption.pending.started:
            relay = resumption.pending.relay_of(call_id)
            reply = resumption.replies.get(relay.id) if relay is not None else None
            return await self._admit(call, relay, reply)
        tool = self._tools.get(call.name)
        if tool is None:
            return self._end(call, call_id, ToolOutput(text=self._unknown(call), success=False))
        answers = resumption.answers_to(call, call_id)
        if answers:
            self.answered[call.id] = tuple(answers)
        call, refusal = await self._guarded(call, tool)
        if refusal is not None:
            operations = _operations(tool, call.input)
            return self._end(call, call_id, without_effect(self._options.refusal(refusal), operations))
        return self._admitted(call, call_id, tool, answers)

    async def _guarded(self, call: Call, tool: Tool) -> tuple[Call, str | None]:
        """The call as `before_call` wants it, and why it may not run. Whoever is asked for permission sees that one."""
        before_call = self._options.before_call
        if before_call is None:
            return call, None

        def propose(arguments: dict[str, Any]) -> ProposedCall:
            return proposed_call(call.name, arguments, _operations(tool, arguments), id=call.id)

        proposal = await before_call(call, propose)
        return (call, proposal) if isinstance(proposal, str) else (proposal or call, None)

    async def _admit(
        self, call: Call, relay: Relay | None = None, reply: RelayReply | None = None
    ) -> ToolTurn | AdmittedCall:
        """`relay`: the question, if it was asked already; `reply`: its answer, if there is one."""
        call_id = f"{self._channel.run_id}/{call.id}"
        question = relay.input if relay is not None else None
        call = in_our_words(call, self._tools, self.resources.get, question)
        tool = self._tools.get(call.name)
        problem = problem_of(call) or getattr(tool, "refusal", "")
        refusal: str | None = None
        if tool is not None and not problem:
            call, refusal = await self._guarded(call, tool)
        operations = _operations(tool, call.input) if tool is not None and not problem else []
        places = _places_of(operations)
        if tool is None:
            problem = self._unknown(call)
        elif refusal is not None:
            self._channel.put(RelayReply(id=call_id, approved=False, by="policy", reason=refusal))
        elif relay is not None:
            refusal = self._refusal_after(relay, tool, reply or await self._answer(relay))
        else:
            refusal, problem = await self._refusal(call, call_id, tool, operations, problem)
        self._open[call_id] = call.name
        self._channel.put(
            ToolStart(call_id=call_id, tool_name=call.name, input=call.input, operations=operations)
        )
        if refusal is not None:
            return self._end(call, call_id, without_effect(self._options.refusal(refusal), operations))
        if tool is None or problem:
            return self._end(call, call_id, ToolOutput(text=problem, success=False))
        admitted = self._admitted(call, call_id, tool, [])
        admitted.places = places if relay is None else None
        return admitted

    def _admitted(self, call: Call, call_id: str, tool: Tool, answers: list[RelayReply]) -> AdmittedCall:
        admitted = AdmittedCall(call, call_id, tool)
        admitted.answers = answers
        admitted.context = self._tool_context(admitted)
        return admitted

    def _unknown(self, call: Call) -> str:
        names = ", ".join(self._tools) or "none"
        return f"there is no tool called {call.name} (there are: {names})"

    async def _refusal(
        self, call: Call, call_id: str, tool: Tool, operations: list[Operation], problem: str
    ) -> tuple[str | None, str]:
        """Why it may not run, None when it may; and why it cannot be carried out anyway, without asking."""
        permissions = self._options.permissions
        arguments = call.input if isinstance(call.input, dict) else {}
        verdict = permissions.verdict(proposed_call(call.name, arguments, operations, id=call.id))
        if verdict.decision == "allow" or problem:
            return None, problem
        if verdict.decision == "deny":
            self._channel.put(RelayReply(id=call_id, approved=False, by="policy", reason=verdict.reason))
            return verdict.reason, ""
        try:
            preview = await preview_of(tool, dict(arguments), self._admitted(call, call_id, tool, []).context)
        except Exception as error:  # noqa: BLE001 # a preview is code of the tool: the model reads what failed
            return None, failure_words(error)
        name, spawn_call_id = self.asker
        relay = Relay(
            id=self._context.new_id(),
            call_id=call_id,
            tool_name=call.name,
            input=call.input,
            choices=choices_of(
                tool, dict(arguments), operations, permissions.folder, is_lasting=verdict.is_lasting
            ),
            category=verdict.category,
            why=verdict.reason,
            preview=preview,
            subagent=name,
            spawn_call_id=spawn_call_id,
        )
        return self._refusal_after(relay, tool, await self._ask(relay)), ""

    def _refusal_after(self, relay: Relay, tool: Tool, reply: RelayReply) -> str | None:
        if not reply.approved:
            return reply.reason or SAID_NO
        for permission in granted(relay, reply, tool):
            self._options.permissions.grant(permission)
        return None

    def _question(self, admitted: AdmittedCall) -> Relay:
        question = admitted.question
        assert question is not None, "what has not ended waits"
        return Relay(
            id=self._context.new_id(),
            kind=question.kind,
            call_id=admitted.call_id,
            tool_name=admitted.call.name,
            input=admitted.call.input,
            question=question.question,
            options=question.options,
            payload=question.payload,
            resume_schema=question.schema,
            subagent=self.asker[0],
            spawn_call_id=self.asker[1],
        )

    async def _suspend(self, admitted: AdmittedCall, question: Question) -> Any:
        """The answer to a call that asks: one that is there already, or one that it has to wait for."""
        if not admitted.answers and self.can_suspend:
            raise Suspension(question)
        return await self._wait_here(admitted, question)

    async def _wait_here(self, admitted: AdmittedCall, question: Question) -> Any:
        """The same without releasing anything."""
        if admitted.answers:
            reply = admitted.answers.pop(0)
        else:
            async with self._asking:  # one question at a time
                admitted.question = question
                relay = self._question(admitted)
                reply = await self._ask(relay)
        if reply.answer is None and not reply.approved:
            raise ToolFailure(reply.reason or "the user did not answer")
        return reply.answer

    async def _ask(self, relay: Relay) -> RelayReply:
        if (reply := self._options.on_ask(relay) if self._options.on_ask is not None else None) is not None:
            self._channel.put(relay)
            self._channel.put(reply)
            return reply
        # A reader of the log may answer it at once.
        is_for_others = relay.kind == "permission" and self._options.ask_permission is not None
        expected = None if is_for_others else self._context.questions.expect(relay)
        self._channel.put(relay)
        return await self._answer(relay, expected)

    async def _answer(self, relay: Relay, expected: asyncio.Future[RelayReply] | None = None) -> RelayReply:
        self.is_asking = True
        try:
            deadline_s, ask = self._options.relay_deadline_s, self._options.ask_permission
            if ask is not None and relay.kind == "permission":
                reply = await ask(relay, deadline_s)
            else:
                reply = await self._context.questions.answer(relay, deadline_s, expected)
        except asyncio.CancelledError:
            reason = "the run was stopped"
            self._channel.put(RelayReply(id=relay.id, approved=False, by="policy", reason=reason))
            raise
        finally:
            self.is_asking = False
        self._channel.put(reply)
        return reply

    async def _wait(
        self, tasks: dict[asyncio.Task[ToolTurn | AdmittedCall], int], turns: list[ToolTurn | AdmittedCall]
    ) -> None:
        deadline_s = self._options.tool_deadline_s
        try:
            await settled(tasks, deadline_s)
            if late := [task for task in tasks if not task.done()]:
                await self._stop(late)
        except asyncio.CancelledError:
            await self._stop(tasks)
            raise
        for task, place in tasks.items():
            admitted = turns[place]
            assert isinstance(admitted, AdmittedCall)
            if task.done() and not task.cancelled():
                turns[place] = task.result()
            else:
                output = ToolOutput(text=f"it did not end within {deadline_s or 0:g} s", success=False)
                turns[place] = self._end(admitted.call, admitted.call_id, output)

    async def _stop(self, tasks: Collection[asyncio.Task[ToolTurn | AdmittedCall]]) -> None:
        """Cancel them, and wait a little, unless cancelled again. Some tasks ignore cancellation."""
        for task in tasks:
            task.cancel()
        try:
            # The parent that stops a sub-agent waits as well: deeper runs get less time.
            await asyncio.wait(tasks, timeout=_GRACE_S / (1 + self._depth))
        finally:
            self._context.abandon(task for task in tasks if not task.done())

    async def _execute(self, admitted: AdmittedCall) -> ToolTurn | AdmittedCall:
        """The call itself when it waits for an answer."""
        started_ms = self._context.hub.clock()
        context = admitted.context
        if (reason := self._denial(admitted)) is not None:
            self._channel.put(RelayReply(id=admitted.call_id, approved=False, by="policy", reason=reason))
            return self._end(admitted.call, admitted.call_id, self._options.refusal(reason))
        if self._options.before_run is not None:
            await self._options.before_run(admitted.call, _operations(admitted.tool, admitted.arguments))
        try:
            output = await admitted.tool.run(admitted.arguments, context)
            if not isinstance(output, ToolOutput):
                output = output_of(output)  # type: ignore[unreachable]  # a tool that was not type-checked
        except asyncio.CancelledError:
            context.cancelled = True
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            output = ToolOutput(text="it was cancelled", success=False)
        except Suspension as suspension:
            admitted.question = suspension.question
            return admitted
        except KeyboardInterrupt:
            raise  # from the user's keyboard
        except BaseException as error:  # noqa: BLE001 # a tool may raise anything: the model reads what failed
            output = ToolOutput(text=failure_words(error), success=False)
        if self._options.after_call is not None:
            output = await self._options.after_call(admitted.call, output)
        duration_ms = self._context.hub.clock() - started_ms
        return self._end(admitted.call, admitted.call_id, output, duration_ms)

    def _denial(self, admitted: AdmittedCall) -> str | None:
        """The permissions may have changed since the call was allowed, and a link may lead elsewhere."""
        arguments = admitted.arguments
        operations = _operations(admitted.tool, arguments)
        if admitted.places is not None and admitted.places != _places_of(operations):
            return "its path leads elsewhere than when it was decided"
        call = proposed_call(admitted.call.name, arguments, operations, id=admitted.call.id)
        return self._options.permissions.denial(call)

    def _end(self, call: Call, call_id: str, output: ToolOutput, duration_ms: int | None = None) -> ToolTurn:
        text, attachments = bounded(output, self._longest_output)
        if self._options.stops_repeats:
            text += self.guard.notice(call, text)
        if output.success and (operations := happening(output)):
            text += self._instructions(operations)
        self._put_end(
            ToolEnd(
                call_id=call_id,
                tool_name=call.name,
                success=output.success,
                output=text,
                exit_code=output.exit_code,
                duration_ms=duration_ms,
                operations=output.operations,
                parts=file_parts(attachments),
                result=data_of(output.result),
            ),
            output.tasks if output.success else None,
        )
        if self._options.on_output is not None:
            self._options.on_output(call_id, output)
        turn = ToolTurn(call.id, text, is_error=not output.success, attachments=attachments)
        self.ended[call_id] = turn
        return turn

    def _instructions(self, operations: Sequence[Operation]) -> str:
        """What is said in the folders that a call has touched, unless the model has it already."""
        cwd, words = self._context.cwd, ""
        for operation in operations:
            if isinstance(operation, Read | Write | List) and operation.path:
                instructions = nested_instructions(os.path.join(cwd, operation.path), cwd, self._told_paths)
                if instructions:
                    self._channel.put(Info(message=told_of(instructions), code="instructions"))
                    words += f"\n\n{in_words(instructions)}"
        return words

    def _put_end(self, end: ToolEnd, tasks: list[Task] | None = None) -> None:
        """`tasks`: the to-do list, if the call has changed it."""
        # A call that was given up may still end some time later.
        if self._open.pop(end.call_id, None) is not None:
            self._channel.put(end)
            if tasks is not None:
                self.tasks[:] = tasks
                self._channel.put(TasksChanged(tasks=tasks))

    def _tool_context(self, admitted: AdmittedCall) -> ToolContext:
        call_id = admitted.call_id
        return ToolContext(
            cwd=self._context.cwd,
            env=self._context.env,
            run_id=self._channel.run_id,
            call_id=call_id,
            files=self._context.files,
            on_progress=lambda text: self._progress(call_id, text, ""),
            on_stream=lambda text, stream: self._progress(call_id, text, stream),
            on_spawn=partial(self._spawn, call_id),
            on_suspend=lambda question: self._suspend(admitted, question),
            on_ask=lambda question: self._wait_here(admitted, question),
            on_resource=self._resource,
            request=self._options.request,
        )

    def _resource(self, make: Callable[[], Any]) -> Any:
        return (self.of_run if getattr(make, "ends_with_run", False) else self.resources).get(make)

    def _progress(self, call_id: str, text: str, stream: Stream) -> None:
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            self._put_progress(call_id, text, stream)
        else:
            with suppress(RuntimeError):  # the loop is closed: the run has ended
                self._loop.call_soon_threadsafe(self._put_progress, call_id, text, stream)

    def _put_progress(self, call_id: str, text: str, stream: Stream) -> None:
        if call_id in self._open:
            self._channel.put(ToolProgress(call_id=call_id, text=text, stream=stream))


def _places_of(operations: Sequence[Operation]) -> tuple[str, ...]:
    """Where the files that are changed really lie."""
    try:
        return tuple(
            os.path.realpath(operation.path)
            for operation in operations
            if isinstance(operation, Write) and operation.path
        )
    except (OSError, ValueError):  # no usable path: no tool will touch it
        return ()


def _operations(tool: Tool, arguments: dict[str, Any]) -> list[Operation]:
    try:
        return list(tool.operations(arguments))
    except Exception:  # noqa: BLE001 # as the model wrote them; a call that states no operation counts as dangerous
        return []
