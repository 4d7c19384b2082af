"""The tools of the built-in agent, assembled for one run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.contracts.request import Permissions
from harness.contracts.subagent import SubagentKind
from harness.contracts.tool import Tool
from harness.log.redact.redactor import secrets_in
from harness.models.registry import open_model
from harness.native.own_models import NO_MODELS, OwnModels, resolved
from harness.native.tools.agent import AgentTool, KindModels
from harness.native.tools.apply_patch import ApplyPatchTool
from harness.native.tools.bash import BashTool
from harness.native.tools.bash_output import BashOutputTool
from harness.native.tools.edit import EditTool
from harness.native.tools.fetch import FetchTool
from harness.native.tools.glob import GlobTool
from harness.native.tools.grep import GrepTool
from harness.native.tools.list import ListTool
from harness.native.tools.read import ReadTool
from harness.native.tools.skill import SkillTool, find_skills
from harness.native.tools.todo import TodoTool
from harness.native.tools.write import WriteTool
from harness.sandbox.ladder import best_wall, find_sandbox
from harness.sandbox.protected_paths import PROTECTED, survey
from harness.sandbox.walled_programs import confining
from harness.workspace.commands import OutputFolder
from harness.workspace.roots import VERSION_CONTROL, ToolWorkspace

if TYPE_CHECKING:
    from harness.native.mcp.servers import Servers


def default_tools(
    cwd: str,
    permissions: Permissions = "full-access",
    *,
    sandbox: bool = False,
    readable: Sequence[str] = (),
    writable: Sequence[str] = (),
    hidden: Sequence[str] = (),
    redact: bool = True,
    environ: Mapping[str, str] | None = None,
    kinds: Sequence[SubagentKind] = (),
    models: OwnModels = NO_MODELS,
) -> list[Tool]:
    """All tools; read-only runs are not offered tools that change something.

    `readable` and `writable` are directories outside `cwd` that are also allowed. With `sandbox`, commands
    are confined, and nothing is fetched. `hidden` is not seen by commands, where that can be done. Raises UsageError when
    there is no sandbox here. `kinds`: of sub-agents, and `models`, what those ask.
    """
    environ = os.environ if environ is None else environ
    confinement = find_sandbox(environ) if sandbox else None
    outputs = output_folder(environ, redact=redact)
    workspace = ToolWorkspace(
        cwd,
        readable=(*readable, outputs.path),
        writable=writable,
        protected=PROTECTED if sandbox else (VERSION_CONTROL,),
        closed=survey([cwd, *writable]).named if sandbox else (),
    )
    tools: list[Tool] = [ReadTool(workspace), ListTool(workspace), GlobTool(workspace), GrepTool(workspace)]
    if permissions not in ("read-only", "plan"):
        tools += [WriteTool(workspace), EditTool(workspace), ApplyPatchTool(workspace)]
        tools += [BashTool(workspace, outputs, confinement, _to_hide(hidden, environ)), BashOutputTool()]
        if not sandbox:
            tools.append(FetchTool(outputs))
    opener = KindModels(partial(open_model, environ=environ), models.subagents, models.small)
    tools += [AgentTool([_with_known_model(kind, cwd) for kind in kinds], opener), TodoTool()]
    if skills := find_skills(workspace):
        tools.append(SkillTool(skills, workspace))
    return tools


def _with_known_model(kind: SubagentKind, cwd: str) -> SubagentKind:
    """What other agents call a model (`sonnet`) may be none here: then it is the usual one."""
    name = resolved(kind.model, cwd)
    return replace(kind, model=name if "/" in name else "")


def names_of(*, sandbox: bool) -> tuple[str, ...]:
    """The names of the tools that there are with full access, but for skills."""
    own = (
        "read",
        "list",
        "glob",
        "grep",
        "write",
        "edit",
        "apply_patch",
        "bash",
        "bash_output",
        "agent",
        "todo",
    )
    return own if sandbox else (*own, "fetch")


def _to_hide(hidden: Sequence[str], environ: Mapping[str, str]) -> Sequence[str]:
    rung = best_wall(environ) if hidden else None
    return hidden if rung is not None and rung.hides else ()


@asynccontextmanager
async def mcp_tools(
    files: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    on_warning: Callable[[str], object],
    redact: bool = True,
    environ: Mapping[str, str] | None = None,
    sandbox: bool = False,
) -> AsyncIterator[Servers]:
    """The servers named in these `mcp.json` files and in the user's own.

    `env` is the environment of the servers; `environ` holds the variables that their entries may refer to.
    With `sandbox`, servers that are programs are confined like commands.
    """
    from harness.native.mcp.config import load_servers
    from harness.native.mcp.servers import connected

    environ = os.environ if environ is None else environ
    servers = load_servers(files, environ, on_warning)
    outputs = output_folder(environ, redact=redact)
    async with AsyncExitStack() as stack:
        confine = None
        if sandbox and servers:
            around = confining(find_sandbox(environ), [cwd], on_warning)
            confine = await stack.enter_async_context(around)
        servers_opened = connected(
            servers, cwd=cwd, env=env, outputs=outputs, on_warning=on_warning, confine=confine
        )
        yield await stack.enter_async_context(servers_opened)


def output_folder(environ: Mapping[str, str], *, redact: bool) -> OutputFolder:
    return OutputFolder(secrets=secrets_in(environ) if redact else None)
