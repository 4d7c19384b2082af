"""One conversation: a session on its thread, and the commands that clients send to it."""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode
from binascii import Error as Base64Error
from collections import ChainMap
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from harness import config
from harness.agents.registry import load
from harness.clients.commands import AnswerCommand, Approve, Attached, Configuration, Deny, Submit
from harness.clients.conversations.backend import ConversationStatus, Setup
from harness.clients.conversations.parking import parking_of
from harness.clients.conversations.presets import (
    additions_of,
    backing_of,
    checked,
    disabled_tools_of,
    instructions_of,
    modes_of,
    permissions_state,
    servers_of,
)
from harness.clients.custom_commands import custom_commands, expanded_prompt
from harness.clients.prompt_files import as_attachments, mentioned_files
from harness.contracts.agent import Agent
from harness.contracts.model import Attachment
from harness.contracts.request import OWN_AGENT, Limits
from harness.errors import AlreadyAnswered, UsageError
from harness.events import Info, Relay, Warning
from harness.folds.inbox.asks import check_shown
from harness.folds.inbox.failures import PROGRAM_CLOSED
from harness.log.hub import Hub, observers_environment
from harness.log.store import Store
from harness.native.loop.instructions import told_of
from harness.runs.launch import installed_two_way
from harness.session.builtin.submit_plan import is_approved
from harness.session.bus import Bus
from harness.session.harness import Harness
from harness.session.mcp_servers import McpStatus
from harness.session.signals import File, contents, is_text, split
from harness.session.user_message import UserMessage
from harness.session.workspaces import WorkspaceConfig

MOST_QUEUED = 100
_BEGIN = "The plan is approved. Carry it out."
_ANSWERED_THERE = "It is answered in the session that this one continues."
_CLOSED = "the program that ran it was closed"


