"""The driver of the built-in loop in a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from harness.config import has_limits
from harness.contracts.model import Model
from harness.contracts.request import OWN_AGENT
from harness.contracts.tool import Tool
from harness.conversation.stored_history import stored_history
from harness.errors import UsageError
from harness.events import Info, Operation, RelayReply, Signal, Warning
from harness.models.fallback import with_fallbacks
from harness.models.registry import LOCAL, TOY, WHAT_IT_IS, usual_model
from harness.models.served_window import is_own_server, served_tools
from harness.native.loop.cancellation import TimeLimits
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions
from harness.native.loop.native import window_for
from harness.native.loop.resources import Resources
from harness.native.loop.system_prompt import news
from harness.native.loop.transcript import KnownTalk
from harness.runs.turn_checkpoints import LateCheckpoints, recorder_in
from harness.session.config import BackingAgent, Mode, tools_of
from harness.session.held_tool import allowed_tools
from harness.session.outputs import FinalAnswerTool, WantedOutput
from harness.session.permissions import declined
from harness.session.run_hooks import RunHooks
from harness.session.run_outcomes import Ended
from harness.session.runs import Runs
from harness.session.session_settings import SessionSettings
from harness.session.signals import create
from harness.session.thread_log import ThreadLog
from harness.session.user_message import UserMessage
from harness.usage.run_cost import prices_of

if TYPE_CHECKING:
    from harness.native.additions.checks import AroundCalls
    from harness.native.loop.loop_gate import LoopGate


class NativeDriver:
    """The built-in loop, in the event loop of the caller, on the thread's log."""

    capabilities: frozenset[str] = frozenset(
        (
            "steer",
            "approve",
            "suspend",
            "tools",
            "memory",
            "goals",
            "resume",
            "model",
            "append_system_prompt",
            "history",
            "compact",
        )
    )

    def __init__(self, log: ThreadLog, settings: SessionSettings, runs: Runs, hooks: RunHooks) -> None:
        self._log, self._settings, self._runs, self._hooks = log, settings, runs, hooks
        self._loaded: tuple[str, AgentConversation] | None = None
        self._logged_warnings = 0
        self._windows: dict[str, int | None] = {}
        self._knows_tools: dict[str, bool] = {}
        """Model → whether its server passes tools on to it."""
        self._notices: set[str] = set()
        self._resources = Resources()
        """Commands in the background: they last as long as the thread is open, not as long as one run."""
        self._checkpoints: LateCheckpoints | None = None
        """Of the run under way."""
        self._around: Any = None
        """Made once: it remembers what files were like before."""
        self.agent_name: str = OWN_AGENT

    @property
    def conversation(self) -> AgentConversation:
        """The conversation of the current thread; read from its log when it is first needed."""
        thread = self._log.require_thread()
        if self._loaded is None or self._loaded[0] != thread.id:
            context = self._hooks.host.loop_context(thread.hub)
            past = stored_history(thread.store, thread.id)
            self._loaded = (
                thread.id,
                AgentConversation(
                    context,
                    past.entries,
                    pending=past.pending,
                    untaken=past.untaken,
                    before=KnownTalk(past.measured, past.prompt, past.left_behind),
                    resources=self._resources,
                ),
            )
        return self._loaded[1]

    def flush(self) -> None:
        """Write what the loop has buffered to the log."""
        if self._loaded is not None:
            self._loaded[1].context.outbox.flush()

    def forget(self) -> None:
        """Read the thread again when it is next needed: its log was changed by others."""
        self.flush()
        self._loaded = None

    async def send(self, message: UserMessage, run_id: str) -> Ended:
        options = await self.options()
        conversation = self.conversation
        if signal := self._mode_signal():
            conversation.add(signal)
        if pause := self._hooks.memory.before_message(message.id):
            conversation.add(pause)
        sending = conversation.send(
            options, message.text, message.attachments, message_id=message.id, run_id=run_id
        )
        return await self._within_limits(run_id, sending)

    def _mode_signal(self) -> Signal | None:
        """What a mode says that keeps the prefix, unless the model has been told already."""
        mode = self._settings.mode.resolve()
        if not mode.keeps_prefix:
            return None
        texts = (entry.turn.text for entry in reversed(self.conversation.entries))
        shown_mode = next((text for text in texts if text.startswith("<mode ")), "")
        if shown_mode.startswith(f'<mode id="{mode.id}"') or not (shown_mode or mode.instructions):
            return None
        text = mode.instructions or "What the mode before said no longer holds: the work may be done."
        return create(
            "reactive", text, id=self._settings.harness.new_id(), tag_name="mode", attributes={"id": mode.id}
        )

    async def resume(self, replies: Mapping[str, RelayReply], *, ends: bool = False) -> Ended:
        options = await self.options()
        if ends:
            options = replace(options, stop_when=lambda _context: True)
        run_id = self._log.bus.fold.facts.open_run
        return await self._within_limits(run_id, self.conversation.resume(options, replies))

    async def wake(self, signal: Signal, run_id: str) -> Ended:
        waking = self.conversation.wake(await self.options(), signal, run_id=run_id)
        return await self._within_limits(run_id, waking)

    async def compact(self, focus: str, run_id: str) -> Ended:
        """Sum up the conversation so far, in a run of its own."""
        compacting = self.conversation.compact(await self.options(), focus, run_id=run_id)
        return await self._within_limits(run_id, compacting)

    async def _within_limits(self, run_id: str, running: Coroutine[Any, Any, Ended]) -> Ended:
        """Wait until the run has ended by itself or by one of its time limits."""
        context = self.conversation.context
        context.has_output = False
        watch = TimeLimits(context, run_id, self._runs.limits, self._runs.cancel)
        watch.watch()
        try:
            return await self._recorded(run_id, running)
        finally:
            watch.close()

    async def _recorded(self, run_id: str, running: Coroutine[Any, Any, Ended]) -> Ended:
        """With checkpoints around what may change files, so that it can be undone."""
        folder, hub = self._settings.working_directory, self.conversation.context.hub
        checkpoints = self._checkpoints = LateCheckpoints(lambda: recorder_in(folder, hub, run_id))
        try:
            try:
                if self._resources.running or self._around is not None:
                    await checkpoints.begin()  # commands of before go on, or hooks may change files as well
            except asyncio.CancelledError:  # stopped before it began
                running.close()
                raise
            return await running
        finally:
            await checkpoints.end()

    async def _before_work(self, calls: Sequence[Sequence[Operation]]) -> None:
        if self._checkpoints is not None:
            await self._checkpoints.before(calls)

    def leave(self) -> bool:
        return self._loaded is not None and self._loaded[1].leave()

    def join(self, message: UserMessage) -> bool:
        return self._loaded is not None and self._loaded[1].steer(
            message.text, message.attachments, message_id=message.id
        )

    def reply(self, reply: RelayReply) -> bool:
        return self._loaded is not None and self._loaded[1].context.questions.reply(reply)

    @property
    def background(self) -> list[str]:
        """The commands that go on in the background."""
        return self._resources.running

    async def close(self) -> None:
        """End what goes on in the background. What it knows of a thread it reads again."""
        resources, self._resources = self._resources, Resources()
        if self._loaded is not None:
            self.forget()
        await resources.close()

    def configured(self) -> BackingAgent:
        mode, agent = self._settings.mode.resolve(), self._settings.agent
        assert isinstance(agent, BackingAgent)
        instructions = self._settings.harness.instructions_for(agent, mode)
        return replace(agent, instructions=instructions, tools=self._tools(mode, agent))

    async def options(self) -> AgentOptions:
        """The options of the next run, from the current mode, model and tools."""
        context, limits = self._runs.context, self._runs.limits
        model = await self._model()
        if limits.max_budget_usd is not None:
            self.conversation.context.cost_of = prices_of(self._settings.working_directory, must_hold=True)
        await self._hooks.memory.prepare()
        await self._settings.resolve_workspace(context)
        self._warn_of_servers()
        self.agent_name = (agent := self.configured()).name
        tools, more = tools_of(agent.tools, context), self._more_tools()
        wanted, around = self._runs.output, self._around_calls(agent)
        final = _final_answer(wanted, model, has_tools=bool(tools or more()))
        if self._is_toy(model.name):
            tools, more = (), tuple
        options = self._hooks.options = AgentOptions(
            model=model,
            tools=(*tools, *final),
            more_tools=more,
            permissions=self._settings.permissions.of((*tools, *final), is_main=True, more=more),
            lasting_prompt=await _lasting(agent),
            system_prompt=agent.instructions,
            news=news,
            conversation_id=self.conversation.context.hub.log_id,
            max_iterations=min(agent.max_steps, limits.max_turns or agent.max_steps),
            max_budget_usd=limits.max_budget_usd,
            max_tokens=limits.max_tokens,
            at_limit=limits.at_limit,
            gate=await self._gate(),
            effort=agent.effort,
            temperature=agent.temperature,
            max_output_tokens=agent.max_output_tokens,
            context_window=await self._window(model.name, agent.context_window),
            stops_repeats=True,
            restates_tasks=not self._hooks.shows_tasks,
            relay_deadline_s=None,
            request=context,
            refusal=declined,
            agent=agent.name,
            before_step=self._hooks.before_step,
            before_work=self._before_work,
            before_call=around.before_call if around is not None else None,
            before_run=around.before_run if around is not None else None,
            after_call=around.after_call if around is not None else None,
            after_answer=self._hooks.after_answer,
            schema=None if wanted is None or final else wanted.shape.schema,
            stop_when=None if wanted is None or not final else lambda _context: wanted.is_settled,
        )
        return options

    def _is_toy(self, model: str) -> bool:
        """Whether it can only talk, which is said once."""
        if model == TOY and model not in self._notices:
            self._notices.add(model)
            self.conversation.context.outbox.flush()
            self._log.append(Info(message=WHAT_IT_IS, code="toy_model"))
        return model == TOY

    def _around_calls(self, agent: BackingAgent) -> AroundCalls | None:
        """What is asked before and after each call: that of the agent, then the guards; None: nothing is."""
        guards = self._hooks.guards
        if agent.around is not None and self._around is None:
            self._around = agent.around(lambda: self.conversation.context.env)
        parts = [part for part in (self._around, guards if guards.has_calls else None) if part is not None]
        if not parts:
            return None
        from harness.native.additions.checks import AroundCalls

        return AroundCalls(parts)

    async def _gate(self) -> LoopGate | None:
        """What asks at the limits of `harness budget`; None without limits. Raises BadConfig."""
        thread, context = self._log.thread, self.conversation.context
        if thread is None or not has_limits(self._settings.working_directory):
            return None
        from harness.native.loop.loop_gate import LoopGate
        from harness.usage.budget import guard_of  # only here: most conversations have no limit

        context.outbox.flush()
        guard = guard_of(self._settings.working_directory, thread.store, thread.id, asks=True)
        if guard is None:
            return None
        context.cost_of = guard.cost_of
        await asyncio.to_thread(guard.look, context.spent_usd)  # what this log has spent until now
        return LoopGate(guard, context)

    async def _window(self, model: str, given: int | None) -> int | None:
        """Asked of a server of the user's own once for each model. Raises UsageError where it reads too little."""
        if model not in self._windows:
            self._windows[model] = await asyncio.to_thread(
                window_for, model, given, self._settings.working_directory, self._settings.harness.environ
            )
        return given or self._windows[model]

    async def _model(self) -> Model:
        """The agent's own, else the selected one, else the default of the mode or of the environment."""
        mode, agent = self._settings.mode.resolve(), self._settings.agent
        if isinstance(agent, BackingAgent) and agent.model is not None:
            return agent.model
        harness = self._settings.harness
        model_id = self._settings.model.get() or mode.default_model_id or _usual_model(harness.environ, mode)
        others = agent.fallback_models if isinstance(agent, BackingAgent) else ()
        model: Model = harness.catalogue.resolve(model_id)
        if is_own_server(model.name) and model.name not in self._knows_tools:
            knows = await asyncio.to_thread(served_tools, model.name, harness.environ)
            self._knows_tools[model.name] = knows is not False
        if not self._knows_tools.get(model.name, True):
            from harness.models.text_tools import TextTools  # only here: nearly every server knows tools

            model = TextTools(model)
        return with_fallbacks(model, list(map(harness.catalogue.resolve, others)))

    def _warn_of_servers(self) -> None:
        warnings = self._settings.harness.mcp.warnings
        new = [Warning(message=text, code="mcp") for text in warnings[self._logged_warnings :]]
        self._logged_warnings = len(warnings)
        if new and self._log.thread is not None:
            self._log.append_all(new, self._log.hub.log_id)

    def _more_tools(self) -> Callable[[], Sequence[Tool]]:
        """The tools that MCP servers offer now, also those added since the run began."""
        mode = self._settings.mode.resolve()
        known: tuple[Sequence[Tool], list[Tool]] = ((), [])

        def more() -> Sequence[Tool]:
            nonlocal known
            offered = self._settings.harness.mcp.tools(mode.mcp_servers)
            if offered is not known[0]:
                known = (offered, allowed_tools(self._settings.permissions, offered, mode))
            return known[1]

        return more

    def _tools(self, mode: Mode, agent: BackingAgent) -> tuple[Tool, ...]:
        """Each name once; a later set overrides an earlier one. The model never sees a denied tool."""
        context = self._runs.context
        own = tools_of(mode.tools, context) if mode.tools is not None else tools_of(agent.tools, context)
        browser, workspace = self._settings.harness.browser, self._settings.workspace
        sets = (
            own,
            workspace.tools() if workspace is not None else (),
            browser.tools() if browser is not None else (),
            self._settings.harness.mcp.tools(mode.mcp_servers),
            self._hooks.builtin_tools(),
            tools_of(self._settings.harness.tools, context),
            tools_of(mode.additional_tools, context),
        )
        tools_by_name = {tool.spec.name: tool for tools in sets for tool in tools}
        return tuple(allowed_tools(self._settings.permissions, tools_by_name.values(), mode))


async def _lasting(agent: BackingAgent) -> str:
    instructions = agent.lasting_instructions
    return instructions if isinstance(instructions, str) else await asyncio.to_thread(instructions)


def _final_answer(wanted: WantedOutput | None, model: Model, *, has_tools: bool) -> tuple[Tool, ...]:
    """The tool that takes the result, where the model cannot be asked with a schema for its answer."""
    if wanted is None or wanted.how == "schema":
        return ()
    takes_both = getattr(model, "takes_schema_beside_tools", True)
    return (FinalAnswerTool(wanted),) if wanted.how == "tool" or (has_tools and not takes_both) else ()


def _usual_model(environ: Mapping[str, str], mode: Mode) -> str:
    """The model of a provider whose key is set, as neither session nor mode names one. Raises UsageError."""
    usual = usual_model(environ)
    if usual and not usual.startswith(f"{LOCAL}/"):  # a local model is used only where it was chosen
        return usual
    raise UsageError(
        f"Mode {mode.id} requires a defaultModelId when no backing agent is configured",
        hint="set the key of a provider, give the mode a default_model_id, or call session.model.switch()",
    )
