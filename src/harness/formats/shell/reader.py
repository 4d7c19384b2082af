"""Reads a shell script for what it does to files: the rules are those of `shell`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from harness.events.operation import List, Operation, Read, Search, Write
from harness.formats.fields import absolute
from harness.formats.patches import operations_of_patch
from harness.formats.shell.files import (
    FILE_COMMANDS,
    is_filter,
    name_of,
    names,
    options_of,
    windows_of,
)
from harness.formats.shell.words import Pipeline, Simple, Unreadable, pipelines_of

_DEEPEST_SHELL = 3
"""How many shells within shells are opened."""
_SHELLS = names("ash bash dash ksh sh zsh")
_SILENT = names(": [ [[ echo exit export false printf pwd set test true")
"""Commands that touch no file by themselves."""


class ShellReader:
    """Reads one script; remembers where `cd` went. Its methods return None for "not only file operations"."""

    def __init__(self, directory: str, depth: int = 0) -> None:
        self.directory = directory
        self.depth = depth
        self.has_moved = False

    def script(self, text: str) -> list[Operation] | None:
        try:
            pipelines = pipelines_of(text)
        except Unreadable:
            return None
        operations_so_far: list[Operation] = []
        for pipeline in pipelines:
            operations = self._pipeline(pipeline)
            if operations is None:
                return None
            operations_so_far.extend(operations)
        return operations_so_far

    def _pipeline(self, pipeline: Pipeline) -> list[Operation] | None:
        first, *later = pipeline
        operations = self._simple(first)
        is_positional = True
        for stage in later:
            words = _without_prefixes(stage.words)
            if operations is None or not words or not is_filter(words):
                return None
            windows = windows_of(words) if is_positional and len(operations) == 1 else None
            if windows is None:
                is_positional = False
            else:
                operations = [window.of(each) for each in operations for window in windows]
            operations.extend(self._writes([*stage.outputs, *_tee_files(words)]))
        return operations

    def _simple(self, simple: Simple) -> list[Operation] | None:
        words = _without_prefixes(simple.words)
        if words is None:
            return None
        writes = self._writes(simple.outputs)
        if not words:
            return writes
        name, arguments = name_of(words[0]), words[1:]
        if name in _SHELLS:
            return self._inner_shell(arguments) if not writes else None
        if name == "cd":
            self._change_directory(arguments)
            return writes
        if name in _SILENT:
            return writes
        if name == "apply_patch" and simple.documents:
            return [*operations_of_patch(simple.documents[-1], self.directory)] or None
        mapping = FILE_COMMANDS.get(name)
        operations = mapping(words, simple.inputs) if mapping is not None else None
        return None if operations is None else [*(self._placed(each) for each in operations), *writes]

    def _inner_shell(self, arguments: Sequence[str]) -> list[Operation] | None:
        script = _script_of(arguments)
        if script is None or self.depth == _DEEPEST_SHELL:
            return None
        return ShellReader(self.directory, self.depth + 1).script(script)

    def _change_directory(self, arguments: Sequence[str]) -> None:
        targets = [argument for argument in arguments if argument == "-" or not argument.startswith("-")]
        target = targets[0] if targets else "~"
        # Where an unknown place is the new directory, paths stay as they are written from there.
        self.directory = "" if target == "-" or "$" in target else absolute(target, self.directory)
        self.has_moved = True

    def _placed(self, operation: Operation) -> Operation:
        match operation:
            case Search(path="") | List(path="") if self.has_moved:
                return replace(operation, path=self.directory)
            case Read() | Search() | List():
                return replace(operation, path=absolute(operation.path, self.directory))
            case _:
                return operation

    def _writes(self, paths: Sequence[str]) -> list[Operation]:
        return [Write(path=absolute(path, self.directory)) for path in paths]


def _tee_files(words: Sequence[str]) -> list[str]:
    return options_of(words, "tee").operands if name_of(words[0]) == "tee" else []


class _Prefix(msgspec.Struct, frozen=True):
    """A command that only runs another one."""

    flags: frozenset[str] = frozenset()
    """Options that change nothing for us; one that is not named here makes the line a command."""
    with_value: frozenset[str] = frozenset()
    operands: int = 0
    """How many words of its own stand before the command."""


def _prefix(flags: str = "", with_value: str = "", operands: int = 0) -> _Prefix:
    return _Prefix(names(flags), names(with_value), operands)


_PREFIXES: dict[str, _Prefix] = {
    "builtin": _prefix(),
    "command": _prefix("-p"),
    "doas": _prefix("-n", "-u"),
    "env": _prefix("- -i --ignore-environment", "-u --unset"),
    "exec": _prefix("-c -l", "-a"),
    "ionice": _prefix("-t", "-c -n"),
    "nice": _prefix("", "-n --adjustment"),
    "nohup": _prefix(),
    "stdbuf": _prefix("-oL -o0 -eL -e0", "-i -o -e"),
    "sudo": _prefix("-E -H -S -n --non-interactive", "-u -g --user --group"),
    "time": _prefix("-p"),
    "timeout": _prefix("-v --foreground --preserve-status", "-k -s --kill-after --signal", operands=1),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def _without_prefixes(words: Sequence[str]) -> list[str] | None:
    """The command itself; None where a prefix is used in a way that we do not know."""
    rest = list(words)
    while rest:
        if _ASSIGNMENT.match(rest[0]):
            del rest[0]
        elif (prefix := _PREFIXES.get(name_of(rest[0]))) is None:
            break
        elif not _drop_prefix(rest, prefix):
            return None
    return rest


def _drop_prefix(words: list[str], prefix: _Prefix) -> bool:
    del words[0]
    while words and words[0].startswith("-"):
        option = words[0].partition("=")[0]
        if option in prefix.with_value:
            del words[: 1 if "=" in words[0] else 2]
        elif option in prefix.flags:
            del words[0]
        else:
            return False
    del words[: prefix.operands]
    return True


_RUNS_SCRIPT = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")
_SHELL_OPTIONS_WITH_VALUE = names("-o +o -O +O --rcfile --init-file")


def _script_of(arguments: Sequence[str]) -> str | None:
    """The script of `bash -lc SCRIPT`; None for a shell that runs a file or reads its input."""
    is_script_next = False
    rest = iter(arguments)
    for argument in rest:
        if argument in _SHELL_OPTIONS_WITH_VALUE:
            next(rest, "")
        elif not argument.startswith(("-", "+")):
            return argument if is_script_next else None
        elif _RUNS_SCRIPT.fullmatch(argument):
            is_script_next = True
    return None
