"""What is wrong with a file after the agent has changed it: commands of the settings, and whether it still parses.

    [checks]
    "*.py" = { command = "ruff check --quiet {files}" }

Only what is new counts: what a command said of the file before the agent first changed it is left out, for faults that are
not its own lead a model astray.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
import tomllib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from msgspec.structs import replace

from harness.approvals.call import ProposedCall
from harness.config import load
from harness.contracts.model import Call
from harness.contracts.tool import ToolFailure, ToolOutput
from harness.events import Operation
from harness.events.operation import Write
from harness.process.child import OutputChunk
from harness.process.invocation import Invocation
from harness.workspace.commands import run_command

EDITING = frozenset({"write", "edit", "apply_patch", "notebook_edit"})
_MOST_FILES = 20
_MOST_LINES = 10
_LONGEST_LINE = 400
_MOST_BYTES = 256 * 1024
_LARGEST_BYTES = 1024 * 1024
_TIMEOUT_S = 20.0
_NUMBER = re.compile(r"\d+")


class FileCheck(NamedTuple):
    pattern: str
    """Of a file's name, or of its path below the folder."""
    command: str

    def is_for(self, path: str) -> bool:
        return fnmatchcase(path, self.pattern) or fnmatchcase(os.path.basename(path), self.pattern)


def checks_of(cwd: str) -> tuple[FileCheck, ...]:
    """Those of the settings. Raises BadConfig."""
    tables = load(cwd or os.getcwd()).tables("checks")
    return tuple(
        FileCheck(pattern, table["command"]) for pattern, table in tables.items() if "command" in table
    )


class CheckRunner:
    """`before_run` and `after_call` of the options of a run. A check is a command: nothing runs for a call that is not
    allowed.
    """

    def __init__(self, checks: Sequence[FileCheck], cwd: str, env: Callable[[], Mapping[str, str]]) -> None:
        self._checks = tuple(checks)
        self._cwd = cwd
        self._env = env
        self._before: dict[tuple[str, str], Counter[str]] = {}
        """What a command said of a file before the agent changed it, without numbers."""
        self._broken: dict[str, bool] = {}
        """Whether it did not parse then."""
        self._given_up: set[str] = set()
        """Commands that took too long, or could not be run."""

    async def before_run(self, call: Call, operations: Sequence[Operation]) -> None:
        """Look at what is about to be changed, the first time."""
        if call.name not in EDITING:
            return
        for path in self._below(write.path for write in operations if isinstance(write, Write)):
            if path not in self._broken:
                self._broken[path] = bool(await asyncio.to_thread(_syntax_error, self._at(path)))
            for check in self._checks_of(path):
                if (check.command, path) not in self._before:
                    output = await self._said(check, [path]) if self._is_there(path) else []
                    self._before[check.command, path] = Counter(map(_without_numbers, output))

    async def after_call(self, call: Call, output: ToolOutput) -> ToolOutput:
        if call.name not in EDITING or not output.success:
            return output
        lines: list[str] = []
        writes = [
            operation
            for operation in output.operations or ()
            if isinstance(operation, Write) and operation.change != "delete"
        ]
        for path in self._below(operation.path for operation in writes):
            error = await asyncio.to_thread(_syntax_error, self._at(path))
            if error and not self._broken.get(path, False):
                lines.append(f"{path} does not parse: {error}")
            for check in self._checks_of(path):
                lines += self._new(check, path, await self._said(check, [path]))
        if not lines:
            return output
        text = "\n".join(line[:_LONGEST_LINE] for line in lines)
        return replace(output, text=f"{output.text}\n[found after this change]\n{text}")

    def _new(self, check: FileCheck, path: str, output: Sequence[str]) -> list[str]:
        before, new = Counter(self._before.get((check.command, path), ())), []
        for line in output:
            plain = _without_numbers(line)
            if before[plain]:
                before[plain] -= 1
            else:
                new.append(line)
        more = [f"… and {len(new) - _MOST_LINES} lines more"] if len(new) > _MOST_LINES else []
        return new[:_MOST_LINES] + more

    async def _said(self, check: FileCheck, paths: Sequence[str]) -> list[str]:
        """What it prints when it fails; nothing of one that cannot be run, or takes too long: it is not run again."""
        if check.command in self._given_up:
            return []
        # A file called `--config=x` is no option.
        files = " ".join(shlex.quote(f"./{path}" if path.startswith("-") else path) for path in paths)
        invocation = Invocation(
            ("/bin/sh", "-c", check.command.replace("{files}", files)), self._env(), self._cwd
        )
        out = bytearray()

        def take(chunks: Sequence[OutputChunk]) -> None:
            for _stream, data in chunks:
                out.extend(data[: _MOST_BYTES - len(out)])

        try:
            ending = await run_command(invocation, take, _TIMEOUT_S)
        except ToolFailure:
            self._given_up.add(check.command)
            return []
        if ending.is_timeout or ending.exit.code in (126, 127):
            self._given_up.add(check.command)
            name = check.command.partition(" ")[0]
            why = f"takes longer than {_TIMEOUT_S:g} s" if ending.is_timeout else "cannot be run"
            return [f"the check {name} {why}, and is left out from now on"]
        if not ending.exit.code:
            return []
        return [line for line in out.decode("utf-8", "replace").split("\n") if line.strip()]

    def _checks_of(self, path: str) -> list[FileCheck]:
        return [check for check in self._checks if check.is_for(path)]

    def _below(self, paths: Iterable[str]) -> list[str]:
        """Those below the folder, as seen from there."""
        root = os.path.realpath(self._cwd)
        below = [os.path.relpath(os.path.realpath(os.path.join(root, path)), root) for path in paths if path]
        return [path for path in dict.fromkeys(below) if not path.startswith("..")][:_MOST_FILES]

    def _is_there(self, path: str) -> bool:
        return os.path.isfile(self._at(path))

    def _at(self, path: str) -> str:
        return os.path.join(self._cwd, path)


