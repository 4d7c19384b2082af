"""The contract of what runs conversations: commands in, status and logs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from harness.clients.commands import Command, Submit

if TYPE_CHECKING:
    from harness.log.hub import Hub
    from harness.session.bus import Bus


class Setup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a conversation is to be run. Empty: the user's own default, else the agent's."""

    agent: str = ""
    runner: str = ""
    """For the agent `remote`: which of the user's runners. Empty: the usual one."""
    model: str = ""
    mode: str = ""
    permission_mode: str = ""
    cwd: str = ""
    system_prompt: str = ""
    max_turns: int | None = None
    effort: str = ""
    context_window: int | None = None
    """How many tokens the model of the built-in agent can read; None: as its name says."""
    append_system_prompt: str = ""
    """After the built-in agent's own."""
    temperature: float | None = None
    max_output_tokens: int | None = None
    """For one answer of the model of the built-in agent."""
    max_budget_usd: float | None = None
    """What the answer to one message may cost."""
    timeout_s: float | None = None
    """How long the answer to one message may take."""
    at_limit: Literal["ask", "resume", ""] = ""
    """When a window of the provider is full: a person continues, or it continues by itself when that opens again."""
    max_windows: int | None = None
    """So many in a row. None: as the settings say."""
    mcp: tuple[str, ...] = ()
    """`mcp.json` files, whose servers the built-in agent may use, besides the user's own."""
    title: str = ""
    sandbox: bool = False
    """Confine the agent: a program with all that it starts, the built-in one's commands."""
    gateway: bool = False
    """Put a gateway between an agent program and its model: it holds the key and records every call."""
    sealed: Literal["", "write", "read"] = ""
    """Through a gateway, and nothing else can be reached or written; `read`: nor can anything of the home be read."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that a sealed agent may reach besides, on port 443."""
    folder_settings: Literal["use", "none", ""] = ""
    """Whether the agent obeys settings that the folder brings. Empty: if the folder is trusted, or with full access."""
    continues: str = ""
    """A session whose history is the beginning of this one."""
    agent_session: str = ""
    """The id of a session that the agent has stored itself, and that is continued. Empty: a new one."""
    before: str = ""
    """The id of a user message there, or of a run: only what came before it is continued. Empty: everything."""

    def stated(self) -> dict[str, Any]:
        """What it does not leave open, for a server."""
        return {name: value for name, value in msgspec.to_builtins(self).items() if value}


_RIGHTS = {"readOnly": 0, "default": 1, "acceptEdits": 2, "fullAuto": 3}


def does_more(permission_mode: str, folder_settings: str, granted: str) -> bool:
    """Whether a conversation may do more without asking than a client was granted, as a permission mode."""
    rank = _RIGHTS.get(permission_mode or granted, len(_RIGHTS))
    return rank > _RIGHTS[granted] or (folder_settings == "use" and granted != "fullAuto")


class ConversationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation does now, and which commands it accepts."""

    is_ours: bool = False
    """Whether this server runs it, or may take it up."""
    is_elsewhere: bool = False
    """Whether another server has it and carries out the commands given here. `can_steer` and `can_cancel` then hold
    while a run is in progress, which only the log shows."""
    is_running: bool = False
    is_waiting: bool = False
    """For an answer."""
    can_submit: bool = False
    can_steer: bool = False
    can_answer: bool = False
    can_cancel: bool = False
    can_branch: bool = False
    """Whether another conversation can start from an earlier message of this one."""
    background: tuple[str, ...] = ()
    """The commands of the built-in agent that go on in the background, each with its id."""
    grants: tuple[dict[str, str], ...] = ()
    """What is always allowed in it: `{id, label}` each."""

    @property
    def capabilities(self) -> dict[str, Any]:
        return {
            "submit": self.can_submit,
            "steer": self.can_steer,
            "answer": self.can_answer,
            "cancel": self.can_cancel,
            "branch": self.can_branch,
        }


class Backend(Protocol):
    """Contract: everything is called in one event loop. What cannot be done raises HarnessError and changes
    nothing. Commands for one conversation are carried out in the order in which they are given. The first answer
    to a `Relay` counts; a later one raises. A prompt that arrives during a run is queued.
    """

    def check(self, setup: Setup, prompt: Submit | None = None) -> None:
        """Raises what `create` raises for an invalid setup, and `carry_out` for an invalid first prompt."""
        ...

    async def create(self, setup: Setup, log_id: str = "") -> str:
        """Create a conversation; returns its id, which is that of its log. `log_id`: an id of the client's own."""
        ...

    async def carry_out(self, log_id: str, command: Command) -> None: ...

    async def load(self, log_id: str) -> None:
        """Open a conversation, which then waits here for what it waits for. Raises LogLocked while another has it."""
        ...

    def status(self, log_id: str) -> ConversationStatus: ...

    def hub(self, log_id: str) -> Hub | None:
        """The hub that writes its log, while it is loaded."""
        ...

    def bus(self, log_id: str) -> Bus | None:
        """The reader of its log, while it is loaded."""
        ...

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call the listener with the id of every conversation whose status or hub has changed."""
        ...

    def listen_to_replacements(self, listener: Callable[[str], None]) -> None:
        """Call the listener with the id of every conversation whose log was replaced: what was read of it is invalid."""
        ...

    async def unload_idle(self, is_watched: Callable[[str], bool]) -> None:
        """Unload conversations that are idle and not watched."""
        ...

    async def unload(self, log_id: str) -> None:
        """Unload one conversation, so that another process can open it, or delete it."""
        ...

    async def close(self) -> None:
        """Stop everything that runs, and close all logs."""
        ...
