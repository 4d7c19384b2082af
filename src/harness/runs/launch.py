"""From a request to a program that can be started: agent, binary, version, arguments, environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from msgspec.structs import fields, replace

from harness.agents.registry import load
from harness.approvals.rules import Rule
from harness.contracts.agent import Agent, CommandLine, TwoWay, Version
from harness.contracts.request import REMOTE_AGENT, Permissions, Request
from harness.contracts.translator import Translator
from harness.errors import AgentNotFound, InvalidDirectory, UsageError
from harness.process.invocation import Invocation
from harness.process.version_probe import parse_version, probe_version
from harness.runs.agent_rules import require_asking_to_read, rules_for
from harness.runs.folder_trust import FolderUse, decide_use
from harness.runs.gateway_use import through_gateway, with_settings
from harness.runs.held_settings import hold
from harness.runs.new_sessions import require_no_new_session
from harness.runs.recorded_stream import with_prompt
from harness.runs.refusals import refusal_to_ask
from harness.runs.trusting_settings import require_asking
from harness.runs.user_grants import without_grants
from harness.sandbox.wall import Wall
from harness.version import __version__

if TYPE_CHECKING:
    from harness.runs.gateway_plan import GatewayPlan
    from harness.sandbox.rungs import Rung
    from harness.usage.budget import BudgetGuard

_OPTIONAL = (
    *("model", "mcp", "resume", "continue_last", "system_prompt", "append_system_prompt"),
    *(
        "tool_servers",
        "on_ask",
        "ask_timeout_s",
        "effort",
        "temperature",
        "max_output_tokens",
        "context_window",
    ),
)
_NOT_SAID: tuple[Any, ...] = ("", (), None, False)
_DEFAULTS = {field.name: field.default for field in fields(Request)}
_LIMITS = ("max_turns", "max_budget_usd")
_LACKS = {
    "read-only": "has no read-only mode",
    "agent-default": "has no rules of its own for what it may do: it runs every command unasked",
}
"""Permissions → what an agent that is not held to them is missing."""
_WEAKER_SANDBOX = (
    "--sandbox uses Landlock here, since the system refuses namespaces and there is no bubblewrap that works: commands "
    "can create nothing at the top of the workspace and cannot commit, but can change modes and times of files outside"
)
NOTHING_HIDES = (
    "no sandbox that could hide something can be built here: what this run must not see can be read by an agent that "
    "looks for it"
)
_LOGIN = (
    "your log-in is passed on to its vendor unchanged; whether a program of yours may stand between the two is for the terms of "
    "your subscription to say"
)
_HIDES_NOTHING = "; the agent can read your home"
_BY_DIALOGUE = frozenset({"ask", "on_ask", "ask_timeout_s"})
"""What works with every agent that is held in a conversation."""
_STARTED_AS: Mapping[Permissions, Permissions] = {"accept-edits": "ask", "plan": "read-only"}
"""How a program is started for what is decided here: it asks about everything, and is answered by the mode."""
_ENFORCED_BY_US = frozenset(_LIMITS)
"""Limits that the harness itself watches where the agent cannot."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is settled before a process exists."""

    agent: Agent
    speaks: Agent
    """Whose format the output has: the agent itself, but for replays."""
    request: Request
    """As it will be carried out: what the agent cannot do is gone from it."""
    binary: str
    """Empty when the agent is not installed, or runs in this process."""
    version: str
    invocation: Invocation
    prompt: str
    """As the agent gets it, with the briefing before it."""
    warnings: tuple[str, ...]
    watched_limits: frozenset[str]
    """Of max_turns and max_budget_usd: those that the harness must watch itself."""
    two_way: TwoWay | None = None
    """How the agent is held in a conversation; None: it gets one prompt, and is only read."""
    sandbox: str = ""
    """What confines it: namespaces, bubblewrap or landlock; empty: nothing does."""
    run_id: str = ""
    """Under which it is written; empty when it has a log of its own, whose id it shares."""
    access: Permissions = "full-access"
    """What was granted. To be held to rules, a program is asked about more than that."""
    rules: tuple[Rule, ...] = ()
    """The rules of the settings, for an agent program."""
    run_variables: tuple[str, ...] = ()
    """Variables that say in which run the program works: another run can use its process all the same."""
    budget: BudgetGuard | None = None
    """The limits of `harness budget` that hold for it."""
    gateway: GatewayPlan | None = None
    """The gateway between the agent program and its model."""

    @property
    def runs_here(self) -> bool:
        """Whether the agent runs in this process. Behind a gateway a built-in one has a process of its own."""
        return self.agent.work is not None and self.gateway is None

    def new_translator(self) -> Translator:
        return (self.two_way or self.speaks).translator()

    @property
    def delta_keys(self) -> tuple[str, ...]:
        """JSON keys of streamed pieces of text, for the masking of secrets."""
        of_two_way = self.two_way.delta_keys if self.two_way is not None else None
        return self.speaks.delta_keys if of_two_way is None else of_two_way


