"""From options and settings to a `Request`: which agent, which prompt, within which limits; and `--dry-run` of it."""

from __future__ import annotations

import argparse
import os
import re
from shlex import split
from typing import cast

from harness.agents.registry import load
from harness.cli.console import Console, can_answer, is_terminal
from harness.cli.gateway_options import gateway_of
from harness.cli.output import write_text
from harness.clients import installed_agents
from harness.config import Settings
from harness.config.settings import PERMISSION_SPELLINGS
from harness.contracts.agent import Agent
from harness.contracts.model import Attachment
from harness.contracts.request import (
    OWN_AGENT,
    FolderSettingsUse,
    Limits,
    OnAsk,
    Permissions,
    Request,
)
from harness.errors import UnknownSession, UsageError
from harness.log.redact.redactor import redact_text, secrets_in
from harness.models.registry import usual_model
from harness.process.version_probe import parse_version
from harness.runs.launch import Launch, find_binary, not_found

_STDIN, _STDERR = 0, 2
_NO_PROMPT_HINT = "give one with --prompt TEXT, --prompt-file FILE, or on standard input"
_SAFE = re.compile(r"[A-Za-z0-9\-_./:=@]+")
_LONGEST_STDIN = 2000


def request_of(arguments: argparse.Namespace, settings: Settings, console: Console) -> Request:
    """Options override settings. Raises UsageError when they are invalid."""
    permissions = permissions_of(arguments.permissions or settings.value("default_permissions"))
    agent = agent_of(arguments.agent, settings, recording=arguments.recording, model=arguments.model)
    if installed_agents.is_part_of_harness(agent) and not arguments.recording:
        raise UsageError("no recording was named", hint="give one with --recording FILE")
    spellings = installed_agents.names_of(agent)
    prompt, files = _with_files(_prompt(arguments, console), arguments, agent)
    return Request(
        agent=agent.name,
        prompt=prompt,
        attachments=files,
        two_way=bool(files) and agent.work is None,
        cwd=arguments.cwd,
        model=model_of(arguments.model or settings.model_for(spellings), agent, settings, console),
        permissions=permissions,
        on_ask=_on_ask(arguments, agent, permissions),
        ask_timeout_s=arguments.ask_timeout,
        asks_at_limit=arguments.on_ask == "wait" or (arguments.on_ask is None and can_answer()),
        folder_settings=cast("FolderSettingsUse", arguments.folder_settings),
        sandbox=arguments.sandbox,
        gateway=gateway_of(arguments),
        sealed=arguments.sealed,
        mcp=tuple(map(_server_file, arguments.mcp)),
        resume=_resumed(arguments.resume, agent, settings),
        continue_last=arguments.continue_last,
        fork=arguments.fork,
        effort=arguments.effort,
        temperature=arguments.temperature,
        max_output_tokens=arguments.max_output_tokens,
        context_window=arguments.context_window,
        system_prompt=arguments.system_prompt,
        append_system_prompt=arguments.append_system_prompt,
        extra_args=(*settings.extra_args(spellings), *_extra_args(arguments)),
        env=dict(map(_assignment, arguments.env)),
        binary=arguments.binary or settings.binary_for(spellings),
        recording=arguments.recording,
        native=arguments.native,
        context=arguments.context,
        name=arguments.name,
        tags=tuple(arguments.tag),
        limits=Limits(
            timeout_s=arguments.timeout or settings.value("default_timeout_secs"),
            first_output_s=arguments.first_output_timeout,
            inactivity_s=arguments.inactivity_timeout,
            max_turns=arguments.max_turns,
            max_budget_usd=arguments.max_budget_usd,
        ),
    )


def say_rights(request: Request, arguments: argparse.Namespace, settings: Settings, console: Console) -> None:
    """One line for a person who has never chosen: by default the agent asks nothing."""
    is_chosen = bool(arguments.permissions) or settings.origin("default_permissions") != "default"
    if is_chosen or request.recording or arguments.dry_run or not is_terminal(_STDERR):
        return
    console.say(
        f"{load(request.agent).title} may do everything here without asking. `--permissions ask` asks you first; "
        "`harness config set default_permissions ask` (or full-access) settles it."
    )


