"""`bash`: run a command, stream its output, and leave none of its processes running."""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from harness.approvals.free_commands import only_looks
from harness.approvals.globs import escaped
from harness.contracts.tool import (
    Stream,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
    ToolPermission,
)
from harness.contracts.tool_arguments import spec
from harness.conversation.left_behind import NEXT_BEGINS, RUNNING
from harness.events import Operation
from harness.events.operation import Command, List, Search
from harness.formats.shell import operations_of
from harness.native.tools.bash_arguments import (
    DEFAULT_TIMEOUT_S,
    ENVIRONMENT,
    WORKDIR,
    BashArguments,
    taken,
)
from harness.native.tools.bash_output import Around, BackgroundCommands, exit_code_of
from harness.native.tools.kept_shell import KeptShell, ShellEnd
from harness.process.child import OutputChunk, StreamName
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

SHOWN_BYTES: dict[Stream, int] = {"stdout": 30_000, "stderr": 10_000}
MOST_PROGRESS_BYTES = 64 * 1024
PROGRESS_EVERY_S = 0.1
FIRST_WORDS_S = 2.0
"""How long a command in the background may take to write something, before its call returns."""
EARLY_END_S = 0.3
"""How long it may take to end after that for its call to report the end."""
TIMED_OUT = -1
"""The exit code of a command that was stopped."""