class HostedConversation:
    """Contract: lives in one event loop; `create` or `open` first, `close` last."""

    def __init__(self, store: Store, setup: Setup, on_change: Callable[[], None]) -> None:
        self._setup = setup
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self.idle_since_s = self._loop.time()
        self._tasks: set[asyncio.Task[None]] = set()
        self._additions = additions_of(setup)
        self._told: dict[str, str] = {}
        """What observers of logs tell the commands and servers of this conversation."""
        self._harness = Harness(
            id=load(setup.agent).title,
            storage=store,
            modes=modes_of(setup),
            agent=backing_of(setup, self._additions),
            instructions=setup.system_prompt,
            workspace=WorkspaceConfig(
                cwd=setup.cwd,
                sandbox=setup.sandbox,
                own_agents_and_tasks=True,
                confines_servers=True,
                subagents=tuple(self._additions.kinds.values()) if self._additions is not None else (),
            ),
            cwd=setup.cwd,
            initial_state=permissions_state(setup.permission_mode),
            mcp_servers=servers_of(setup),
            limits=_limits(setup),
            disable_builtin_tools=disabled_tools_of(setup),
            environ=ChainMap(self._told, os.environ),
        )
        self._session = self._harness.session
        rules = parking_of(config.load(setup.cwd), setup.at_limit, setup.max_windows)
        self._session.run.park_at_limits(rules)
        self._session.permissions.on_grants = on_change

    async def create(self, thread_id: str) -> None:
        """Create the thread. Raises StoreError."""
        await self._begin(thread_id)
        session, setup = self._session, self._setup
        session.mode.enter(setup.mode)
        if setup.model:
            session.model.select(setup.model)
        await session.thread.create(title=setup.title, id=thread_id)
        self._save_settings()
        for note in self._additions.notes if self._additions is not None else ():
            session.log.append(Info(message=note, code="additions"))
        if given := instructions_of(setup):
            session.log.append(Info(message=told_of(given), code="instructions"))

    async def open(self, thread_id: str, *, is_new: bool = False) -> None:
        """Open a thread. `is_new`: no session has had it open before. Raises UnknownSession, LogLocked."""
        await self._begin(thread_id)
        session = self._session
        try:
            await session.thread.switch(thread_id=thread_id)
        except BaseException:
            await self._harness.destroy()
            raise
        if is_new:
            self._close_inherited()
        if is_new and self._setup.mode != session.mode.get():
            await session.mode.switch(mode_id=self._setup.mode)
        if is_new and self._setup.model:
            await session.model.switch(model_id=self._setup.model)
        if is_new:
            self._save_settings()

    async def _begin(self, thread_id: str) -> None:
        self._told.update(observers_environment(thread_id))
        await self._harness.init()

    def _close_inherited(self) -> None:
        opened = self._session.thread.current
        assert opened is not None, "a thread is open"
        opened.close_inherited(_ANSWERED_THERE)
        self.bus.deliver()

    @property
    def setup(self) -> Setup:
        return self._setup

    @property
    def has_messages(self) -> bool:
        """Whether it has messages, or a run."""
        opened, facts = self._session.thread.current, self.bus.fold.facts
        is_known = opened is not None and bool(opened.metadata.prompt)
        return is_known or self.is_running or bool(facts.last_agent or facts.follow_ups)

    @property
    def hub(self) -> Hub:
        return self._session.log.hub

    @property
    def bus(self) -> Bus:
        return self._session.log.bus

    @property
    def is_running(self) -> bool:
        return self._session.run.is_running()

    @property
    def is_busy(self) -> bool:
        """Whether a run is in progress, or a command goes on that would end with the conversation."""
        run = self._session.run
        return self.is_running or run.has_background() or run.continues_by_itself()

    @property
    def status(self) -> ConversationStatus:
        session = self._session
        facts = self.bus.fold.facts
        return ConversationStatus(
            is_ours=True,
            is_running=self.is_running,
            is_waiting=bool(facts.relays),
            can_submit=True,
            can_steer=self.is_running and "steer" in session.capabilities,
            can_answer="approve" in session.capabilities,
            can_cancel=self.is_running or session.run.is_waiting(),
            can_branch=not self.is_running and self._setup.agent == OWN_AGENT,
            background=tuple(session.run.background()),
            grants=tuple(
                {"id": grant.id, "label": grant.label} for grant in session.permissions.list_grants()
            ),
        )

    def mcp_servers(self) -> dict[str, McpStatus]:
        """Those of the built-in agent, by name; a program has its own."""
        return self._harness.mcp.status()

    async def submit(self, command: Submit) -> None:
        if (focus := self._wanted_summary(command.prompt)) is not None:
            await self.compact(focus)
            return
        command = msgspec.structs.replace(command, prompt=self._expanded(command.prompt))
        text, files = check_prompt(self._setup.agent, command)
        session, prompt = self._session, command.prompt
        message = UserMessage(text=text, attachments=(*files, *self._mentioned(text)))
        if session.follow_ups.count() >= MOST_QUEUED:
            raise UsageError(f"{MOST_QUEUED} prompts are queued already", hint="wait, or withdraw some")
        opened = session.thread.current
        if opened is not None and not opened.metadata.prompt:
            opened.metadata.prompt = prompt[:2000]
            opened.save()
        self._start(session.follow_ups.submit(message))
        await asyncio.sleep(0)  # so that the next command finds it running, or queued

    def _wanted_summary(self, prompt: str) -> str | None:
        """What a typed `/compact` says besides; None for every other text. A command of the user's own goes first."""
        if self._setup.agent != OWN_AGENT or not prompt.startswith("/compact"):
            return None
        name, _, focus = prompt.strip().partition(" ")
        own = custom_commands(self._setup.cwd, self._setup.folder_settings)
        return focus.strip() if name == "/compact" and "compact" not in own else None

    def _expanded(self, prompt: str) -> str:
        """What a command of the user's own stands for; every other text as it is. Raises UsageError."""
        setup = self._setup
        return (
            expanded_prompt(prompt, setup.cwd, setup.folder_settings) if setup.agent == OWN_AGENT else prompt
        )

    def _mentioned(self, text: str) -> tuple[Attachment, ...]:
        """What the built-in agent is shown of the files that a prompt names; programs look by themselves."""
        setup = self._setup
        return as_attachments(mentioned_files(text, setup.cwd)) if setup.agent == OWN_AGENT else ()

    async def send_queued(self) -> None:
        """Send what is queued. Raises UsageError while a run is in progress or waits, and when nothing is queued.

        Where nothing is, a conversation that waits for a window of its provider continues at once.
        """
        session = self._session
        if self.is_running:
            raise UsageError("a run is in progress", hint="queued prompts are sent when it has ended")
        if session.run.is_waiting():
            raise UsageError(
                "it is waiting for an answer", hint="answer it, or cancel it, then send the queue"
            )
        if session.follow_ups.is_empty() and session.run.is_parked():
            self._start(session.run.continue_parked())
            await asyncio.sleep(0)
            return
        if session.follow_ups.is_empty():
            raise UsageError("the queue is empty", hint="submit a prompt")
        self._start(session.follow_ups.send())
        await asyncio.sleep(0)

    async def compact(self, focus: str) -> None:
        """Sum up the conversation so far. Raises UsageError during a run, and for an agent program."""
        self._session.run.compact(focus)
        self._start(self._session.wait_until_idle())
        await asyncio.sleep(0)

    def withdraw(self, follow_up_id: str) -> None:
        if not self._session.follow_ups.withdraw(id=follow_up_id):
            raise UsageError("no such prompt is queued", hint="it may have been sent already")

    def cancel(self, queue: Literal["keep", "clear"] = "keep") -> None:
        self._session.abort(queue=queue)

    def steer(self, message: str) -> None:
        if not self.is_running:
            raise UsageError("nothing is running", hint="submit a prompt instead")
        if not message.strip():
            raise UsageError("the message is empty", hint="write what the agent should do differently")
        if self._wanted_summary(message) is not None:
            raise UsageError("a run is in progress", hint="sum up when it has ended, or stop it first")
        run = self._session.run
        if run.is_abort_requested():
            raise UsageError("the run is being stopped", hint="submit a prompt instead")
        if not run.join(UserMessage(text=message, attachments=self._mentioned(message))):
            raise UsageError(
                f"{self._setup.agent} does not accept messages while it runs",
                hint="submit it instead: it is queued",
            )

    async def answer(self, command: Approve | Deny | AnswerCommand) -> None:
        """Give an answer to the call that waits for it; the first answer counts.

        Raises UsageError for a later one, and for an invalid answer: then the call still waits.
        """
        relay = self._open_relay(command)
        if relay.kind == "permission":
            decision, reason, option = _decision(command)
            is_taken = self._session.approval.respond(decision, relay.id, reason, None, option)
        else:
            data = _resume_data(relay, command)
            is_taken = self._session.suspensions.give(data, relay.id)
            await asyncio.sleep(0)  # so that the next command finds it running
            if is_taken and relay.kind == "plan" and is_approved(data):
                self._begin_what_was_planned()
        if not is_taken:
            raise _answered_already()
        self._start(self._session.wait_until_idle())

    def _begin_what_was_planned(self) -> None:
        """Programs go on by themselves; our own run ends with its plan, and the next mode begins with what is queued."""
        if self._setup.agent == OWN_AGENT and self._session.follow_ups.is_empty():
            self._start(self._session.follow_ups.submit(UserMessage(text=_BEGIN)))

    def revoke(self, grant_id: str) -> None:
        permissions = self._session.permissions
        if not grant_id:
            permissions.revoke_grants()
        elif not permissions.revoke_grant(grant_id=grant_id):
            raise UsageError("there is no such grant", hint="the state lists the grants")

    async def configure(self, config: Configuration) -> None:
        names = (name for name in config.__struct_fields__ if name in self._setup.__struct_fields__)
        changes = {name: value for name in names if (value := getattr(config, name)) is not None}
        is_another = bool(config.agent) and load(str(config.agent)).name != self._setup.agent
        if is_another:
            changes.setdefault("model", "")  # the other agent may not know it
            changes.setdefault("runner", "")
            changes.setdefault("agent_session", "")
        setup = checked(replace(self._setup, **{"mode": self._session.mode.get(), **changes}))
        if setup.cwd != self._setup.cwd:
            raise UsageError(
                "the folder of a conversation cannot change", hint="start another conversation there"
            )
        session = self._session
        if setup.mode != session.mode.get():
            await session.mode.switch(mode_id=setup.mode)
        if config.model is not None or is_another:
            await session.model.switch(model_id=setup.model)
        if setup.permission_mode != self._setup.permission_mode:
            await session.state.set(permissions_state(setup.permission_mode))
        self._setup = setup
        self._harness.reconfigure(
            modes=modes_of(setup),
            agent=backing_of(setup, self._additions),
            instructions=setup.system_prompt,
            limits=_limits(setup),
        )
        self._save_settings()

    async def rename(self, title: str) -> None:
        await self._session.thread.rename(title=title)

    async def close(self) -> None:
        """An open question can still be answered after the conversation is opened again."""
        if self.is_running:  # so that nobody looks for who stopped it
            self._session.log.append(Warning(message=_CLOSED, code=PROGRAM_CLOSED))
        await self._harness.destroy()
        for task in self._tasks:
            task.cancel()

    def _save_settings(self) -> None:
        """Store what a restarted server must know."""
        opened = self._session.thread.current
        assert opened is not None, "a thread is open"
        setup, agent = self._setup, load(self._setup.agent)
        opened.metadata.agent, opened.metadata.agent_name = agent.title, agent.name
        opened.metadata.model = self._session.model.get()
        settings = {"permissionMode": setup.permission_mode, "systemPrompt": setup.system_prompt}
        settings["runner"] = setup.runner
        limits = {"maxTurns": setup.max_turns, "effort": setup.effort, "sandbox": setup.sandbox}
        settings["folderSettings"] = setup.folder_settings
        stored = msgspec.to_builtins(setup)
        opened.save_settings({**settings, **limits, **{name: stored[name] for name in _STORED}})

    def _open_relay(self, command: Approve | Deny | AnswerCommand) -> Relay:
        for relay in self._session.log.relays():
            is_meant = relay.id == command.relay_id != ""
            if isinstance(command, Approve | Deny) and not command.relay_id:
                is_meant = command.tool_call_id == relay.call_id != ""
            if is_meant:
                check_shown(relay, command.arguments_hash)
                return relay
        raise _answered_already()

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start it in the background: its result is in the log."""

        async def done() -> None:
            try:
                await work
            finally:
                self.idle_since_s = self._loop.time()
                self._on_change()

        task = self._loop.create_task(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._loop.call_soon(self._on_change)


def check_prompt(agent: str, command: Submit) -> tuple[str, tuple[Attachment, ...]]:
    """The text and the files for this agent. Raises UsageError for an empty prompt."""
    takes_files = accepts_files(load(agent))
    if not command.prompt.strip() and not (command.attachments and takes_files):
        raise UsageError("the prompt is empty", hint="write what the agent should do")
    return message_of(command.prompt, command.attachments, takes_files=takes_files)


def accepts_files(agent: Agent) -> bool:
    """Whether pictures and documents can be attached to its prompts."""
    two_way = installed_two_way(agent)
    return agent.work is not None or (two_way is not None and "files" in two_way.capabilities)


def message_of(
    prompt: str, attachments: Sequence[Attached], *, takes_files: bool
) -> tuple[str, tuple[Attachment, ...]]:
    """The text and the files of a message; without `takes_files`, text files become part of the text. Raises UsageError."""
    for file in attachments:
        _check(file)
    if takes_files:
        return prompt, tuple(Attachment(file.media_type, file.data, file.name) for file in attachments)
    texts, files = split(contents(prompt, map(_file, attachments)))
    return "\n\n".join(texts), tuple(files)


def _check(file: Attached) -> None:
    try:
        data = b64decode(file.data, validate=True)
    except (Base64Error, ValueError):
        data = b""
    if not data or "/" not in file.media_type:
        name = file.name or file.media_type or "an attachment"
        raise UsageError(
            f"{name[:100]!r} cannot be attached",
            hint="it needs a mediaType, and data that is base64 and not empty",
        )


def _file(file: Attached) -> File:
    data = f"data:{file.media_type};base64,{file.data}" if is_text(file.media_type) else file.data
    return File(data=data, media_type=file.media_type, filename=file.name)


def setup_of(metadata: Any) -> Setup:
    """The setup with which a stored conversation is opened again."""
    settings = metadata.settings
    return Setup(
        agent=metadata.agent_name,
        runner=str(settings.get("runner") or ""),
        model=metadata.model,
        cwd=metadata.cwd,
        mode=str(settings.get("currentModeId") or ""),
        permission_mode=str(settings.get("permissionMode") or ""),
        system_prompt=str(settings.get("systemPrompt") or ""),
        max_turns=settings.get("maxTurns"),
        effort=str(settings.get("effort") or ""),
        sandbox=bool(settings.get("sandbox")),
        **_stored(settings),
        folder_settings=_folder_settings(settings.get("folderSettings")),
    )


_STORED = (
    "contextWindow",
    "appendSystemPrompt",
    "temperature",
    "maxOutputTokens",
    "maxBudgetUsd",
    "timeoutS",
    "mcp",
    "gateway",
    "sealed",
    "allowHosts",
    "atLimit",
    "maxWindows",
)
"""Fields of a setup that are stored under their own names."""


def _stored(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What was stored, by the names of a setup; whatever does not fit counts as nothing."""
    given = {name: settings[name] for name in _STORED if settings.get(name) is not None}
    try:
        setup = msgspec.convert(given, Setup, strict=False)
    except msgspec.ValidationError:
        return {}
    names = {field.encode_name: field.name for field in msgspec.structs.fields(Setup)}
    return {names[name]: getattr(setup, names[name]) for name in given}