def prepare(
    request: Request, environ: Mapping[str, str] | None = None, *, needs_prompt: bool = True
) -> Launch:
    """Raises UnknownAgent, InvalidDirectory, UsageError; a missing program is not an error yet."""
    environ = os.environ if environ is None else environ
    agent = load(request.agent)
    cwd = _working_directory(request)
    request = replace(with_prompt(request, needs_prompt=needs_prompt), cwd=cwd)
    request = with_settings(agent, request, environ)
    binary = _binary_of(agent, request, environ)
    access = request.permissions
    request, rules = _under_rules(agent, request, cwd, binary)
    wants_two_way = _wants_conversation(agent, request)
    version = _version_of(agent, binary, is_needed=_has_more(agent, request, wants_two_way=wants_two_way))
    two_way = _two_way(agent, request, version, access, binary) if wants_two_way else None
    supports = _supported(agent, two_way, parse_version(version))
    request = replace(request, agent=agent.name, mcp=tuple(map(os.path.abspath, request.mcp)))
    request, plan, environ = through_gateway(agent, request, version, environ)
    request, warnings = _drop_unsupported(agent, request, supports, version)
    request, left_out = _without_files(agent, two_way, request)
    use = _folder_use(agent, two_way, request, environ)
    request = _with_session_id(agent, replace(request, folder_settings=use.settings), version)
    sandbox = _confining(agent, request, plan, environ)
    warnings += left_out + use.warnings + _wall_warnings(agent, sandbox, plan)
    briefed = _with_briefing(request)
    command, held = hold(_command_of(agent, two_way, briefed, version), {**environ, **request.env}, cwd)
    launch = Launch(
        agent=agent,
        speaks=load(request.native) if request.native else agent,
        request=briefed if agent.work is not None else request,
        binary=binary,
        version=version,
        invocation=_invocation(
            binary or next(iter(agent.binaries), agent.name),
            command,
            _environment(request, command, environ, use) | held,
            cwd,
            use,
            two_way,
        ),
        prompt=briefed.prompt,
        warnings=warnings,
        watched_limits=_ENFORCED_BY_US - supports,
        two_way=two_way,
        sandbox=sandbox,
        access=access,
        rules=rules,
        gateway=plan,
    )
    return _hiding(_behind_wall(launch), environ)


def _invocation(
    program: str,
    command: CommandLine,
    env: dict[str, str],
    cwd: str,
    use: FolderUse,
    two_way: TwoWay | None,
) -> Invocation:
    return Invocation(
        argv=(program, *command.args),
        env=env,
        cwd=cwd,
        stdin=None if two_way is not None else command.stdin,
        stdin_stays_open=two_way is not None,
        wall=use.wall,
    )


def _is_through_gateway(request: Request) -> bool:
    return request.gateway is not None or bool(request.sealed)


def _runs_apart(agent: Agent, request: Request) -> bool:
    """A built-in agent behind a gateway has a process of its own."""
    return agent.work is not None and _is_through_gateway(request)


def _binary_of(agent: Agent, request: Request, environ: Mapping[str, str]) -> str:
    return sys.executable if _runs_apart(agent, request) else find_binary(agent, request.binary, environ)


