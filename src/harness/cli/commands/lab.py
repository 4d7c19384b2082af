"""A scripted model on loopback that any agent can be run against: offline, at no cost, the same every time.

A script is a TOML or JSON file of turns; see docs/scripts.md.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Self

from harness.cli.console import Console, number_of
from harness.cli.output import write_text
from harness.cli.parser import add_actions, completes, port
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.contracts.agent import Version
    from harness.lab import LabContext, LabServer, LaunchConfig, RequestEntry, Script

SUMMARY = "a scripted model to run real agents against: serve, check"
ACTIONS = {
    "serve": "answer model requests from a script until interrupted, and print how to reach it",
    "check": "check a script for errors",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    for action in actions.values():
        action.add_argument("script", metavar="SCRIPT", help="TOML or JSON (see docs/scripts.md)")
        help_text = "the agent whose tools the script's intents are mapped to"
        completes(action.add_argument("-a", "--agent", default="", metavar="NAME", help=help_text), "agents")
    add = actions["serve"].add_argument
    add("--port", type=port, default=0, metavar="N", help="of 127.0.0.1 (default: any free one)")
    add(
        "--record",
        default="",
        metavar="FILE",
        help="append every call to this file, a tape: request and answer, one JSON object per line",
    )
    add("-d", "--cwd", default="", metavar="DIR", help="where the agent will work (default: here)")
    add(
        "--home", default="", metavar="DIR", help="the agent's home (default: one that is removed at the end)"
    )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.lab import read_script

    if not arguments.action:
        raise UsageError("`harness lab` needs an action", hint=f"expected one of: {', '.join(ACTIONS)}")
    script = read_script(arguments.script)
    if arguments.action == "check":
        return _check(script, arguments.agent)
    return _serve(script, arguments, console)


def _check(script: Script, agent: str) -> int:
    from harness.lab import LabContext, ScriptRun, load_fixture

    if agent:
        context = LabContext(url="http://127.0.0.1:0", home=os.sep, cwd=os.getcwd())
        ScriptRun(script, load_fixture(_canonical(agent)), context)
    turns = sum(len(conversation.turns) for conversation in script.conversations.values())
    lanes = number_of(len(script.conversations), "lane")
    write_text(f"{script.name}: {number_of(turns, 'turn')} in {lanes}\n")
    return 0


def _serve(script: Script, arguments: argparse.Namespace, console: Console) -> int:
    import shutil
    import tempfile

    from harness.cli.preferences import load as load_settings
    from harness.cli.preferences import sessions_directory
    from harness.lab import LabServer, OfflineAgent, ScriptRun

    _require_places(arguments)
    report = _RequestPrinter(console)
    with _Ending() as ending:
        if not arguments.agent:
            run = ScriptRun(script)
            with LabServer(run, port=arguments.port, record_path=arguments.record, on_entry=report) as server:
                report.server = server
                write_text(_addresses(server))
                ending.wait()
            return 0
        home = _checked_home(arguments.home) or tempfile.mkdtemp(prefix="harness-lab-")
        try:
            name, version = _canonical(arguments.agent), _installed_version(arguments.agent)
            with OfflineAgent(
                script,
                name,
                home=home,
                cwd=arguments.cwd or os.getcwd(),
                version=version,
                port=arguments.port,
                record_path=arguments.record,
                on_entry=report,
            ) as offline:
                report.server = offline.server
                sessions = sessions_directory(load_settings(console))
                shell = _shell(name, offline.context, offline.config, sessions)
                write_text(_addresses(offline.server) + shell)
                ending.wait()
        finally:
            if not arguments.home:
                shutil.rmtree(home, ignore_errors=True)
    return 0


class _RequestPrinter:
    """Prints each request as it comes, and once why they are not recorded any more."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.server: LabServer | None = None

    def __call__(self, entry: RequestEntry) -> None:
        where = f" ({entry.lane}, turn {entry.turn})" if entry.lane else ""
        self._console.say(f"{entry.number} {entry.method} {entry.path}: {entry.outcome}{where}")
        if self.server is not None and self.server.tape_failure:
            self._console.say(f"harness: nothing more is recorded: {self.server.tape_failure}")
            self.server = None


class _Ending:
    """Wait until the server is interrupted, which is how it is meant to end."""

    def __enter__(self) -> Self:
        import signal
        import threading

        self._is_asked = threading.Event()
        self._before = {
            number: signal.signal(number, lambda *_: self._is_asked.set())
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def wait(self) -> None:
        self._is_asked.wait()

    def __exit__(self, *_: object) -> None:
        import signal

        for number, handler in self._before.items():
            signal.signal(number, handler)


def _canonical(agent: str) -> str:
    from harness.agents.registry import load

    return load(agent).name


def _installed_version(agent: str) -> Version:
    """Of the program on PATH; empty when there is none."""
    from harness.agents.registry import load
    from harness.process.version_probe import parse_version, probe_version
    from harness.runs.launch import find_binary

    agent_known = load(agent)
    binary = find_binary(agent_known, "", os.environ)
    return parse_version(probe_version(binary, agent_known.version_args)) if binary else ()


def _require_places(arguments: argparse.Namespace) -> None:
    """Raises UsageError."""
    if not arguments.agent and (arguments.cwd or arguments.home):
        name = "--cwd" if arguments.cwd else "--home"
        raise UsageError(f"{name} is for an agent, but no agent was named", hint="name one with --agent")
    if arguments.cwd and not os.path.isdir(arguments.cwd):
        raise UsageError(f"there is no folder {arguments.cwd!r}", hint="make it, or give another --cwd")


def _checked_home(home: str) -> str:
    """Raises UsageError."""
    if home and os.path.realpath(home) == os.path.realpath(os.path.expanduser("~")):
        raise UsageError("--home is your own", hint="give the agent one that may be thrown away")
    try:
        if home:
            os.makedirs(home, mode=0o700, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"--home {home!r} cannot be created: {reason}", hint="give another folder"
        ) from error
    return os.path.abspath(home) if home else ""


def _addresses(server: LabServer) -> str:
    from harness.models.wires.wire import all_wires

    lines = [
        f"# The scripted model answers on {server.url} until it is interrupted (Ctrl-C).",
        *(
            f"#   {wire.title + ':':<25} {wire.variable}={server.url}{wire.base_path}"
            for wire in all_wires().values()
        ),
    ]
    return "\n".join(lines) + "\n"


def _shell(agent: str, context: LabContext, config: LaunchConfig, sessions: str) -> str:
    """What to paste into another shell."""
    import shlex

    env = sorted((name, value) for name, value in config.env.items() if name != "PWD")
    # The agent's home is thrown away; what `harness run` records of it there is not.
    env.append(("HARNESS_LOG_DIRECTORY", sessions))
    exports = [f"export {name}={shlex.quote(value)}" for name, value in env]
    words = ["harness", "run", "--agent", agent, *(["--model", config.model] if config.model else [])]
    words += ["--prompt", "hello", *(["--", *config.args] if config.args else [])]
    return "\n".join([f"cd {shlex.quote(context.cwd)}", *exports, f"# {shlex.join(words)}"]) + "\n"