def _limits(setup: Setup) -> Limits:
    return Limits(timeout_s=setup.timeout_s, max_budget_usd=setup.max_budget_usd)


def _folder_settings(stored: Any) -> Literal["use", "none", ""]:
    """What was chosen holds when the conversation is opened again; whatever else is stored counts as nothing."""
    return stored if stored in ("use", "none") else ""


def _decision(command: Approve | Deny | AnswerCommand) -> tuple[str, str, str]:
    """Decision, reason and option of an approval."""
    if isinstance(command, AnswerCommand):
        raise UsageError("this asks for permission", hint="send `approve` or `deny`")
    if isinstance(command, Deny):
        return "decline", command.reason, ""
    return "always_allow" if command.always else "approve", "", command.option_id


def _resume_data(relay: Relay, command: Approve | Deny | AnswerCommand) -> Any:
    if isinstance(command, AnswerCommand):
        return command.answer
    if relay.kind == "plan":
        if isinstance(command, Approve):
            return {"action": "approved"}
        return {"action": "rejected", **({"feedback": command.reason} if command.reason else {})}
    if isinstance(command, Approve):
        raise UsageError("this needs an answer", hint="send `answer`")
    return command.reason or "The user does not want to answer."


def _answered_already() -> AlreadyAnswered:
    return AlreadyAnswered(
        "no question with this id is waiting for an answer",
        hint="it may have been answered already; the first answer counts",
    )
