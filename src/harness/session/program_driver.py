"""The driver of an agent program in a session: a process that is held in a conversation, or one for each message.

A program with a two-way protocol (`Agent.two_way`) runs on from message to message: it is asked, answered,
steered and interrupted there. When it has been idle for long, or the thread is left, it is closed, and resumed
with the next message. Other programs are started for each message, and resume their own session where they can.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from harness.agents.registry import load
from harness.approvals.approver import Approver
from harness.approvals.call import ASK, FULL_ACCESS, MODES, AccessMode, ProposedCall
from harness.approvals.decide import Decision
from harness.approvals.rules import Rule
from harness.approvals.work_folder import WorkFolder
from harness.contracts.agent import Agent
from harness.contracts.model import Attachment, UserTurn
from harness.contracts.request import Permissions, Request
from harness.conversation.turns import turn_of
from harness.errors import HarnessError, UsageError
from harness.events import Briefed, Message, RelayReply, Result, Signal, Warning
from harness.log.hub import Hub
from harness.log.store import read_all
from harness.native.loop.conversation import GIVEN_UP
from harness.runs.agent_rules import require_asking_to_read
from harness.runs.gateway_use import loses_home
from harness.runs.launch import installed_two_way
from harness.runs.program_conversation import ProgramConversation
from harness.runs.questions import work_folder
from harness.runs.run import Run, start
from harness.session.briefing import Briefing, UndeliveredSignals, files_in
from harness.session.builtin.submit_plan import is_approved
from harness.session.config import CommandAgent
from harness.session.drivers import Drivers
from harness.session.guards import LONGEST_S, GuardRunner, Stop
from harness.session.hand_over import hand_over_within
from harness.session.handed_tools import HandedTools
from harness.session.open_thread import OpenThread
from harness.session.outputs import strict_schema
from harness.session.permissions import SessionPermissions, ToolRules
from harness.session.run_hooks import RunHooks
from harness.session.run_outcomes import Ended
from harness.session.runs import RunRequest, Runs
from harness.session.session_settings import SessionSettings
from harness.session.thread_log import ThreadLog
from harness.session.user_message import UserMessage

_Value = TypeVar("_Value")
_FROM_PROGRAMS = ("resume", "model", "append_system_prompt")
_FROM_TWO_WAY = frozenset({"approve", "ask", "plan", "files"})
_LONGEST_WAIT_S = 24 * 3600.0
"""How long the process of a program is held open for one answer; then the question is refused."""


class SessionApprover(Approver):
    """Decides for the program of a session, by the rules and grants that the session has at that moment."""

    def __init__(
        self, permissions: SessionPermissions, access: Permissions, folder: WorkFolder, agent: Agent
    ) -> None:
        tools = agent.two_way.tools if agent.two_way is not None else None
        shell = tools.shell_memory if tools is not None else "kept"
        super().__init__(MODES.get(access, ASK), folder, agent=agent.name, shell=shell)
        self._permissions = permissions
        self.guard: Callable[[Sequence[ProposedCall]], str] | None = None
        """Why a guard of the harness stops these calls; empty: none does."""
        self._fresh: list[Rule] = []
        """Granted a moment ago: the session has not noted it yet."""

    def grant(self, rule: Rule) -> None:
        self._fresh.append(rule)

    def settle(self, rules: Sequence[Rule], label: str) -> None:
        """Note what was granted in the session. In its event loop."""
        self._permissions.grant_rules(rules, label)
        self._fresh = [rule for rule in self._fresh if rule not in rules]

    def decide(self, calls: Sequence[ProposedCall], mode: AccessMode | None = None) -> Decision:
        if self.guard is not None and (reason := self.guard(calls)):
            return Decision(answer="deny", why=reason, calls=tuple(calls), reasons=(reason,) * len(calls))
        access, rules = self.held(mode)
        self.use(rules)
        return super().decide(calls, access)

    def held(self, mode: AccessMode | None = None) -> tuple[AccessMode, list[Rule]]:
        """What the program may do by itself, and the rules, of the session and its own together."""
        own, access = mode or self.mode, self._permissions.access()
        rules = [*self._permissions.as_rules(self._agent), *self._fresh]
        if own is FULL_ACCESS:  # what the session denies is denied all the same
            rules += [
                Rule(answer="deny", category=category, source="session")
                for category, answer in access.answers.items()
                if answer == "deny"
            ]
        if own.is_fixed or own is FULL_ACCESS:
            return own, rules
        if access is FULL_ACCESS:
            return access, rules
        return replace(own, answers={**own.answers, **access.answers}), rules


class CommandDriver:
    """An agent program in a session. Contract: `AgentDriver`."""

    def __init__(
        self,
        log: ThreadLog,
        settings: SessionSettings,
        drivers: Drivers,
        runs: Runs,
        hooks: RunHooks,
        agent: CommandAgent,
    ) -> None:
        self._log, self._settings, self._drivers = log, settings, drivers
        self._runs, self._hooks = runs, hooks
        self._run: Run | None = None
        self._agent = agent
        self._undelivered: tuple[str, bool, UndeliveredSignals, Briefing] | None = None
        """For the current thread: its id, whether the program knows its session, and what it has not been given of it."""
        self._held: tuple[str, ProgramConversation] | None = None
        """For the current thread: its id, and the process that lasts from message to message."""
        self._approver: SessionApprover | None = None
        self._handed: set[str] = set()
        """Threads in which it was given a session of its own, or could not be."""
        self._tools: HandedTools | None = None
        """What it is handed of the tools of the harness, while it is held."""
        self._loses_home = False
        """Its sessions end with its process: then it is told what was said."""
        self._early: dict[str, RelayReply] | None = None
        """While a run is being started: answers to what it has already asked."""
        self.agent_name: str = agent.name
        self._supported: frozenset[str] = frozenset()
        self._is_two_way = self._takes_schema = False
        with suppress(HarnessError):  # an unknown agent is reported when it is first used
            program = load(agent.name)
            self.agent_name = program.name
            self._supported = program.supports.intersection(_FROM_PROGRAMS) | {"briefing"}
            if (two_way := installed_two_way(program, agent.binary)) is not None:
                self._is_two_way = True
                self._supported |= two_way.capabilities & _FROM_TWO_WAY
                supports = program.supports if two_way.supports is None else two_way.supports
                self._takes_schema = "output_schema" in supports
                if agent.tools and "tool_servers" in supports and not agent.sealed:
                    self._supported |= {"tools"}

    @property
    def capabilities(self) -> frozenset[str]:
        can_steer = self._run is not None and self._run.is_steerable
        return self._supported | {"steer"} if can_steer else self._supported

    def configured(self) -> CommandAgent:
        return self._agent

    async def send(self, message: UserMessage, run_id: str) -> Ended:
        thread = self._log.thread
        assert thread is not None, "a thread is open"
        self._drivers.abandon_suspension(GIVEN_UP)
        request = self._request(message)
        unknown, signals = self._unknown(thread.hub, message)
        if unknown:
            request = await self._with_briefing(thread, request, unknown, run_id)
        output = self._runs.output
        shape = [] if output is None or output.problem else [output.request()]
        briefing = "\n\n".join(filter(None, [request.briefing, *(turn.text for turn in signals), *shape]))
        schema = strict_schema(output.shape.schema) if output is not None and self._takes_schema else None
        return await self._run_until_end(replace(request, briefing=briefing, output_schema=schema), run_id)

    async def _with_briefing(
        self, thread: OpenThread, request: Request, unknown: str, run_id: str
    ) -> Request:
        """The request with what the program does not know of the thread: in a session of its own, if this is the first
        it is asked here and such a session was tried with its version; else as text.
        """
        briefed = Briefed(agent=self.agent_name, text=unknown)
        is_handed = thread.id in self._handed or self._loses_home
        if not request.resume and "resume" in self._supported and not is_handed:
            self._handed.add(thread.id)  # where that run fails, the next one is briefed
            handed = await asyncio.to_thread(
                hand_over_within,
                read_all(thread.store, thread.id),
                load(self.agent_name),
                request,
                thread.id,
                is_held=self._is_two_way,
            )
            if not isinstance(handed, str):
                self._log.append_all([handed[1]], run_id)
                return handed[0].request
            briefed = replace(briefed, why=handed)
        [event] = self._log.append_all([briefed], run_id)
        assert isinstance(event, Briefed), "what was appended comes back"
        return replace(request, briefing=event.text)

    async def _run_until_end(self, request: Request, run_id: str) -> Ended:
        thread = self._log.thread
        assert thread is not None, "a thread is open"
        own_rules = self._settings.permissions.own_rules()
        require_asking_to_read(
            load(request.agent), own_rules, request.permissions, "the rules of its session"
        )
        conversation = await self._conversation(thread)
        request = self._with_tools(request, run_id)
        stops = 0

        def note_stop() -> None:
            nonlocal stops
            stops += 1

        begin = partial(
            start,
            request,
            hub=thread.hub,
            store=thread.store,
            redact=self._settings.harness.secrets is not None,
            run_id=run_id,
            conversation=conversation,
        )
        self._early = {}
        try:
            run = await _whatever_happens(asyncio.ensure_future(asyncio.to_thread(begin)), note_stop)
        finally:
            early, self._early = self._early, None
        self._run = run
        if self._tools is not None:
            self._tools.begin(run)
        for reply in early.values():
            self.reply(reply)
        for _ in range(stops):
            run.cancel()
        try:
            return await _whatever_happens(_ended(run), run.cancel)
        finally:
            self._run = None
            if self._tools is not None:
                self._tools.end()
            for steering in reversed(run.untaken):
                self._runs.requeue(UserMessage(text=steering.text, id=steering.id))
            self._drivers.forget_conversations()

    def _with_tools(self, request: Request, run_id: str) -> Request:
        if self._tools is not None:
            return replace(request, tool_servers=(self._tools.served(),))
        if self._agent.tools:
            why = _why_no_tools(self._agent, is_two_way=self._is_two_way)
            warning = Warning(
                message=f"{self.agent_name} {why}: it was not handed any tools", code="tools_left_out"
            )
            self._log.append_all([warning], run_id)
        return request

    async def _conversation(self, thread: OpenThread) -> ProgramConversation | None:
        """The process of this thread; that of another thread is closed."""
        thread_id = thread.id
        if not self._is_two_way:
            return None
        if self._held is not None and self._held[0] == thread_id:
            return self._held[1]
        await self.close()
        loop = asyncio.get_running_loop()
        permissions = self._settings.permissions
        folder = work_folder(self._settings.working_directory, {**os.environ, **self._agent.env})
        approver = SessionApprover(permissions, self._agent.permissions, folder, load(self._agent.name))
        self._approver = approver
        if "tools" in self._supported:
            self._tools = HandedTools(
                self._settings,
                self._drivers,
                self._runs,
                self._hooks,
                thread,
                lambda tools: ToolRules(permissions, tools, held=approver.held),
            )
        if (guards := self._hooks.guards).has_calls:
            approver.guard = partial(_guarded, guards, loop)
        conversation = ProgramConversation(
            approver,
            ask_timeout_s=_LONGEST_WAIT_S,
            on_turn=lambda: _call_in(loop, self._follow_turn, thread_id),
            on_grant=lambda rules, label: _call_in(loop, approver.settle, rules, label),
            tools=self._tools,
        )
        self._held = (thread_id, conversation)
        return conversation

    def _follow_turn(self, thread_id: str) -> None:
        """The program began a turn by itself, as when a background task has ended: that is a run without a prompt."""
        is_ours = self._held is not None and self._held[0] == thread_id == self._log.thread_id
        if not is_ours or self._drivers.current is not self or self._runs.is_running or self._runs.waits:
            return  # the next run of this program follows it first
        run_id = self._settings.harness.new_run_id()
        request = self._request(UserMessage(text=""))
        self._runs.begin(RunRequest(lambda: self._run_until_end(request, run_id), run_id))

    async def close(self) -> None:
        held, self._held = self._held, None
        tools, self._tools = self._tools, None
        if held is not None:
            await asyncio.to_thread(held[1].close)
        if tools is not None:
            await tools.close()

    async def compact(self, focus: str, run_id: str) -> Ended:
        """Never called: a program sums up its conversations by itself."""
        del focus, run_id
        raise UsageError(f"{self.agent_name} sums up its conversations by itself")

    async def wake(self, signal: Signal, run_id: str) -> Ended:
        """Send the signal as a message: agent programs know no signals."""
        turn = turn_of(signal)
        message = (
            UserMessage(text=turn.text, attachments=turn.attachments) if isinstance(turn, UserTurn) else None
        )
        return await self.send(message or UserMessage(text=str(signal.contents)), run_id)

    async def resume(self, replies: Mapping[str, RelayReply], *, ends: bool = False) -> Ended:
        del replies, ends
        raise UsageError(f"{self.agent_name} cannot be answered", hint="send it another message")

    def leave(self) -> bool:
        return False

    def join(self, message: UserMessage) -> bool:
        """Some programs accept no input while they run: the message then waits for the end of the run."""
        if self._run is None or message.attachments:
            return False
        try:
            self._run.steer(message.text, message.id)
        except UsageError:
            return False
        return True

    def reply(self, reply: RelayReply) -> bool:
        if self._early is not None:
            return self._early.setdefault(reply.id, reply) is reply
        run, relay = self._run, self._log.bus.fold.facts.relays.get(reply.id)
        if self._tools is not None and self._tools.reply(reply):
            if relay is not None and relay.kind == "plan" and is_approved(reply.answer):
                self._carry_out_plan()
            return True
        is_taken = run is not None and run.reply(
            reply.id,
            approved=reply.approved,
            always=reply.always,
            answer=reply.answer,
            reason=reply.reason,
            choice=reply.choice,
        )
        if is_taken and relay is not None and relay.kind == "plan" and reply.approved:
            self._carry_out_plan()
        return is_taken

    def _carry_out_plan(self) -> None:
        """The program continues with the approved plan; the session is in the mode that follows when it has ended."""
        mode = self._settings.mode.resolve()
        target = self._settings.harness.plan_target(mode)
        if target.id == mode.id:
            return
        if self._approver is not None:
            self._approver.switch(ASK)

        async def follow() -> None:
            self._runs.hold_queue()
            await self._runs.wait_until_idle()
            await self._settings.mode.switch(mode_id=target.id)
            await self._runs.drain()

        self._follow = asyncio.get_running_loop().create_task(follow())

    def _unknown(self, hub: Hub, message: UserMessage) -> tuple[str, Sequence[UserTurn]]:
        """The messages that the program has not seen, and new signals.

        Files cannot be given to it: a warning names them.
        """
        queued = {entry.get("id") for entry in self._runs.queued} | {message.id}
        for event in [event for event in self._log.bus.fold.facts.untaken.values() if event.id not in queued]:
            # Sent to a run that died before it took it in: logged as a message now.
            self._log.append_all(
                [Message(role="user", text=event.text, id=event.id, parts=event.parts)], hub.log_id
            )
        resumes = "resume" in self._supported and (not self._loses_home or self._is_running)
        if self._undelivered is None or self._undelivered[:2] != (hub.log_id, resumes):
            self._undelivered = (
                hub.log_id,
                resumes,
                UndeliveredSignals(self.agent_name),
                Briefing(self.agent_name, resumes=resumes),
            )
        _, _, undelivered, briefing = self._undelivered
        signals, text = undelivered.read(hub), briefing.read(hub)
        attached = () if "files" in self._supported else message.attachments
        if files := (*files_in(signals), *attached):
            self._warn_left_out(files)
        return text, signals

    @property
    def _is_running(self) -> bool:
        """Whether the program of this thread is alive, and knows what was said in it."""
        line = self._held[1].line if self._held is not None else None
        return line is not None and line.is_open

    def _request(self, message: UserMessage) -> Request:
        agent, limits = self._agent, self._runs.limits
        sessions = self._log.bus.fold.facts.agent_sessions
        request = Request(
            agent=agent.name,
            prompt=message.text,
            prompt_id=message.id,
            attachments=message.attachments if "files" in self._supported else (),
            two_way=self._is_two_way,
            asks_at_limit=True,
            cwd=self._settings.working_directory,
            model=self._settings.model.get(),
            permissions=agent.permissions,
            is_held_to_rules=self._settings.permissions.narrows,
            sandbox=agent.sandbox,
            gateway=agent.gateway or self._settings.harness.gateway,
            sealed=agent.sealed,
            folder_settings=agent.folder_settings,
            resume=sessions.get(self.agent_name, agent.session) if "resume" in self.capabilities else "",
            append_system_prompt=self._settings.harness.instructions_for(None, self._settings.mode.resolve()),
            extra_args=tuple(agent.extra_args),
            env=agent.env,
            binary=agent.binary,
            recording=agent.recording,
            limits=replace(limits, max_turns=limits.max_turns or agent.max_turns),
        )
        self._loses_home = bool(self._supported) and loses_home(request, os.environ)
        return replace(request, resume="") if self._loses_home else request

    def _warn_left_out(self, attachments: Sequence[Attachment]) -> None:
        names = ", ".join(attachment.name or attachment.media_type for attachment in attachments)
        warning = Warning(
            message=f"{self.agent_name} takes no files: {names} left out", code="files_left_out"
        )
        self._log.append_all([warning], self._log.hub.log_id)


def _why_no_tools(agent: CommandAgent, *, is_two_way: bool) -> str:
    if agent.sealed:
        return "is sealed, and reaches no server of ours"
    return "takes none of a harness" if is_two_way else "cannot be held in a conversation"


async def _whatever_happens(work: asyncio.Future[_Value], on_cancel: Callable[[], object]) -> _Value:
    """Wait until `work` is done. Each cancellation meanwhile calls `on_cancel`, and the wait continues."""
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            on_cancel()
    return work.result()


def _guarded(guards: GuardRunner, loop: asyncio.AbstractEventLoop, calls: Sequence[ProposedCall]) -> str:
    """Why a guard stops one of these calls; called in the thread of the program, while the guards are in the loop."""
    for call in calls:
        try:
            checked = asyncio.run_coroutine_threadsafe(guards.check_call(call), loop).result(2 * LONGEST_S)
        except Exception as error:  # noqa: BLE001 # whatever it is, what could not be checked is not done
            return f"the guards could not be asked: {error!r}"
        if isinstance(checked, Stop):
            return checked.reason
    return ""


def _ended(run: Run) -> asyncio.Future[Result]:
    """Waits in its own thread: there may be more runs than a pool has threads."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Result] = loop.create_future()

    def wait() -> None:
        try:
            result = run.wait()
        except Exception as error:  # noqa: BLE001 # it is raised in the task that waits
            _call_in(loop, ended.set_exception, error)
        else:
            _call_in(loop, ended.set_result, result)

    threading.Thread(target=wait, name=f"session-{run.id}", daemon=True).start()
    return ended


def _call_in(loop: asyncio.AbstractEventLoop, what: Callable[..., object], *arguments: object) -> None:
    """Call it in the session's loop, from the thread of a program."""
    with suppress(RuntimeError):  # the loop is closed: the session has ended
        loop.call_soon_threadsafe(what, *arguments)
