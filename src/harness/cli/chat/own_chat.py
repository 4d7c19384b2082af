"""`harness chat`: a conversation of this process; and `harness attach` to a session of another process."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from harness.cli.chat.conversation import ChatState, TerminalConversation
from harness.cli.chat.link import LocalLink, SocketLink
from harness.cli.chat.slash_commands import PERMISSION_MODES, carry_out, show_undo
from harness.cli.chat.terminal import ChatTerminal
from harness.cli.chat.turns import last_compaction, latest_exchange, prompts_of
from harness.cli.console import (
    Console,
    can_erase,
    is_terminal,
    screen_width,
    wants_color,
    width_of,
)
from harness.cli.folder_question import settle
from harness.cli.gateway_options import hosts_of
from harness.cli.log_notes import LogNotes
from harness.cli.output import STDOUT
from harness.cli.run_request import agent_of, model_of, require_installed
from harness.cli.tracing import traced
from harness.clients import exit_codes
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.presets import checked
from harness.clients.custom_commands import custom_commands
from harness.clients.installed_agents import names_of
from harness.clients.prompt_files import attached_files
from harness.clients.sessions.ids import all_ids, find, table
from harness.config import Settings
from harness.config.settings import PERMISSION_SPELLINGS
from harness.contracts.agent import Agent
from harness.contracts.request import OWN_AGENT
from harness.errors import HarnessError, LogLocked, UsageError
from harness.formatting.calls import short_directory
from harness.formatting.escapes import single_line
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.native.additions.commands import CustomCommand
from harness.runs.launch import find_sandbox_for
from harness.runs.sealing import find_seal
from harness.stage import View, ViewOptions
from harness.views import transcript

if TYPE_CHECKING:
    from harness.session.mcp_servers import McpStatus

_LISTED = 10


def chat_view(color: str, *, reasoning: bool = False) -> View:
    """The view of a conversation for this terminal."""
    on_terminal = is_terminal(STDOUT)
    return transcript.open(
        ViewOptions(
            reasoning=reasoning,
            content=on_terminal,
            human=on_terminal,
            color=wants_color(color, os.environ, is_terminal=on_terminal),
            width=width_of(STDOUT, os.environ),
            live=can_erase(STDOUT, os.environ),
        )
    )


class OwnChat:
    """It is the `Actions` of its conversation as well."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        settings: Settings,
        store: FileStore,
        console: Console,
        agent_session: str = "",
        first: str = "",
    ) -> None:
        """`agent_session`: a session that the agent has stored itself, to be continued. `first`: the first prompt.

        Raises HarnessError for invalid options.
        """
        self._arguments = arguments
        self._settings = settings
        self._store = store
        self._console = console
        self._first, self._attached = first, attached_files(arguments.attach)
        self._resumed = find(store, arguments.resume) if arguments.resume else ""
        before = store.metadata(self._resumed) if self._resumed else Metadata(session_id="")
        self._agent: Agent = agent_of(arguments.agent or before.agent_name, settings, model=arguments.model)
        self._permissions, mode = _permissions(arguments.permissions or _stored_permissions(before), settings)
        mode = arguments.mode or mode
        setup = Setup(
            agent=self._agent.name,
            model=self._first_model(before),
            mode=mode or str(before.settings.get("currentModeId") or ""),
            permission_mode=PERMISSION_MODES[self._permissions],
            agent_session=agent_session,
        )
        self._setup = checked(_with_options(setup, arguments, before))
        use = settle(self._agent, self._setup.cwd, self._permissions, arguments.folder_settings, console)
        self._setup = replace(self._setup, folder_settings=use)
        self._changes = _changes(arguments, self._setup, has_mode=bool(mode))

    def run(self) -> int:
        """Run the chat until the person leaves; returns the exit code. Raises AgentNotFound before it begins."""
        require_installed(self._agent, self._settings)
        setup = self._setup
        state = ChatState(
            agent=self._agent.title,
            folder=setup.cwd,
            model=setup.model,
            mode=setup.mode,
            permissions=self._permissions,
        )
        with ExitStack() as stack:
            terminal = stack.enter_context(ChatTerminal(os.environ))
            stack.enter_context(LogNotes(self._console))
            stack.enter_context(traced(self._settings, self._console.warning, self._arguments.otlp))
            link = LocalLink(self._store, setup, terminal.wake)
            stack.callback(link.close)
            conversation = TerminalConversation(
                link,
                terminal,
                chat_view(self._arguments.color, reasoning=self._arguments.reasoning),
                state,
                self,
                first=self._first,
                attached=self._attached,
            )
            self._greet(conversation)
            if self._resumed:
                self._continue(conversation, self._resumed, self._changes)
            code = run_with_signals(conversation)
        self._print_end(conversation)
        return code

    # What the conversation asks for

    def resolve_model(self, name: str) -> str:
        return model_of(name, self._agent, self._settings, self._console)

    def resume(self, conversation: TerminalConversation, session: str) -> None:
        store = self._store
        if not session:
            known = all_ids(store)
            latest = [store.metadata(log_id) for log_id in known[:_LISTED]]
            listed = table(latest, known, screen_width(os.environ)) if latest else "there is no session yet\n"
            conversation.terminal.say(listed.rstrip())
            return
        self._continue(conversation, session, {})

    def _continue(self, conversation: TerminalConversation, session: str, changes: Mapping[str, Any]) -> None:
        """`changes`: what is asked for now, instead of what it was had with."""
        store, link = self._store, conversation.link
        assert isinstance(link, LocalLink)
        log_id = find(store, session)
        if log_id != link.log_id and store.is_live(log_id):
            raise LogLocked(
                "this session is open in another program",
                hint=f"`harness attach {log_id}` joins it there, or end it",
            )
        link.open(log_id, changes)
        metadata = store.metadata(log_id)
        state = conversation.state
        if metadata.kind == "thread":
            state.agent, state.model = metadata.agent or state.agent, metadata.model
            state.folder, state.permissions = metadata.cwd or state.folder, _stored_permissions(metadata)
        name = single_line(metadata.name or metadata.prompt)[:60]
        conversation.terminal.say(f"· continues {log_id[:8]}{f': {name}' if name else ''}")
        conversation.follow(latest_exchange(store, link.log_id))

    def rewind(self, conversation: TerminalConversation, turn: str) -> None:
        link, left = conversation.link, conversation.link.log_id
        assert isinstance(link, LocalLink)
        prompts = prompts_of(self._store, left)
        if not turn:
            lines = [
                f"{number:>4}  {single_line(prompt.text)[:70]}" for number, prompt in enumerate(prompts, 1)
            ]
            conversation.terminal.say("\n".join([*lines, "· /rewind TURN goes on from before it"]))
            return
        if not turn.isdecimal() or not 1 <= int(turn) <= len(prompts):
            raise UsageError(f"there is no turn {turn[:20]}", hint=f"there are 1 to {len(prompts)}")
        message = prompts[int(turn) - 1]
        link.rewind(message.id)
        conversation.terminal.say(f"· goes on from before: {single_line(message.text)[:60]}")
        conversation.follow(latest_exchange(self._store, link.log_id))
        try:
            show_undo(
                conversation,
                left,
                f"{message.run_id}..{prompts[-1].run_id}",
                "no file was changed since then",
            )
        except HarnessError as error:  # a turn that was not recorded
            conversation.terminal.say(f"· its files stay as they are: {error.message}")

    def begin_anew(self, conversation: TerminalConversation) -> None:
        link, before = conversation.link, conversation.link.log_id
        assert isinstance(link, LocalLink)
        background = conversation.status.background
        link.leave()
        conversation.unfollow()
        ending = f"; ended: {single_line(', '.join(background))}" if background else ""
        conversation.terminal.say(
            f"· a new conversation; back to the one before: /resume {before[:8]}{ending}"
        )

    def undo_compaction(self, conversation: TerminalConversation) -> None:
        link = conversation.link
        assert isinstance(link, LocalLink)
        found = last_compaction(self._store, link.log_id)
        if found.event is None:
            raise UsageError("nothing was summed up yet")
        if found.is_within:
            raise UsageError(
                "there were messages since it was summed up",
                hint="/rewind TURN goes on from before one, with all of it",
            )
        link.rewind(found.event.run_id)
        conversation.terminal.say("· goes on with all that was said")
        conversation.follow(latest_exchange(self._store, link.log_id))

    def mcp_servers(self, conversation: TerminalConversation) -> Mapping[str, McpStatus]:
        link = conversation.link
        assert isinstance(link, LocalLink)
        if not link.log_id:
            raise UsageError("the servers start with the first prompt", hint="type one")
        if self._store.metadata(link.log_id).agent_name != OWN_AGENT:
            raise UsageError(
                f"{conversation.state.agent} has MCP servers of its own", hint="its own program lists them"
            )
        return link.mcp_servers()

    def commands(self) -> Mapping[str, CustomCommand]:
        if self._agent.name != OWN_AGENT:
            return {}
        return custom_commands(self._setup.cwd, self._setup.folder_settings)

    def _first_model(self, before: Metadata) -> str:
        """The one that was named, else that of the session that is continued, else the usual one."""
        if self._arguments.model:
            return self.resolve_model(self._arguments.model)
        is_same = before.kind == "thread" and before.agent_name == self._agent.name
        return (before.model if is_same else "") or self._usual_model()

    def _usual_model(self) -> str:
        name = str(self._settings.model_for(names_of(self._agent)) or "")
        return self.resolve_model(name) if name else ""

    def _greet(self, conversation: TerminalConversation) -> None:
        if not conversation.terminal.is_interactive:
            return
        state = conversation.state
        facts = [state.agent, state.model, short_directory(state.folder), f"permissions: {state.permissions}"]
        if self._setup.sandbox:
            facts.append(f"confined by {find_sandbox_for(self._agent.name, state.folder).name}")
        if self._setup.sealed:
            facts.append(f"sealed by {find_seal(self._setup.sealed, state.folder).name}")
        elif self._setup.gateway:
            facts.append("through a gateway")
        conversation.terminal.say(single_line(" · ".join(fact for fact in facts if fact)))
        if state.permissions == "ask" and self._agent.two_way is None and self._agent.name != OWN_AGENT:
            conversation.terminal.say(
                f"{state.agent} cannot be asked while it runs: its own settings decide what it may do"
            )
        conversation.terminal.say("/help lists commands, Ctrl-C stops a turn, /quit leaves")

    def _print_end(self, conversation: TerminalConversation) -> None:
        if conversation.link.log_id and conversation.terminal.is_interactive:
            self._console.say(f"continue: harness chat --resume {conversation.link.log_id}")