class AroundCalls:
    """Several of them, one after the other."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = [part for part in parts if part is not None]

    def _each(self, name: str) -> list[Callable[..., Awaitable[Any]]]:
        """Not every part is asked at every place."""
        return [getattr(part, name) for part in self._parts if hasattr(part, name)]

    async def before_call(
        self, call: Call, propose: Callable[[dict[str, Any]], ProposedCall]
    ) -> Call | str | None:
        changed = call
        for before_call in self._each("before_call"):
            verdict = await before_call(changed, propose)
            if isinstance(verdict, str):
                return verdict
            changed = verdict or changed
        return None if changed is call else changed

    async def before_run(self, call: Call, operations: Sequence[Operation]) -> None:
        for before_run in self._each("before_run"):
            await before_run(call, operations)

    async def after_call(self, call: Call, output: ToolOutput) -> ToolOutput:
        for part in self._parts:
            output = await part.after_call(call, output)
        return output


def _without_numbers(line: str) -> str:
    """Lines below a change are the same, with other numbers."""
    return _NUMBER.sub("", line)


def _syntax_error(path: str) -> str:
    """Why a file of a known kind does not parse; empty for one that does, and for every other."""
    parse = _PARSERS.get(os.path.splitext(path)[1].lower())
    if parse is None:
        return ""
    try:
        if os.path.getsize(path) > _LARGEST_BYTES:
            return ""
        with open(path, "rb") as file:
            parse(file.read())
    except (SyntaxError, ValueError, RecursionError) as error:
        return str(error).split("\n")[0] or type(error).__name__
    except (OSError, MemoryError):
        return ""
    return ""


def _parse_python(data: bytes) -> None:
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of strings in the file
        try:
            ast.parse(data)
        except SyntaxError as error:
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise ValueError(f"line {error.lineno}: {error.msg} (as Python {version})") from error


def _parse_json(data: bytes) -> None:
    text = data.decode("utf-8-sig")
    if not re.search(r"^\s*(//|/\*)", text, re.MULTILINE):  # with comments it is another language
        json.loads(text)


_PARSERS: dict[str, Callable[[bytes], object]] = {
    ".py": _parse_python,
    ".json": _parse_json,
    ".toml": lambda data: tomllib.loads(data.decode("utf-8-sig")),
}