def _command_of(agent: Agent, two_way: TwoWay | None, request: Request, version: str) -> CommandLine:
    if not _runs_apart(agent, request):
        return (two_way or agent).command(request, parse_version(version))
    from harness.runs.own_process import own_process  # only here: most runs have no gateway

    return own_process(request)


def _folder_use(
    agent: Agent, two_way: TwoWay | None, request: Request, environ: Mapping[str, str]
) -> FolderUse:
    """Which settings of the folder count. Raises UsageError where it could not ask, or its session would be lost."""
    use = decide_use(agent, request, request.cwd, environ)
    use = without_grants(agent, request, environ, use)
    if two_way is not None:
        require_no_new_session(agent, two_way, request, {**environ, **request.env})
    if two_way is not None and _is_to_be_asked(two_way, request):
        folder = request.cwd if use.settings != "none" else ""
        require_asking(agent, two_way, {**environ, **request.env}, folder)
    return use


def _is_to_be_asked(two_way: TwoWay, request: Request) -> bool:
    reaches_reading = two_way.trusting is not None and two_way.trusting.reach_reading
    return request.permissions == "ask" or (request.permissions == "read-only" and reaches_reading)


def _environment(
    request: Request, command: CommandLine, environ: Mapping[str, str], use: FolderUse
) -> dict[str, str]:
    # Some programs believe PWD rather than the system about where they are.
    env = {**environ, "PWD": request.cwd, **command.env, **request.env}
    if use.settings == "none":
        env |= {**command.env, **use.git}  # nothing may lead it back to what is left out
    return env


def _under_rules(agent: Agent, request: Request, cwd: str, binary: str) -> tuple[Request, tuple[Rule, ...]]:
    """The rules of the settings for an agent program. One that has to keep to a rule is started so that it asks, and
    everything else is allowed without a person. Raises UsageError where it cannot be asked.
    """
    if agent.work is not None:
        return replace(request, permissions=_built_in_permissions(agent, request.permissions)), ()
    _require_mode(agent, request)
    request = replace(request, permissions=_STARTED_AS.get(request.permissions, request.permissions))
    if request.recording:
        return request, ()
    rules = rules_for(agent.name, cwd)
    narrowing = [rule for rule in rules if rule.answer != "allow"]
    require_asking_to_read(agent, narrowing, request.permissions)
    if request.permissions != "full-access" or not (narrowing or request.is_held_to_rules):
        return request, rules
    refusal = refusal_to_ask(agent, _version_of(agent, binary, is_needed=True) if binary else None)
    if refusal is not None:
        whose = f"your rules ({narrowing[0].words})" if narrowing else "the rules of its session"
        raise UsageError(
            f"{agent.title} cannot be held to {whose}: {refusal.message}",
            hint="use another agent or --permissions read-only, or see `harness permissions`",
        )
    return replace(request, permissions="ask"), rules


def _built_in_permissions(agent: Agent, permissions: Permissions) -> Permissions:
    """By itself an agent of this process asks before it changes anything."""
    if permissions == "plan":
        return "read-only"
    asks = permissions == "ask" or (permissions == "accept-edits" and permissions not in agent.supports)
    return "agent-default" if asks else permissions


def _has_more(agent: Agent, request: Request, *, wants_two_way: bool) -> bool:
    is_held = wants_two_way and agent.two_way is not None
    return is_held or _is_through_gateway(request)


def _version_of(agent: Agent, binary: str, *, is_needed: bool) -> str:
    """Empty where it is not known, or not needed."""
    if agent.work is not None:
        return __version__  # it is part of this program
    is_needed = is_needed or agent.needs_version
    if not binary or not is_needed:
        return ""
    # Asked again where it takes long: a busy machine has read the program then.
    return probe_version(binary, agent.version_args) or probe_version(binary, agent.version_args)


def _working_directory(request: Request) -> str:
    cwd = os.path.abspath(request.cwd or os.getcwd())
    if not os.path.isdir(cwd):
        what = "is not a directory" if os.path.exists(cwd) else "does not exist"
        raise InvalidDirectory(f"working directory {what}: {cwd}", hint="give another one with --cwd")
    return cwd