def run_with_signals(conversation: TerminalConversation) -> int:
    """Ctrl-C stops the turn; what ends a program ends the conversation. Returns the exit code."""
    ended_by = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        conversation.interrupt()

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal ended_by
        del frame
        ended_by = number
        conversation.leave()

    def resume(number: int, frame: FrameType | None) -> None:
        del number, frame
        conversation.terminal.resume()

    handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
        signal.SIGINT: interrupt,
        signal.SIGTERM: leave,
        signal.SIGHUP: leave,
        signal.SIGCONT: resume,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    # A signal may reach another thread: the handler then runs only once this one wakes up.
    woken = signal.set_wakeup_fd(conversation.terminal.wake_fd, warn_on_full_buffer=False)
    try:
        conversation.run(carry_out)
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
    if ended_by:
        return exit_codes.of_signal(ended_by)
    is_script = not conversation.terminal.is_interactive
    return (
        exit_codes.OUTCOMES[conversation.last.outcome] if is_script and conversation.last is not None else 0
    )


def _permissions(option: str, settings: Settings) -> tuple[str, str]:
    """The option, else the setting, else `ask`; and the mode that it means. `plan` asks once its plan is approved."""
    key = "default_permissions"
    wanted = option or ("ask" if settings.origin(key) == "default" else settings.value(key))
    known = PERMISSION_SPELLINGS.get(wanted.strip().lower(), wanted)
    if known == "plan":
        return "ask", known
    known = "ask" if known == "agent-default" else known
    if known not in PERMISSION_MODES:
        raise UsageError(
            f"unknown permissions: {wanted}", hint=f"expected one of: {', '.join(PERMISSION_MODES)}, plan"
        )
    return known, ""


