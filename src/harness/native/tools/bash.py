"""`bash`: run a command, stream its output, and leave none of its processes running."""

from __future__ import annotations

import asyncio
import codecs
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from harness.approvals.globs import escaped
from harness.contracts.tool import (
    Stream,
    Tool,
    ToolContext,
    ToolOutput,
    ToolPermission,
)
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation
from harness.events.operation import Command
from harness.formats.shell import operations_of
from harness.native.tools.bash_output import Around, BackgroundCommands, exit_code_of
from harness.process.child import OutputChunk
from harness.process.invocation import Invocation
from harness.runs.agent_wall import hiding_wall
from harness.sandbox.rungs import Rung
from harness.sandbox.wall import Wall
from harness.sandbox.walled_programs import confined
from harness.workspace.commands import (
    CommandEnd,
    HeadAndTail,
    KeptOutput,
    OutputFolder,
    run_command,
)
from harness.workspace.roots import ToolWorkspace
from harness.workspace.terminal_text import as_seen

DEFAULT_TIMEOUT_S = 120.0
LONGEST_TIMEOUT_S = 3600.0
SHOWN_BYTES: dict[Stream, int] = {"stdout": 30_000, "stderr": 10_000}
MOST_PROGRESS_BYTES = 64 * 1024
PROGRESS_EVERY_S = 0.1
FIRST_WORDS_S = 2.0
"""How long a command in the background may take to write something, before its call returns."""
EARLY_END_S = 0.3
"""How long it may take to end after that for its call to report the end."""
TIMED_OUT = -1
"""The exit code of a command that was stopped."""

_DESCRIPTION = (
    "Run a shell command in the workspace; each call begins there anew. Standard input is empty. What the "
    "command leaves running ends with it. Long output is cut in the middle and kept in a file. For a server, or "
    "whatever else has to go on, set background instead of writing &: bash_output then shows what it writes."
)
_BEHIND_MOUNTS = (
    " It is confined: it can write only in the workspace and /tmp, and has no network, not even to other commands. Settings by which "
    "other programs would run something (.git/hooks, .git/config, .claude, .vscode …) are read-only; where "
    "there are none, an empty folder stands in for them."
)
_SANDBOXED = {
    "namespaces": _BEHIND_MOUNTS,
    "bubblewrap": _BEHIND_MOUNTS,
    "landlock": (
        " It is confined: it can write only in the workspace and $TMPDIR, and has no network. It can neither "
        "create files directly in the workspace, where the write tool can, nor commit with git."
    ),
}
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")


class BashArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("cmd", "script", "code", "command_line", "commandLine", "input"), "command"),
        **dict.fromkeys(
            ("run_in_background", "is_background", "isBackground", "runInBackground"), "background"
        ),
    }
    command: Annotated[str, Meta(min_length=1, description="the command line")]
    timeout: Annotated[
        float, Meta(gt=0, le=LONGEST_TIMEOUT_S, description="seconds after which it is ended")
    ] = DEFAULT_TIMEOUT_S
    background: Annotated[
        bool,
        Meta(
            description="return at once; it goes on, without a timeout, until it is stopped or this conversation ends"
        ),
    ] = False