def find_sandbox_for(agent: str, cwd: str, environ: Mapping[str, str] | None = None) -> Rung:
    """What would confine the agent there. Raises UsageError where nothing can: now, and not in the middle of a run."""
    from harness.sandbox.ladder import find_sandbox
    from harness.sandbox.protected_paths import require_apart

    require_confinable(load(agent))
    if os.path.realpath(cwd) == "/":
        raise UsageError(
            "nothing can be confined to the whole system", hint="name a workspace with --cwd DIR"
        )
    require_apart(os.path.realpath(cwd))
    return find_sandbox(environ)


def require_confinable(agent: Agent) -> None:
    """Raises UsageError."""
    if agent.work is not None and "sandbox" not in agent.supports:
        raise UsageError(
            f"{agent.title} cannot be confined with --sandbox", hint="use another agent (`harness agents`)"
        )


def _confining(agent: Agent, request: Request, plan: GatewayPlan | None, environ: Mapping[str, str]) -> str:
    """What confines it, by name; a seal does more than a sandbox."""
    if plan is not None and plan.seal is not None:
        return plan.seal.name
    return find_sandbox_for(agent.name, request.cwd, environ).name if request.sandbox else ""


def _wall_warnings(agent: Agent, sandbox: str, plan: GatewayPlan | None) -> tuple[str, ...]:
    login = (_LOGIN,) if plan is not None and plan.options.passes_login else ()
    if sandbox != "landlock":
        return login
    if plan is not None and plan.seal is not None:
        from harness.runs.sealing import WEAKER_SEAL

        return (*login, WEAKER_SEAL)
    return (_WEAKER_SANDBOX + (_HIDES_NOTHING if agent.work is None else ""),)


def _behind_wall(launch: Launch) -> Launch:
    """The built-in agents confine their commands themselves."""
    is_sealed = launch.gateway is not None and launch.gateway.seal is not None  # when it starts
    if not launch.sandbox or is_sealed or launch.agent.work is not None:
        return launch
    from harness.runs.agent_wall import agent_wall, has_settings, with_blanks

    agent, invocation = launch.agent, launch.invocation
    wall = agent_wall(agent, (*invocation.argv, *launch.request.mcp), invocation.cwd, invocation.env)
    wall = with_blanks(wall, invocation.wall)
    env = {} if has_settings(agent.name, invocation.cwd) else agent.without_settings
    return replace(launch, invocation=replace(invocation, wall=wall, env={**invocation.env, **env}))


def _hiding(launch: Launch, environ: Mapping[str, str]) -> Launch:
    """The commands of the built-in agents hide it themselves."""
    hidden, agent, invocation = launch.request.hidden, launch.agent, launch.invocation
    if not hidden or launch.request.recording or agent.name == REMOTE_AGENT:
        return launch
    from harness.runs.agent_wall import hiding_wall
    from harness.sandbox.ladder import best_wall

    rung = best_wall(environ)
    if rung is None or not rung.hides:
        return replace(launch, warnings=(*launch.warnings, NOTHING_HIDES))
    if agent.work is not None:
        return launch
    argv = (*invocation.argv, *launch.request.mcp)
    before = invocation.wall if isinstance(invocation.wall, Wall) else None
    wall = hiding_wall(hidden, argv, invocation.cwd, invocation.env, before)
    return replace(launch, invocation=replace(invocation, wall=wall))


def find_binary(agent: Agent, explicit: str, environ: Mapping[str, str]) -> str:
    """The program's path; an explicit one is taken as it is. Empty when there is none."""
    if explicit:
        return os.path.abspath(explicit) if os.sep in explicit else _on_path(explicit, environ) or explicit
    for name in agent.binaries:
        if path := name if os.path.isabs(name) else _on_path(name, environ):
            return path
    return ""


def not_found(agent: Agent) -> AgentNotFound:
    names = " or ".join(agent.binaries)
    if not names:
        return AgentNotFound(f"`{agent.name}` needs a program to run", hint=agent.install)
    return AgentNotFound(
        f"agent binary not found: {names} (is {agent.title} installed?)",
        hint=agent.install or "install it, or give its path with --binary",
    )


