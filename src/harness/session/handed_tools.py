"""Tools of a harness inside an agent program: served on loopback, decided and carried out here.

The program calls `ask_user`, `submit_plan` and the application's own tools as those of an MCP server. What may be done
is decided when the call arrives, by the session's rules, guards and people, as for the built-in agent; so the
program's own question about such a call is answered at once. In the log the call is the program's, what is asked is ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from harness.contracts.driver import AskedCall
from harness.contracts.model import Ask, Call, ToolSpec
from harness.contracts.tool import Tool, ToolFailure, ToolOutput
from harness.contracts.tool_servers import ServedTools
from harness.events import Event, Relay, RelayReply, ToolEnd, ToolProgress, ToolStart
from harness.native.loop.loop_context import AgentOptions
from harness.native.loop.resources import Resources
from harness.native.loop.tool_calls import ToolExecutor
from harness.questions.permissions import PermissionPolicy
from harness.runs.tool_server import ToolServer
from harness.session.builtin.ask_user import AskUserTool
from harness.session.builtin.submit_plan import SubmitPlanTool
from harness.session.config import tools_of
from harness.session.drivers import Drivers
from harness.session.held_tool import allowed_tools
from harness.session.permissions import declined
from harness.session.run_hooks import RunHooks
from harness.session.runs import Runs
from harness.session.session_settings import SessionSettings

if TYPE_CHECKING:
    from harness.runs.run import Run
    from harness.session.open_thread import OpenThread

_BEGINS_S = 10.0
"""For the run that a call belongs to: a program that works by itself calls before its run has begun."""
_WINDOW = 128_000
"""Tokens: no result takes more than an eighth of what such a model reads."""
_SERVED_AS = {"ask_user": "ask_the_user"}
"""Gemini CLI offers its model no tool of a server that is called `ask_user`, as one of its own is."""
_BY_PROGRAM = (ToolStart, ToolEnd, ToolProgress)
"""What the log has from the program itself."""


def server_name(thread_id: str, created_ms: int) -> str:
    """The same for as long as the thread is, and no one else's: by it, questions of the program are known to be about
    these tools.
    """
    return f"harness{sha256(f'{thread_id} {created_ms}'.encode()).hexdigest()[:6]}"


class HandedTools:
    """The tools that one program has in one thread. Contract: used in the event loop, but for `reply`."""

    def __init__(
        self,
        settings: SessionSettings,
        drivers: Drivers,
        runs: Runs,
        hooks: RunHooks,
        thread: OpenThread,
        rules: Callable[[Sequence[Tool]], PermissionPolicy],
    ) -> None:
        """`rules`: those of the session for these tools, in the mode of the program."""
        self._settings, self._drivers, self._runs = settings, drivers, runs
        self._hooks, self._rules = hooks, rules
        self._context = self._hooks.host.loop_context(thread.hub)
        self._resources = Resources()
        self._channel: _AskingChannel | None = None
        self._has_begun = asyncio.Event()
        self._count = 0
        self.name: str = server_name(thread.id, thread.metadata.created_ms)
        self._server = ToolServer(self.name, self._specs, self._call)

    def served(self) -> ServedTools:
        """What the program is told."""
        return self._server.served()

    def begin(self, run: Run) -> None:
        """Calls belong to this run from now on."""
        self._channel = _AskingChannel(run)
        self._has_begun.set()

    def end(self) -> None:
        """The run is over, which has said so of all that waited."""
        self._has_begun.clear()
        self.withdraw()

    def withdraw(self) -> Sequence[Relay]:
        """Stop all calls; what they have asked and nobody has answered. From any thread."""
        if self._channel is not None:
            self._channel.close()
        questions_left = self._context.questions.open.withdraw_all()
        self._server.cancel_all()
        return questions_left

    @property
    def waits(self) -> bool:
        """Whether a person is asked. From any thread."""
        return bool(self._context.questions.open)

    def owns(self, call: AskedCall) -> bool:
        """Whether a program's question states that it is about one of these tools. From any thread."""
        stated_name = call.tool.removeprefix("mcp").lstrip("_")
        return not call.is_guess and (call.server == self.name or stated_name.startswith(f"{self.name}_"))

    def reply(self, reply: RelayReply) -> bool:
        """Answer what one of these calls asks. Raises UsageError for what is no answer to it."""
        return self._context.questions.reply(reply)

    async def close(self) -> None:
        self.end()
        await self._resources.close()
        await asyncio.to_thread(self._server.close)

    def tools(self) -> list[Tool]:
        """Those of now, by the mode of the session: each name once, a later set overrides an earlier one."""
        harness, mode, context = self._settings.harness, self._settings.mode.resolve(), self._runs.context
        own = (
            tool for tool in (AskUserTool(), SubmitPlanTool()) if tool.spec.name not in harness.disabled_tools
        )
        sets = (
            own,
            harness.mcp.tools(mode.mcp_servers),
            tools_of(harness.tools, context),
            tools_of(mode.tools, context),
            tools_of(mode.additional_tools, context),
        )
        tools_by_name = {tool.spec.name: tool for tools in sets for tool in tools}
        return allowed_tools(self._settings.permissions, tools_by_name.values(), mode)

    def _specs(self) -> list[ToolSpec]:
        specs = (tool.spec for tool in self.tools())
        return [replace(spec, name=_SERVED_AS.get(spec.name, spec.name)) for spec in specs]

    async def _call(self, name: str, arguments: dict[str, Any]) -> ToolOutput:
        try:
            async with asyncio.timeout(_BEGINS_S):
                await self._has_begun.wait()
        except TimeoutError:
            return ToolOutput(text="no turn is running", success=False)
        self._count += 1
        own_name = next((own for own, served in _SERVED_AS.items() if served == name), name)
        call = Call(id=f"{self.name}-{self._count}", name=own_name, input=arguments)
        channel = self._channel
        assert channel is not None, "a run has begun"
        executor = ToolExecutor(self._context, self._options(), channel, _no_spawn, resources=self._resources)
        turns = await executor.execute(await executor.admit([call]))
        assert turns, "a call that cannot be suspended ends with a result"
        turn = turns[0]
        return ToolOutput(text=turn.text, success=not turn.is_error, attachments=turn.attachments)

    def _options(self) -> AgentOptions:
        tools, guards = tuple(self.tools()), self._hooks.guards
        return AgentOptions(
            model=_NoModel(),
            tools=tools,
            permissions=self._rules(tools),
            context_window=_WINDOW,
            relay_deadline_s=None,
            request=self._runs.context,
            refusal=declined,
            agent=self._drivers.current.agent_name,
            before_call=guards.before_call if guards.has_calls else None,
            after_call=guards.after_call if guards.has_calls else None,
        )


class _AskingChannel:
    """Writes what the calls ask, and how it was answered, as events of the program's run."""

    def __init__(self, run: Run) -> None:
        self.run_id = run.id
        self._run = run
        self._is_closed = False

    def put(self, event: Event) -> bool:
        if not self._is_closed and not isinstance(event, _BY_PROGRAM):
            self._run.note(event)
        return False

    def close(self) -> None:
        self._is_closed = True


class _NoModel:
    """The model is the program's: here it is never asked."""

    name = ""

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        raise NotImplementedError(ask)


async def _no_spawn(call_id: str, task: str, name: str) -> str:
    del call_id, task, name
    raise ToolFailure("sub-agents of Harness cannot be started by an agent program")
