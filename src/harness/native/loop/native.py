"""The agent `native`: from a request to a run of the agent loop.

`start` gives the worker. What the request asks for becomes `AgentOptions`; `RunWithMcp` connects MCP servers for the
time of the run; `earlier_session` reads the history that `--resume` and `--continue` name.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec.structs import replace

from harness.config import window_setting
from harness.contracts.model import Model, Turn
from harness.contracts.request import OWN_AGENT, Request
from harness.contracts.tool import Tool
from harness.contracts.worker import OnEnd
from harness.conversation.history import history
from harness.conversation.inbox import Inbox
from harness.errors import UnknownSession, UsageError
from harness.events import Event, Info, Result, SessionStart, Warning
from harness.log.hub import Hub
from harness.log.store import Metadata, Store, read_all
from harness.models.fallback import with_fallbacks
from harness.models.registry import TOY, WHAT_IT_IS, open_model, usual_model
from harness.models.served_window import require_room, served_window, with_text_tools
from harness.native.loop.agent_run import AgentRun
from harness.native.loop.instructions import find_instructions, told_of
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.loop_worker import Job, LoopWorker
from harness.native.loop.system_prompt import facts, given_prompt, news, own_prompt
from harness.native.loop.transcript import KnownTalk
from harness.native.own_models import own_models
from harness.questions.open_questions import answering
from harness.questions.permissions import permissions_for
from harness.runs.agent_rules import rules_for
from harness.runs.launch import Launch

if TYPE_CHECKING:
    from harness.native.additions.checks import AroundCalls
    from harness.native.additions.hooks import CallHook
    from harness.native.additions.places import Additions
    from harness.native.loop.loop_gate import LoopGate
    from harness.native.mcp.servers import Servers

MAX_ITERATIONS = 200
RELAY_DEADLINE_S = 300.0
TOOL_DEADLINE_S = 3600.0

MoreTools: TypeAlias = Callable[[], Sequence[Tool]]
"""The tools of the moment besides those of the options."""


def start(launch: Launch, hub: Hub, on_end: OnEnd, redact: bool) -> LoopWorker:
    """The worker of a run."""

    def open_job(context: LoopContext, inbox: Inbox) -> Job:
        from harness.native.additions.places import find_additions

        request = launch.request
        additions = find_additions(request.cwd, request.folder_settings, request.copy_of)
        emit = context.outbox.channel(launch.run_id or hub.log_id).put
        before = earlier_session(launch.request, hub)
        options = replace(
            _options(launch, additions, redact=redact),
            system_prompt=given_prompt(launch.request),
            news=news,
            conversation_id=before.session_id or hub.log_id,
            on_ask=answering(launch.request.on_ask, emit),
            gate=gate_of(launch, context),
        )
        if options.model.name == TOY:
            options = replace(options, tools=())
            emit(Info(message=WHAT_IT_IS, code="toy_model"))
        for note in additions.notes:
            emit(Info(message=note, code="additions"))
        around = around_calls(additions.hooks, launch.request.cwd, lambda: context.env)
        options = replace(
            options,
            before_call=around.before_call,
            before_run=around.before_run,
            after_call=around.after_call,
        )
        if not launch.request.system_prompt:
            options = replace(options, lasting_prompt=_own_prompt(launch, options, hub.clock(), emit))

        def open_run(more: MoreTools) -> AgentRun:
            equipped = replace(options, more_tools=None if options.model.name == TOY else more)
            return AgentRun(
                context,
                equipped,
                run_id=launch.run_id or hub.log_id,
                session_id=before.session_id,
                turns=before.turns,
                before=before.known,
                inbox=inbox,
            )

        return RunWithMcp(launch, context, open_run, redact=redact)

    return LoopWorker(launch, hub, on_end, open_job, redact=redact)


def _own_prompt(launch: Launch, options: AgentOptions, now_ms: int, emit: Callable[[Event], object]) -> str:
    cwd = launch.request.cwd
    instructions = find_instructions(cwd)
    if instructions:
        emit(Info(message=told_of(instructions), code="instructions"))
    names = [tool.spec.name for tool in options.tools]
    return own_prompt(cwd, names, options.model.name, instructions, facts(cwd, os.environ, now_ms))


def gate_of(launch: Launch, context: LoopContext) -> LoopGate | None:
    """What asks at the limits of `harness budget`; None without limits."""
    if launch.budget is None:
        return None
    from harness.native.loop.loop_gate import LoopGate  # only here: most runs have no limit

    return LoopGate(launch.budget, context)


def around_calls(hooks: Sequence[CallHook], cwd: str, env: Callable[[], Mapping[str, str]]) -> AroundCalls:
    """What is asked before and after each call: hooks, and checks of files that were changed. Raises BadConfig."""
    from harness.native.additions.checks import AroundCalls, CheckRunner, checks_of
    from harness.native.additions.hooks import HookRunner

    return AroundCalls(
        [HookRunner(hooks, cwd, env) if hooks else None, CheckRunner(checks_of(cwd), cwd, env)]
    )


def _options(launch: Launch, additions: Additions, *, redact: bool) -> AgentOptions:
    from harness.native.tools.registry import default_tools

    request = launch.request
    environ = launch.invocation.env
    models = own_models(request.cwd, environ)
    model = with_fallbacks(
        with_text_tools(chosen_model(request.model, environ), environ),
        [open_model(name, environ) for name in models.fallbacks],
    )
    return AgentOptions(
        model=model,
        context_window=window_for(model.name, request.context_window, request.cwd, environ),
        tools=tuple(
            default_tools(
                request.cwd,
                request.permissions,
                sandbox=request.sandbox,
                hidden=request.hidden,
                redact=redact,
                environ=environ,
                kinds=tuple(additions.kinds.values()),
                models=models,
            )
        ),
        permissions=permissions_for(
            request.permissions, request.cwd, environ, rules_for(OWN_AGENT, request.cwd or os.getcwd())
        ),
        max_iterations=request.limits.max_turns or MAX_ITERATIONS,
        max_budget_usd=request.limits.max_budget_usd,
        relay_deadline_s=request.ask_timeout_s or RELAY_DEADLINE_S,
        effort=request.effort,
        temperature=request.temperature,
        max_output_tokens=request.max_output_tokens,
        tool_deadline_s=TOOL_DEADLINE_S,
        stops_repeats=True,
        agent=launch.agent.name,
        version=launch.version,
    )


def window_for(model: str, given_tokens: int | None, cwd: str, environ: Mapping[str, str]) -> int | None:
    """What was asked for, set, or is said by a server of the user's own; None: it is known by the model's name.

    Raises UsageError where such a server reads too little for the agent.
    """
    stated_tokens = given_tokens or window_setting(model, cwd or os.getcwd())
    if stated_tokens is not None:
        return stated_tokens
    served = served_window(model, environ)
    require_room(model, served)
    return served


def chosen_model(name: str, environ: Mapping[str, str]) -> Model:
    """The model of that name; without one, the one that can be asked here without a choice. Raises UsageError."""
    name = name or usual_model(environ)
    if not name:
        raise UsageError(
            "no model was named, and none can be used here without a choice",
            hint="set the key of a provider, or give --model provider/model (see `harness models list`)",
        )
    return open_model(name, environ)


class RunWithMcp:
    """Contract: that of `Job`."""

    def __init__(
        self, launch: Launch, context: LoopContext, open_run: Callable[[MoreTools], AgentRun], *, redact: bool
    ) -> None:
        """`open_run`: opens the run, given a function that returns the current tools of the servers."""
        self._launch = launch
        self._context = context
        self._open_run = open_run
        self._redact = redact

    async def run(self, prompt: str) -> Result:
        async with AsyncExitStack() as stack:
            more: MoreTools = tuple
            try:
                more = (await stack.enter_async_context(self._servers())).tools
            except asyncio.CancelledError:
                pass  # the run itself sees that it was stopped, and says so in the log
            return await self._open_run(more).run(prompt, self._launch.request.attachments)

    def _servers(self) -> AbstractAsyncContextManager[Servers]:
        from harness.native.tools.registry import mcp_tools

        channel = self._context.outbox.channel(self._launch.run_id or self._context.hub.log_id)
        request = self._launch.request
        return mcp_tools(
            request.mcp,
            cwd=request.cwd,
            env=self._context.env,
            environ=self._launch.invocation.env,
            redact=self._redact,
            sandbox=request.sandbox,
            on_warning=lambda text: channel.put(Warning(message=text, code="mcp")),
        )


class EarlierSession(NamedTuple):
    session_id: str = ""
    """The session that the run continues; empty when it begins one."""
    turns: tuple[Turn, ...] = ()
    known: KnownTalk = KnownTalk()


def earlier_session(request: Request, hub: Hub) -> EarlierSession:
    """What `--resume` and `--continue` ask for; nothing when neither was given. Raises UnknownSession.

    A session of our own may span several logs, each of which states its id; the log of any other agent can be
    continued as well, in a session of its own.
    """
    if not request.resume and not request.continue_last:
        return EarlierSession()
    if request.resume and _is_in(hub, request.resume):
        return _earlier(request.resume, hub.store, [hub.log_id])
    earlier_logs = [log for log in hub.store.list() if log.session_id != hub.log_id]
    log_found = _resumed(request, earlier_logs) if request.resume else _last(request, earlier_logs)
    if log_found.kind == "thread" or log_found.agent_name != request.agent:
        return _earlier("", hub.store, [log_found.session_id])
    session_id = _session_of(log_found)
    logs = [
        log.session_id
        for log in earlier_logs
        if log.agent_name == request.agent and _session_of(log) == session_id
    ]
    return _earlier(session_id, hub.store, sorted(logs))


def _is_in(hub: Hub, session_id: str) -> bool:
    """Whether the log that the run is written into has that session itself: a thread continues."""
    return any(
        isinstance(event, SessionStart) and event.session_id == session_id
        for event in read_all(hub.store, hub.log_id)
    )


def _resumed(request: Request, earlier_logs: list[Metadata]) -> Metadata:
    """By the session's id, the log's, or the beginning of the log's when it fits one log alone."""
    session_id = request.resume
    for log in earlier_logs:
        if session_id in (log.session_id, _session_of(log)):
            return log
    matching = [log for log in earlier_logs if log.session_id.startswith(session_id)]
    if len(matching) != 1:
        many = (
            f"{len(matching)} sessions begin with {session_id}"
            if matching
            else f"unknown session: {session_id}"
        )
        raise UnknownSession(many, hint="`harness sessions list` shows what there is")
    return matching[0]


def _last(request: Request, earlier_logs: list[Metadata]) -> Metadata:
    for log in earlier_logs:
        if log.agent_name == request.agent and log.cwd == request.cwd and log.kind == "run":
            return log
    raise UnknownSession(
        f"there is no earlier session in {request.cwd}",
        hint="begin one without --continue, or use --resume ID",
    )


def _session_of(metadata: Metadata) -> str:
    return metadata.agent_session_id or metadata.session_id


def _earlier(session_id: str, store: Store, log_ids: list[str]) -> EarlierSession:
    turns: list[Turn] = []
    known_talk = KnownTalk()
    for log_id in log_ids:
        past = history(read_all(store, log_id), turns, known_talk.measured, known_talk.left_behind)
        lasting = known_talk.lasting_prompt or past.prompt
        turns, known_talk = past.turns, KnownTalk(past.measured, lasting, past.left_behind)
    return EarlierSession(session_id, tuple(turns), known_talk)