def _with_options(setup: Setup, arguments: argparse.Namespace, before: Metadata) -> Setup:
    """`before`: the session that is continued, whose settings hold where no option says otherwise."""
    stored = before.settings
    return replace(
        setup,
        cwd=arguments.cwd or before.cwd,
        effort=arguments.effort or str(stored.get("effort") or ""),
        system_prompt=arguments.system_prompt or str(stored.get("systemPrompt") or ""),
        max_turns=arguments.max_turns or stored.get("maxTurns"),
        max_budget_usd=arguments.max_budget_usd,
        timeout_s=arguments.timeout,
        at_limit=arguments.at_limit,
        max_windows=arguments.max_windows,
        mcp=tuple(map(os.path.abspath, arguments.mcp)),
        append_system_prompt=arguments.append_system_prompt,
        temperature=arguments.temperature,
        max_output_tokens=arguments.max_output_tokens,
        context_window=arguments.context_window or stored.get("contextWindow"),
        sandbox=arguments.sandbox or bool(stored.get("sandbox")),
        gateway=arguments.gateway or bool(stored.get("gateway")),
        sealed=arguments.sealed or stored.get("sealed") or "",
        allow_hosts=hosts_of(arguments) or tuple(stored.get("allowHosts") or ()),
    )


_OPTIONS = {
    "permission_mode": "permissions",
    "timeout_s": "timeout",
    "allow_hosts": "allow_host",
    **{
        name: name
        for name in (
            *(
                "agent",
                "model",
                "cwd",
                "effort",
                "system_prompt",
                "append_system_prompt",
                "temperature",
                "mcp",
            ),
            *(
                "max_output_tokens",
                "context_window",
                "max_turns",
                "max_budget_usd",
                "at_limit",
                "max_windows",
            ),
            *("sandbox", "gateway", "sealed", "folder_settings"),
        )
    },
}
"""Fields of a setup that an option states."""


