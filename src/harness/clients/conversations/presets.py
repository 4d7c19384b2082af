"""How a conversation is set up: agents with their permissions, and the modes that the server offers."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from harness.agents.registry import load
from harness.clients.conversations.backend import Setup
from harness.config import load as load_settings
from harness.contracts.request import (
    OWN_AGENT,
    REMOTE_AGENT,
    GatewayOptions,
    Permissions,
    require_word,
)
from harness.errors import UsageError
from harness.models.registry import any_model
from harness.runs.launch import find_sandbox_for, refusal_to_ask_here
from harness.session.config import BUILTIN_TOOLS, BackingAgent, CommandAgent, Mode

if TYPE_CHECKING:
    from harness.native.additions.places import Additions
    from harness.native.loop.instructions import Instructions

AgentAccess = Literal["full-access", "read-only", "ask"]

BUILD, PLAN = "build", "plan"
MODES = ({"id": BUILD, "name": "Build"}, {"id": PLAN, "name": "Plan"})
_PLANNING = """\
You are planning. Look at what is there and think, but change nothing: write no file and run no command that does.
When you know what is to be done, submit a plan; it is carried out once the user has approved it."""
SUBAGENT = "subagent"
_OWN_BUILTINS = ("ask_user", "submit_plan")
"""Of the tools of a session, those that the built-in agent of a conversation has."""
_READING = ("read", "grep", "glob", "list", "skill", "fetch", "todo", "bash_output")

_AGENT_SESSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
"""It cannot be taken for an option of the agent."""
_MOST_STEPS = 200
_ACCESS: dict[str, AgentAccess] = {
    "": "ask",
    "default": "ask",
    "acceptEdits": "ask",
    "fullAuto": "full-access",
    "readOnly": "read-only",
}
_RULES: dict[str, dict[str, str]] = {
    "": {"read": "allow"},
    "default": {"read": "allow"},
    "acceptEdits": {"read": "allow", "edit": "allow"},
    "fullAuto": {},
    "readOnly": {"read": "allow", "edit": "deny", "execute": "deny", "mcp": "deny", "other": "deny"},
}


def permissions_state(permission_mode: str) -> dict[str, Any]:
    """The state of a session for a permission mode. Sub-agents are under the same rules."""
    tools = {SUBAGENT: "allow", "agent": "allow"} if permission_mode == "readOnly" else {}
    rules = {"categories": _RULES[permission_mode], "tools": tools}
    return {"yolo": permission_mode == "fullAuto", "permissionRules": rules}


def backing_of(setup: Setup, additions: Additions | None = None) -> BackingAgent | CommandAgent:
    """`additions`: to the built-in agent. Raises UnknownAgent, and UsageError for an agent that cannot be held to the permission mode."""
    agent = load(setup.agent)
    if agent.name != OWN_AGENT:
        access = _ACCESS[setup.permission_mode]
        permissions: Permissions = "accept-edits" if setup.permission_mode == "acceptEdits" else "ask"
        if access == "ask" and (refusal := refusal_to_ask_here(agent, permissions)) is not None:
            raise refusal
        return CommandAgent(
            name=agent.name,
            permissions=access,
            max_turns=setup.max_turns,
            extra_args=_place_words(setup),
            session=setup.agent_session,
            sandbox=setup.sandbox,
            gateway=_gateway(setup),
            sealed=setup.sealed,
            folder_settings=setup.folder_settings,
        )
    from harness.native.loop.native import around_calls
    from harness.native.own_models import own_models

    _require_no_gateway(setup)
    most = setup.max_turns or _MOST_STEPS
    return BackingAgent(
        lasting_instructions=partial(_prompt, setup),
        max_steps=most,
        effort=setup.effort,
        instructions=setup.append_system_prompt,
        temperature=setup.temperature,
        max_output_tokens=setup.max_output_tokens,
        context_window=setup.context_window,
        fallback_models=own_models(setup.cwd).fallbacks,
        around=partial(around_calls, additions.hooks if additions is not None else (), setup.cwd),
    )


def _require_no_gateway(setup: Setup) -> None:
    """The built-in agent works in this process, which has the keys and can reach everything. Raises UsageError."""
    if not setup.gateway and not setup.sealed:
        return
    word, option = ("sealed", "sealed") if setup.sealed else ("put behind a gateway", "gateway")
    raise UsageError(
        f"a conversation with the built-in agent cannot be {word}",
        hint=f"leave --{option} out, or run single tasks: harness run -a {OWN_AGENT} --{option}",
    )


def _prompt(setup: Setup) -> str:
    """That of the built-in agent, as it is now: instructions may have changed since the message before."""
    from harness.native.loop.system_prompt import facts, own_prompt
    from harness.native.tools.registry import names_of

    known = facts(setup.cwd, os.environ, int(time.time() * 1000))
    names = (*names_of(sandbox=setup.sandbox), *_OWN_BUILTINS)
    return own_prompt(setup.cwd, names, setup.model, instructions_of(setup), known)


def instructions_of(setup: Setup) -> list[Instructions]:
    """What user and project tell the built-in agent; nothing for a program."""
    from harness.native.loop.instructions import find_instructions

    return find_instructions(setup.cwd) if load(setup.agent).name == OWN_AGENT else []


def additions_of(setup: Setup) -> Additions | None:
    """What user and project add to the built-in agent; None for a program."""
    from harness.native.additions.places import find_additions

    return find_additions(setup.cwd, setup.folder_settings) if load(setup.agent).name == OWN_AGENT else None


def disabled_tools_of(setup: Setup) -> tuple[str, ...]:
    """The tools of a session that the built-in agent has under other names: it is the same agent as in `harness run`."""
    if load(setup.agent).name != OWN_AGENT:
        return ()
    return tuple(tool for tool in BUILTIN_TOOLS if tool not in _OWN_BUILTINS)


def servers_of(setup: Setup) -> tuple[str, ...]:
    """The `mcp.json` files of the built-in agent: those that were named, and the user's own."""
    from harness.native.mcp.config import user_file

    if load(setup.agent).name != OWN_AGENT:
        return ()
    own = (user_file(),) if os.path.isfile(user_file()) else ()
    return (*setup.mcp, *own)