_KEPT = "The directory it changes to and the variables it exports last for the next calls."
_NOT_KEPT = "Each call begins there anew."
_DESCRIPTION = (
    "Run a shell command in the workspace. {} Standard input is empty. What the "
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
GetResource: TypeAlias = Callable[[Callable[[], Any]], Any]
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")


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
        self._shell = next((path for path in _SHELLS if os.access(path, os.X_OK)), "sh")
        self._keeps = os.path.basename(self._shell) == "bash"
        description = _DESCRIPTION.format(_KEPT if self._keeps else _NOT_KEPT)
        description += _SANDBOXED[sandbox.name] if sandbox else ""
        self.spec = spec("bash", description, BashArguments)
        self._workspace = workspace
        self._outputs = outputs
        self._sandbox = sandbox
        self._hidden = tuple(hidden)

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        """Always a command, even if it seems only to read: its effects are known only after running it."""
        order = taken(arguments)
        return [Command(command=order.command, cwd=self._place(order))]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        """Exactly this command line, here: one with the same beginning may do anything (`ls; rm -r ~`)."""
        order = taken(arguments)
        where = {name: arguments[name] for name in (WORKDIR, ENVIRONMENT) if arguments.get(name)}
        return ToolPermission("bash", {"command": escaped(order.command), **_escaped(where)})

    def plain(
        self, arguments: dict[str, Any], resource: GetResource, question: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """A call in our own words, before anybody decides about it: what will run is what is shown and allowed."""
        order, shell = taken(arguments), _shell_of(resource)
        plain: dict[str, Any] = {"command": order.command}
        if question is not None:
            plain |= {name: question[name] for name in (WORKDIR, ENVIRONMENT) if name in question}
        else:
            place = self._place(order) if order.workdir else shell.place()
            if place and os.path.realpath(place) != self._workspace.root:
                plain[WORKDIR] = self._workspace.shown(place)
            # What only looks needs no variables of earlier commands, and need not be asked about because of them.
            if shell.environment and not only_looks(order.command):
                plain[ENVIRONMENT] = shell.environment
        if order.timeout != DEFAULT_TIMEOUT_S:
            plain["timeout"] = order.timeout
        return {**plain, "background": True} if order.background else plain

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order, shell = taken(arguments), _shell_of(context.resource)
        if (environment := arguments.get(ENVIRONMENT)) not in (None, "", shell.environment):
            raise ToolFailure(f"what was exported before is gone: {environment}; export it again")
        env = shell.around(context.env) if environment else context.env
        invocation = Invocation((self._shell, "-c", order.command), env, self._place(order))
        if order.background:
            return await self._begin(order, invocation, context)
        end = ShellEnd() if self._keeps else None
        if end is not None:
            invocation = replace(invocation, argv=(self._shell, "-c", end.script(order.command)))
        kept_output = self._outputs.new(context.call_id or "bash", SHOWN_BYTES["stdout"])
        listener = _Listener(context, kept_output, end)
        try:
            async with self._around(invocation) as (invocation_around, refused):
                ending = await run_command(invocation_around, listener.take, order.timeout)
            listener.refused = refused
        finally:
            listener.close()
        is_whole = bool(environment) or not shell.environment
        notice = (
            self._keep(shell, end, context.env if is_whole else None, invocation.cwd)
            if end is not None
            else ""
        )
        return self._output(order, ending, listener, notice)

    def _meaning(self, order: BashArguments) -> list[Operation]:
        """What it did, seen from the workspace: `ls` in another folder lists that one."""
        cwd = self._place(order)
        is_elsewhere = os.path.realpath(cwd) != self._workspace.root
        operations: list[Operation] = []
        for operation in operations_of(order.command, cwd):
            if isinstance(operation, Command):
                operations.append(replace(operation, cwd=cwd))
            elif isinstance(operation, List | Search) and not operation.path and is_elsewhere:
                operations.append(replace(operation, path=cwd))
            else:
                operations.append(operation)
        return operations

    def _place(self, order: BashArguments) -> str:
        return self._workspace.named(order.workdir)

    def _keep(self, shell: KeptShell, end: ShellEnd, env: Mapping[str, str] | None, began_in: str) -> str:
        """Keep what the shell has told; returns what the model has to know of it.

        A folder that was only said for one call is left with it, and one outside of the workspace always. `env`: what it
        was given; None: not what earlier ones have exported, which stays as it is.
        """
        if (shell_state := end.state()) is None:
            return ""
        has_moved = shell_state.cwd != os.path.realpath(began_in)
        is_inside = self._workspace.holds(shell_state.cwd)
        cwd = shell_state.cwd if is_inside else ""
        shell.cwd = cwd if has_moved else shell.cwd
        if env is not None:
            shell.keep(shell_state.env, env)
        if not has_moved:
            return ""
        if not is_inside:
            return f"[{shell_state.cwd} is outside of the workspace: the next command begins in {self._workspace.root}]"
        return f"[{NEXT_BEGINS} {shell_state.cwd}]"

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

    async def _begin(self, order: BashArguments, invocation: Invocation, context: ToolContext) -> ToolOutput:
        """Start it in the background, and wait a moment: commands that fail often fail at once."""
        output = self._outputs.new(context.call_id or "bash", SHOWN_BYTES["stdout"])
        command = context.resource(BackgroundCommands).start(self._around(invocation), output, order.command)
        try:
            await command.wait_for_news(FIRST_WORDS_S)
            await command.wait_for_end(EARLY_END_S)
        except asyncio.CancelledError:
            command.kill()  # the model will never learn its id
            raise
        parts, exit_code = command.news(), None
        if command.is_running:
            parts.append(f"{command.id} {RUNNING}: bash_output shows more, and stops it")
        else:
            exit_code = exit_code_of(command.exit)
            parts += [*(f"error: {text}" for text in command.refused), f"exit code: {exit_code}"]
        return ToolOutput(
            text="\n".join(part.removesuffix("\n") for part in parts),
            success=not exit_code and not command.refused,
            exit_code=exit_code,
            operations=self._meaning(order),
        )

    def _output(
        self, order: BashArguments, ending: CommandEnd, listener: _Listener, place: str
    ) -> ToolOutput:
        signal = ending.exit.signal
        exit_code = ending.exit.code if signal is None else 128 + signal
        if ending.is_timeout or exit_code is None:
            exit_code = TIMED_OUT
        parts = [f"{name}:\n{text}" for name in SHOWN_BYTES if (text := as_seen(listener.shown[name].text()))]
        parts += [notice] if (notice := listener.kept.notice()) else []
        if ending.is_timeout:
            parts.append(f"timeout: it was ended after {order.timeout:g} s, with everything it had started")
        elif ending.exit.survivors:
            parts.append(f"[{ending.exit.survivors} processes were still running, and were ended]")
        parts += [f"error: {text}" for text in listener.refused]
        parts += [place] if place else []
        return ToolOutput(
            text="\n".join(part.removesuffix("\n") for part in [*parts, f"exit code: {exit_code}"]),
            success=exit_code == 0 and not listener.refused,
            exit_code=exit_code,
            operations=self._meaning(order),
        )


def _shell_of(resource: GetResource) -> KeptShell:
    """A new one where nothing outlives a call."""
    try:
        return cast("KeptShell", resource(KeptShell))
    except ToolFailure:
        return KeptShell()


def _escaped(params: Mapping[str, Any]) -> dict[str, str]:
    return {name: escaped(str(value)) for name, value in params.items()}


class _Listener:
    """Receives the output of a command, in the command's thread: streams it and stores it."""

    def __init__(self, context: ToolContext, kept_output: KeptOutput, end: ShellEnd | None) -> None:
        self.kept = kept_output
        self._end = end
        self.shown = {name: HeadAndTail(most_bytes) for name, most_bytes in SHOWN_BYTES.items()}
        self._context = context
        self.refused: list[str] = []
        """What a confined command left behind, and how that was handled."""
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in SHOWN_BYTES}
        self._unsaid: list[tuple[Stream, str]] = []
        self._said_bytes = 0
        self._next_s = 0.0

    def take(self, chunks: Sequence[OutputChunk]) -> float | None:
        for stream, raw in chunks:
            data = raw if self._end is None else self._end.output(stream, raw)
            self._feed(stream, data)
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
        if self._end is not None:
            self._feed("stderr", self._end.rest())
        self.kept.close()

    def _feed(self, stream: StreamName, data: bytes) -> None:
        self.shown[stream].feed(data)
        self.kept.feed(data)

    def _say(self) -> None:
        for stream, pieces in groupby(self._unsaid, itemgetter(0)):
            if text := "".join(text for _, text in pieces):
                self._context.progress(text, stream)
        self._unsaid.clear()
        self._next_s = time.monotonic() + PROGRESS_EVERY_S