def _changes(arguments: argparse.Namespace, setup: Setup, *, has_mode: bool) -> dict[str, Any]:
    """What was asked for on the command line: it holds for a session that is continued, too."""
    values = {name: getattr(arguments, option) for name, option in _OPTIONS.items()}
    names = [name for name, value in values.items() if value or (value == 0 and value is not False)]
    names += ["mode"] if has_mode else []
    names += ["folder_settings"] if setup.folder_settings else []  # the person was asked
    return {name: getattr(setup, name) for name in names}


def _stored_permissions(metadata: Metadata) -> str:
    mode = metadata.settings.get("permissionMode")
    return next((name for name, stored in PERMISSION_MODES.items() if stored == mode), "")


# `harness attach` to a session of another process of the same user.


_GREETING = "What you type steers the run, or answers it. /help lists commands, /quit leaves."


class _AttachedActions:
    """The `Actions` of a conversation that belongs to another program."""

    def resolve_model(self, name: str) -> str:
        return name

    def rewind(self, conversation: TerminalConversation, turn: str) -> None:
        del conversation, turn
        raise UsageError("this session belongs to another program", hint="go back in that one")

    def begin_anew(self, conversation: TerminalConversation) -> None:
        del conversation
        raise UsageError("this terminal follows one session", hint="`harness chat` begins another")

    def undo_compaction(self, conversation: TerminalConversation) -> None:
        self.rewind(conversation, "")

    def mcp_servers(self, conversation: TerminalConversation) -> Mapping[str, McpStatus]:
        del conversation
        raise UsageError("this session belongs to another program", hint="/mcp there shows its servers")

    def commands(self) -> Mapping[str, CustomCommand]:
        return {}

    def resume(self, conversation: TerminalConversation, session: str) -> None:
        del conversation, session
        raise UsageError(
            "this terminal follows one session", hint="`harness chat --resume ID` continues another"
        )


def follow(store: FileStore, log_id: str, arguments: argparse.Namespace) -> int | None:
    """Until the session ends or the person leaves; the exit code. None when its program takes no commands."""
    metadata = store.metadata(log_id)
    with ChatTerminal(os.environ) as terminal:
        try:
            link = SocketLink(store, log_id, terminal.wake)
        except OSError:
            return None
        state = ChatState(
            agent=metadata.agent or "the agent", folder=metadata.cwd, model=metadata.model, mode=""
        )
        conversation = TerminalConversation(
            link,
            terminal,
            chat_view(arguments.color),
            state,
            _AttachedActions(),
            is_read_only=arguments.read_only,
        )
        if terminal.is_interactive and not arguments.read_only:
            terminal.say(_GREETING)
        conversation.follow(latest_exchange(store, log_id))
        try:
            return run_with_signals(conversation)
        finally:
            link.close()