def _with_briefing(request: Request) -> Request:
    """As the agent is asked: the briefing is a part of the prompt then."""
    if not request.briefing:
        return request
    return replace(request, prompt=f"{request.briefing}\n\n{request.prompt}", briefing="")


def _on_path(name: str, environ: Mapping[str, str]) -> str:
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder or ".", name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return os.path.abspath(path)
    return ""


def installed_two_way(
    agent: Agent, binary: str = "", environ: Mapping[str, str] | None = None
) -> TwoWay | None:
    """How the installed version is held in a conversation; None where it cannot be, or does not say its version.

    One that is not installed counts as new.
    """
    if agent.two_way is None:
        return None
    program = find_binary(agent, binary, os.environ if environ is None else environ)
    version = _version_of(agent, program, is_needed=True)
    return agent.two_way if not program or _fits(agent.two_way, version) else None


def _require_mode(agent: Agent, request: Request) -> None:
    """Raises UsageError for a mode that no version of it keeps: before the program is asked for its version, since who names
    an agent by a command would have that run.
    """
    if request.recording:
        return
    refusal = None
    if request.permissions in ("ask", "accept-edits"):
        refusal = refusal_to_ask(agent, None, request.permissions)
    elif request.permissions in ("read-only", "plan"):
        refusal = refusal_to_read_only(agent, "")
    if refusal is not None:
        raise refusal


def _wants_conversation(agent: Agent, request: Request) -> bool:
    """Where that was asked for, where somebody has to be asked, and where only so it is held to what was asked for."""
    features = (agent.two_way.supports if agent.two_way is not None else None) or frozenset()
    is_copied_so = request.fork and "fork" not in agent.supports and "fork" in features
    is_wanted = request.two_way or agent.only_two_way or request.permissions == "ask"
    return is_wanted or is_copied_so or _is_held_to_reading(agent, request)


def _fits(two_way: TwoWay, version: str) -> bool:
    return parse_version(version) >= two_way.since


def _two_way(agent: Agent, request: Request, version: str, access: Permissions, binary: str) -> TwoWay | None:
    """Raises UsageError where it has to be asked and cannot: it would get more rights than were granted."""
    two_way = agent.two_way
    if request.permissions == "ask":
        mode: Permissions = access if access in _STARTED_AS else "ask"
        if (refusal := refusal_to_ask(agent, version if binary else None, mode)) is not None:
            raise refusal
        return two_way
    return two_way if two_way is not None and _fits(two_way, version) else None


def _is_held_to_reading(agent: Agent, request: Request) -> bool:
    """Whether a run that may only read is held in a conversation: what a program takes for reading is decided here then."""
    two_way = agent.two_way
    if request.permissions != "read-only" or two_way is None or two_way.unasked or request.recording:
        return False
    return "read-only" in (agent.supports if two_way.supports is None else two_way.supports)


def refusal_to_read_only(agent: Agent, version: str) -> UsageError | None:
    """Why it cannot be held to reading; None: it can."""
    two_way = agent.two_way
    is_held = two_way is not None and (not version or _fits(two_way, version))
    if "read-only" in _supported(agent, two_way if is_held else None, parse_version(version)):
        return None
    title = f"{agent.title} {version}".rstrip()
    return UsageError(
        f"{title} has no read-only mode{_first_with(agent, 'read-only')}",
        hint="use another agent, or another mode",
    )


def _first_with(agent: Agent, feature: str) -> str:
    """For a sentence that says what a version lacks."""
    first = agent.since.get(feature)
    return f" that holds: it needs {'.'.join(map(str, first))}" if first else ""


def refusal_to_ask_here(agent: Agent, mode: Permissions = "ask") -> UsageError | None:
    """The same of the version that would be started, which is asked for it only where that counts."""
    if (refusal := refusal_to_ask(agent, None, mode)) is not None:
        return refusal
    binary = find_binary(agent, "", os.environ)
    return refusal_to_ask(agent, _version_of(agent, binary, is_needed=True) if binary else None, mode)