def _with_files(
    prompt: str, arguments: argparse.Namespace, agent: Agent
) -> tuple[str, tuple[Attachment, ...]]:
    """The prompt and what is beside it; text files become part of it for a program that takes none. Raises UsageError."""
    from harness.clients.custom_commands import expanded_prompt
    from harness.clients.prompt_files import attached_files, mentioned_files

    files, cwd = attached_files(arguments.attach), arguments.cwd or os.getcwd()
    if agent.name == OWN_AGENT:
        prompt = expanded_prompt(prompt, cwd, cast("FolderSettingsUse", arguments.folder_settings))
        files += mentioned_files(prompt, cwd)
    if not files:
        return prompt, ()
    from harness.clients.conversations.conversation import (
        accepts_files,
        message_of,
    )  # all of a session: most have no files

    text, files_left = message_of(prompt, files, takes_files=accepts_files(agent))
    if files_left and not accepts_files(agent):
        raise UsageError(
            f"{agent.title} takes no pictures or documents: {', '.join(file.name for file in files_left)}",
            hint="name the file in the prompt, or use an agent with `files` in `harness agents capabilities`",
        )
    return text, files_left


def _server_file(path: str) -> str:
    """Agents differ in what they say of one that is not there, and some say nothing. Raises UsageError."""
    if not os.path.isfile(path):
        raise UsageError(f"there is no such file: {path}", hint="--mcp FILE takes an mcp.json")
    return os.path.abspath(path)


def _resumed(text: str, agent: Agent, settings: Settings) -> str:
    """The session that is meant; `last`: the newest one of this agent. Raises UnknownSession."""
    if text.lower() != "last":
        return text
    from harness.cli import preferences
    from harness.log.query import age
    from harness.log.store import Query

    own = [
        session
        for session in preferences.open_store(settings).find(Query())
        if session.agent_name == agent.name
    ]
    if not own:
        hint = "`harness sessions list` lists all sessions"
        raise UnknownSession(f"there is no session of {agent.title} yet", hint=hint)
    newest = max(own, key=age)
    return newest.agent_session_id or newest.session_id


def agent_of(name: str, settings: Settings, *, recording: str = "", model: str = "") -> Agent:
    """The named one, the user's default, the only one that is installed; else ours, if it has a model."""
    agent_name = name or settings.value("default_agent")
    player = installed_agents.player() if recording and not name else None
    if player is not None:
        return player
    if agent_name:
        return load(agent_name)
    agents = installed_agents.installed()
    if len(agents) == 1:
        return agents[0].agent
    if not agents:
        return _own_agent(model or settings.model_for(installed_agents.names_of(load(OWN_AGENT))))
    names = ", ".join(agent.agent.name for agent in agents)
    raise UsageError(
        f"no agent was named and several are installed: {names}",
        hint="choose one with --agent NAME, or set default_agent in your settings (`harness init`)",
    )


def require_installed(agent: Agent, settings: Settings, binary: str = "") -> None:
    """Raises AgentNotFound before anything is begun that needs the agent's program."""
    program = binary or settings.binary_for((agent.name, *agent.aliases))
    if agent.work is None and agent.binaries and not find_binary(agent, program, os.environ):
        raise not_found(agent)


def _own_agent(model: str) -> Agent:
    from harness.models.local import trouble

    if model or usual_model():
        return load(OWN_AGENT)
    programs = ", ".join(agent.program for agent in installed_agents.installable())
    raise UsageError(
        "no agent was named, none is installed, and there is no model for the built-in agent",
        hint=f"install one of: {programs}\n"
        "  or set the key of a model API (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY)\n"
        f"  or get a small local model: {trouble()}\n"
        "  or see it work without either: harness demo",
    )


def _on_ask(arguments: argparse.Namespace, agent: Agent, permissions: Permissions) -> OnAsk | None:
    """Without a terminal there is no waiting for an answer, unless that is wanted."""
    asks = permissions in ("ask", "accept-edits")
    if arguments.on_ask is not None or not (asks or permissions == "plan" or "on_ask" in agent.supports):
        return cast("OnAsk | None", arguments.on_ask)
    if can_answer():
        return "wait"
    if asks and not arguments.dry_run:
        raise UsageError(
            f"--permissions {permissions} needs a terminal to ask in, and there is none",
            hint="--on-ask deny refuses what would be asked, --on-ask allow allows it,\n"
            "  --on-ask wait waits until `harness attach` answers it in another terminal",
        )
    return "deny"