class BashTool(Tool):
    category = "execute"

    def __init__(
        self,
        workspace: ToolWorkspace,
        outputs: OutputFolder,
        sandbox: Rung | None = None,
        hidden: Sequence[str] = (),
    ) -> None:
        """`hidden`: what commands must not see, where a wall can hide something."""
        description = _DESCRIPTION + (_SANDBOXED[sandbox.name] if sandbox else "")
        self.spec = spec("bash", description, BashArguments)
        self._workspace = workspace
        self._outputs = outputs
        self._sandbox = sandbox
        self._hidden = tuple(hidden)
        self._shell = next((path for path in _SHELLS if os.access(path, os.X_OK)), "sh")

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        """Always a command, even if it seems only to read: its effects are known only after running it."""
        asked = _taken(arguments)
        return [Command(command=asked.command, cwd=self._workspace.root)]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        """Exactly this command line: one with the same beginning may do anything (`ls; rm -r ~`)."""
        asked = _taken(arguments)
        return ToolPermission("bash", {"command": escaped(asked.command)})

    def plain(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """A call in our own words, before anybody decides about it: what will run is what is shown and allowed."""
        asked = _taken(arguments)
        plain: dict[str, Any] = {"command": asked.command}
        folder = next((arguments[name] for name in _FOLDERS if isinstance(arguments.get(name), str)), "")
        if folder and os.path.realpath(os.path.join(self._workspace.root, folder)) != self._workspace.root:
            plain["command"] = f"cd {shlex.quote(folder)} || exit\n{asked.command}"
        if asked.timeout != DEFAULT_TIMEOUT_S:
            plain["timeout"] = asked.timeout
        return {**plain, "background": True} if asked.background else plain

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        asked = _taken(arguments)
        invocation = Invocation((self._shell, "-c", asked.command), context.env, self._workspace.root)
        if asked.background:
            return await self._begin(asked, invocation, context)
        listener = _Listener(context, self._outputs.new(context.call_id or "bash", SHOWN_BYTES["stdout"]))
        try:
            async with self._around(invocation) as (wanted, refused):
                ending = await run_command(wanted, listener.take, asked.timeout)
            listener.refused = refused
        finally:
            listener.close()
        return self._output(asked, ending, listener)

    def _around(self, invocation: Invocation) -> Around:
        if self._sandbox is None:
            return nullcontext((replace(invocation, wall=self._hiding(invocation)), []))
        wall = Wall(workspaces=tuple(self._workspace.writable_roots))
        return confined(self._sandbox, invocation, self._hiding(invocation, wall) or wall)

    def _hiding(self, invocation: Invocation, wall: Wall | None = None) -> Wall | None:
        """None: nothing is hidden."""
        if not self._hidden:
            return None
        return hiding_wall(self._hidden, invocation.argv, invocation.cwd, invocation.env, wall)

    async def _begin(self, asked: BashArguments, invocation: Invocation, context: ToolContext) -> ToolOutput:
        """Start it in the background, and wait a moment: commands that fail often fail at once."""
        output = self._outputs.new(context.call_id or "bash", SHOWN_BYTES["stdout"])
        command = context.resource(BackgroundCommands).start(self._around(invocation), output, asked.command)
        try:
            await command.wait_for_news(FIRST_WORDS_S)
            await command.wait_for_end(EARLY_END_S)
        except asyncio.CancelledError:
            command.kill()  # the model will never learn its id
            raise
        parts, exit_code = command.news(), None
        if command.is_running:
            parts.append(f"{command.id} is running in the background: bash_output shows more, and stops it")
        else:
            exit_code = exit_code_of(command.exit)
            parts += [*(f"error: {text}" for text in command.refused), f"exit code: {exit_code}"]
        return ToolOutput(
            text="\n".join(part.removesuffix("\n") for part in parts),
            success=not exit_code and not command.refused,
            exit_code=exit_code,
            operations=_meaning(asked.command, self._workspace.root),
        )

    def _output(self, asked: BashArguments, ending: CommandEnd, listener: _Listener) -> ToolOutput:
        signal = ending.exit.signal
        exit_code = ending.exit.code if signal is None else 128 + signal
        if ending.is_timeout or exit_code is None:
            exit_code = TIMED_OUT
        parts = [f"{name}:\n{text}" for name in SHOWN_BYTES if (text := as_seen(listener.shown[name].text()))]
        parts += [notice] if (notice := listener.kept.notice()) else []
        if ending.is_timeout:
            parts.append(f"timeout: it was ended after {asked.timeout:g} s, with everything it had started")
        elif ending.exit.survivors:
            parts.append(f"[{ending.exit.survivors} processes were still running, and were ended]")
        parts += [f"error: {text}" for text in listener.refused]
        return ToolOutput(
            text="\n".join(part.removesuffix("\n") for part in [*parts, f"exit code: {exit_code}"]),
            success=exit_code == 0 and not listener.refused,
            exit_code=exit_code,
            operations=_meaning(asked.command, self._workspace.root),
        )


def _taken(arguments: dict[str, Any]) -> BashArguments:
    """Models write milliseconds, or a command as a list of words."""
    for name in ("command", *BashArguments.aliases):
        words = arguments.get(name)
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            is_shell = (
                len(words) == 3 and words[1] in ("-c", "-lc") and os.path.basename(words[0]) in _SHELL_NAMES
            )
            arguments = {**arguments, name: words[2] if is_shell else shlex.join(words)}
    if "timeout" not in arguments:
        in_ms = next((arguments[name] for name in _IN_MS if name in arguments), None)
        in_s = next((arguments[name] for name in _IN_S if name in arguments), None)
        if (value := _number(in_ms)) is not None:
            arguments = {**arguments, "timeout": value / 1000}
        elif (value := _number(in_s)) is not None:
            arguments = {**arguments, "timeout": value}
    elif (value := _number(arguments["timeout"])) is not None:
        # No command may take that many seconds: it is milliseconds, as most agents count.
        wanted_s = value / 1000 if value > LONGEST_TIMEOUT_S else value
        arguments = {
            **arguments,
            "timeout": min(wanted_s, LONGEST_TIMEOUT_S) if wanted_s > 0 else DEFAULT_TIMEOUT_S,
        }
    return take(BashArguments, arguments, "bash")


_FOLDERS = ("workdir", "cwd", "dir", "directory", "dir_path", "working_directory", "workingDirectory")
"""What models call the folder in which a command is to run."""
_IN_MS = ("timeout_ms", "timeoutMs", "yield_time_ms")
_IN_S = ("timeout_secs", "timeout_s", "timeoutSeconds", "timeout_seconds")
_SHELL_NAMES = ("bash", "sh", "zsh", "dash")


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _meaning(command: str, cwd: str) -> list[Operation]:
    return [
        replace(operation, cwd=cwd) if isinstance(operation, Command) else operation
        for operation in operations_of(command, cwd)
    ]


class _Listener:
    """Receives the output of a command, in the command's thread: streams it and stores it."""

    def __init__(self, context: ToolContext, kept: KeptOutput) -> None:
        self.kept = kept
        self.shown = {name: HeadAndTail(most_bytes) for name, most_bytes in SHOWN_BYTES.items()}
        self._context = context
        self.refused: list[str] = []
        """What a confined command left behind, and how that was handled."""
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in SHOWN_BYTES}
        self._unsaid: list[tuple[Stream, str]] = []
        self._said_bytes = 0
        self._next_s = 0.0

    def take(self, chunks: Sequence[OutputChunk]) -> float | None:
        for stream, data in chunks:
            self.shown[stream].feed(data)
            self.kept.feed(data)
            room = MOST_PROGRESS_BYTES - self._said_bytes
            if room > 0:
                self._unsaid.append((stream, self._decoders[stream].decode(data[:room])))
                self._said_bytes += len(data)
                if len(data) > room:
                    self._unsaid.append((stream, "\n… [more to come, at the end]\n"))
        if not self._unsaid:
            return None
        left_s = self._next_s - time.monotonic()
        if left_s > 0:
            return left_s
        self._say()
        return None

    def close(self) -> None:
        self._say()
        self.kept.close()

    def _say(self) -> None:
        for stream, pieces in groupby(self._unsaid, itemgetter(0)):
            if text := "".join(text for _, text in pieces):
                self._context.progress(text, stream)
        self._unsaid.clear()
        self._next_s = time.monotonic() + PROGRESS_EVERY_S