def modes_of(setup: Setup) -> list[Mode]:
    agent = load(setup.agent)
    reader = None
    if agent.name != OWN_AGENT:
        reader = CommandAgent(
            name=agent.name,
            permissions="read-only",
            extra_args=_place_words(setup),
            session=setup.agent_session,
            sandbox=setup.sandbox,
            gateway=_gateway(setup),
            sealed=setup.sealed,
            folder_settings=setup.folder_settings,
        )
    return [
        Mode(id=BUILD, name="Build", default=True, keeps_prefix=True),
        Mode(
            id=PLAN,
            name="Plan",
            instructions=_PLANNING,
            agent=reader,
            transitions_to=BUILD,
            keeps_prefix=True,
            available_tools=(*_READING, *(tool for tool in BUILTIN_TOOLS if tool != SUBAGENT)),
        ),
    ]


def _gateway(setup: Setup) -> GatewayOptions | None:
    return GatewayOptions(allow_hosts=setup.allow_hosts) if setup.gateway or setup.sealed else None


def _place_words(setup: Setup) -> tuple[str, ...]:
    return ("--runner", setup.runner) if setup.runner else ()


def _checked_runner(setup: Setup, agent: str) -> str:
    """Its name, also where none was given. Raises UsageError for one that the user has not set up; an
    address is never accepted.
    """
    if agent != REMOTE_AGENT:
        return ""
    from harness.runs.remotes.places import find

    return find(setup.runner, os.environ, setup.cwd).name


_OWN_OPTIONS = ("mcp", "append_system_prompt", "temperature", "max_output_tokens", "context_window")


def checked(setup: Setup) -> Setup:
    """With an absolute directory and the agent's own name. Raises UsageError when it is invalid."""
    if not setup.agent:
        raise UsageError("no agent was named", hint="name one of `GET /api/agents`")
    if setup.permission_mode not in _ACCESS:
        names = ", ".join(name for name in _ACCESS if name)
        raise UsageError(f"unknown permission mode: {setup.permission_mode}", hint=f"there are: {names}")
    if setup.agent_session and not _AGENT_SESSION.fullmatch(setup.agent_session):
        raise UsageError(
            f"this cannot be the id of a session: {setup.agent_session[:60]!r}",
            hint="`harness sessions list` shows the ids",
        )
    for name, value in (("model", setup.model), ("effort", setup.effort)):
        require_word(name, value)
    if setup.mode not in ("", BUILD, PLAN):
        raise UsageError(f"unknown mode: {setup.mode}", hint=f"there are: {BUILD}, {PLAN}")
    agent = load(setup.agent).name
    if agent != OWN_AGENT and (options := [name for name in _OWN_OPTIONS if getattr(setup, name)]):
        raise UsageError(
            f"only the built-in agent takes {', '.join(options)} in a conversation",
            hint="leave it out, or give it to `harness run`",
        )
    if agent == OWN_AGENT:
        _require_no_gateway(setup)
    if setup.allow_hosts and not setup.sealed:
        raise UsageError("hosts can be allowed to a sealed agent only", hint="seal it as well")
    cwd = checked_directory(setup.cwd or os.getcwd())
    if setup.sandbox:
        find_sandbox_for(agent, cwd)
    return replace(
        setup,
        agent=agent,
        runner=_checked_runner(setup, agent),
        model=setup.model or (_own_model(cwd) if agent == OWN_AGENT else ""),
        cwd=cwd,
        mode=setup.mode or BUILD,
    )


def _own_model(cwd: str) -> str:
    """Of the settings, else one that can be asked here without a choice."""
    from harness.native.own_models import resolved

    return resolved(load_settings(cwd).model_for((OWN_AGENT,)), cwd) or any_model()


def checked_directory(path: str) -> str:
    """Absolute. Raises UsageError for what is no directory."""
    path = os.path.abspath(os.path.expanduser(path))
    if "\0" in path or not os.path.isdir(path):
        raise UsageError(f"no such directory: {path!r}", hint="name a directory that exists")
    return path