def permissions_of(text: str) -> Permissions:
    mode = PERMISSION_SPELLINGS.get(text.strip().lower())
    if mode is None:
        choices = ", ".join(dict.fromkeys(PERMISSION_SPELLINGS.values()))
        raise UsageError(f"unknown permission mode: {text}", hint=f"expected one of: {choices}")
    return cast("Permissions", mode)


def model_of(name: str, agent: Agent, settings: Settings, console: Console) -> str:
    """The model that a name or alias means for this agent."""
    if not name:
        return ""
    from harness.config import model_names

    models = model_names.load(settings)
    for warning in models.warnings:
        console.warning(warning)
    resolution = models.resolve(name, installed_agents.names_of(agent))
    if resolution.kind == "no_mapping":
        console.warning(f"model {name} has no mapping for {agent.title}; passing it through as it is")
    elif resolution.kind == "resolved":
        console.debug(f"model {name} is {resolution.id} for {agent.title} ({resolution.origin})")
    return resolution.id


def _prompt(arguments: argparse.Namespace, console: Console) -> str:
    if arguments.prompt is not None:
        return _readable(arguments.prompt.encode("utf-8", "surrogateescape"), "the prompt", console)
    if arguments.prompt_file and arguments.prompt_file != "-":
        return _readable(_read_file(arguments.prompt_file), arguments.prompt_file, console).strip()
    if arguments.recording:
        return ""
    if is_terminal(_STDIN):
        raise UsageError("no prompt was given", hint=_NO_PROMPT_HINT)
    text = _readable(_read_all(_STDIN), "standard input", console).strip()
    if not text:
        raise UsageError("no prompt was given: standard input is empty", hint=_NO_PROMPT_HINT)
    return text


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot read the prompt file {path}: {error.strerror}") from error
    except ValueError as error:  # a NUL byte in the name
        raise UsageError(f"cannot read the prompt file {path!r}: {error}") from error


def _read_all(fd: int) -> bytes:
    blocks = []
    try:
        while block := os.read(fd, 1 << 20):
            blocks.append(block)
    except OSError as error:
        raise UsageError(f"cannot read standard input: {error.strerror}", hint=_NO_PROMPT_HINT) from error
    return b"".join(blocks)


def _readable(data: bytes, what: str, console: Console) -> str:
    """As text; what is not UTF-8 becomes U+FFFD, with a warning."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        console.warning(f"{what} is not all UTF-8 text (byte {error.start}): what cannot be read is replaced")
        return data.decode("utf-8-sig", "replace")


def _extra_args(arguments: argparse.Namespace) -> list[str]:
    """Those of --extra-args, split as a shell would, then those after `--`."""
    if not arguments.extra_args:
        return list(arguments.extra)
    try:
        return [*(word for text in arguments.extra_args for word in split(text)), *arguments.extra]
    except ValueError as error:
        raise UsageError(f"--extra-args cannot be split into words: {error}") from error


def _assignment(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name or "\0" in text:
        raise UsageError(f"--env takes NAME=VALUE, not {text!r}")
    return name, value


def show_dry_run(launch: Launch, cwd: str) -> None:
    """`cwd`: as the user gave it."""
    command = (launch.two_way or launch.agent).command(launch.request, parse_version(launch.version))
    lines = [
        f"Binary: {launch.binary or 'none: it runs in this process'}",
        f"Args:   {' '.join(map(quoted, launch.invocation.argv[1:]))}",
    ]
    if launch.invocation.stdin:
        lines.append(f"Stdin:  {_shown(launch.invocation.stdin)}")
    for title, env in (("Env:", command.env), ("User env:", launch.request.env)):
        if env:
            lines += [title, *(f"  {name}={value}" for name, value in env.items())]
    lines.append(f"Cwd:    {cwd or '.'}")
    write_text(redact_text("\n".join(lines) + "\n", secrets_in(launch.invocation.env)))


def _shown(stdin: bytes) -> str:
    """The standard input of the program; only its size when it is long."""
    return quoted(stdin.decode("utf-8", "replace")) if len(stdin) <= _LONGEST_STDIN else f"{len(stdin)} bytes"


def quoted(argument: str) -> str:
    """Safe to paste into a shell."""
    if _SAFE.fullmatch(argument):
        return argument
    return "'" + argument.replace("'", "'\\''") + "'"