def installed_version(agent: Agent, binary: str = "", environ: Mapping[str, str] | None = None) -> str:
    """The version that would be started; empty where there is none, or it does not say."""
    return _version_of(
        agent, find_binary(agent, binary, os.environ if environ is None else environ), is_needed=True
    )


def _supported(agent: Agent, two_way: TwoWay | None, version: Version) -> frozenset[str]:
    """What the installed version takes; one that is not known is taken for the latest."""
    features = agent.supports
    if two_way is not None:
        features = (agent.supports if two_way.supports is None else two_way.supports) | _BY_DIALOGUE
    return frozenset(
        name for name in features if not version or name not in agent.since or version >= agent.since[name]
    )


def _with_session_id(agent: Agent, request: Request, version: str) -> Request:
    """With an id for a new session, where the agent takes one."""
    since, version_known = agent.names_sessions_since, parse_version(version)
    takes_one = since is not None and (not version_known or version_known >= since)
    if not takes_one or request.resume or request.continue_last:
        return request
    return replace(request, session_id=request.session_id or str(uuid4()))


def dropped_options(request: Request, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What of a request its agent would not get, by field: a sentence each. An agent that is not here counts as new.

    Raises UnknownAgent, UsageError for what would be refused.
    """
    agent = load(request.agent)
    binary = find_binary(agent, request.binary, os.environ if environ is None else environ)
    access = request.permissions
    start_options = (
        _built_in_permissions(agent, access) if agent.work is not None else _STARTED_AS.get(access, access)
    )
    request = replace(request, permissions=start_options)
    wants_two_way = _wants_conversation(agent, request)
    version = _version_of(agent, binary, is_needed=_has_more(agent, request, wants_two_way=wants_two_way))
    two_way = _two_way(agent, request, version, access, binary) if wants_two_way else None
    supports = _supported(agent, two_way, parse_version(version))
    options_kept, warnings = _drop_unsupported(agent, request, supports, version)
    changed = [name for name in _OPTIONAL if getattr(options_kept, name) != getattr(request, name)]
    return dict(zip(changed, warnings, strict=True))


def _drop_unsupported(
    agent: Agent, request: Request, supports: frozenset[str], version: str
) -> tuple[Request, tuple[str, ...]]:
    """An option that the agent lacks gives one warning and is dropped."""
    warnings = []
    title = f"{agent.title} {version}" if supports != agent.supports else agent.title
    for name in _OPTIONAL:
        if getattr(request, name) not in _NOT_SAID and name not in supports:
            warnings.append(f"{title} does not support {_flag(name)}: dropped")
            request = replace(request, **{name: _DEFAULTS[name]})
    if request.extra_args and agent.work is not None and "extra_args" not in supports:
        raise UsageError(
            f"{agent.title} takes no arguments after --: {' '.join(request.extra_args)}",
            hint="`harness run --help` lists its options",
        )
    if request.fork and ("fork" not in supports or not request.resume):
        raise UsageError(
            f"{title} cannot continue a copy of a session",
            hint="--fork needs --resume ID, and an agent with `fork` in `harness agents capabilities`",
        )
    if request.permissions not in ("full-access", *supports):
        # Dropping this one would give an agent more rights than it was granted.
        lack = _LACKS.get(request.permissions, f"does not support --permissions {request.permissions}")
        raise UsageError(
            f"{title} {lack}{_first_with(agent, request.permissions)}",
            hint="use --permissions full-access or another agent",
        )
    return request, tuple(warnings)


def _without_files(agent: Agent, two_way: TwoWay | None, request: Request) -> tuple[Request, tuple[str, ...]]:
    if not request.attachments or "files" in {*agent.supports, *(two_way.capabilities if two_way else ())}:
        return request, ()
    names = ", ".join(attachment.name or attachment.media_type for attachment in request.attachments)
    return replace(request, attachments=()), (f"{agent.title} takes no files: {names} left out",)


def _flag(name: str) -> str:
    return "--" + name.replace("continue_last", "continue").removesuffix("_s").replace("_", "-")
