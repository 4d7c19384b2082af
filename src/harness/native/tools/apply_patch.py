"""`apply_patch`: change, add, delete and move several files at once, all or nothing.

The parser comes first. `formats.patch` shows the format; hunks are located by their context lines only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from harness.approvals.globs import escaped
from harness.contracts.tool import (
    FileChange,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
    ToolPermission,
    spelled,
)
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation
from harness.events.operation import Write
from harness.formats.patches import operations_of_patch
from harness.formats.unified_diffs import patch_of_diff
from harness.workspace.files import (
    MOST_EDITABLE_BYTES,
    Change,
    TextFile,
    apply,
    as_tool_failure,
    changed_lines,
    decode,
    read_all,
)
from harness.workspace.roots import ToolWorkspace

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
_PLAIN = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f\u3000", " ")
)
_LOOKS: tuple[Callable[[str], str], ...] = (
    str,
    str.rstrip,
    str.strip,
    lambda line: line.strip().translate(_PLAIN),
)


class Hunk(msgspec.Struct):
    anchors: list[str] = msgspec.field(default_factory=list)
    lines: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Sign and text."""
    is_at_end: bool = False


class FilePatch(msgspec.Struct):
    path: str
    change: Literal["create", "update", "delete"]
    content: list[str] = msgspec.field(default_factory=list)
    """The lines of a new file."""
    hunks: list[Hunk] = msgspec.field(default_factory=list)
    move_to: str = ""


def unwrapped(text: str) -> str:
    """The patch alone, in its usual form: without what models put around it (words, a fence, a command line), with other
    spellings of its first and last line, and with a last line where there is none. A unified diff becomes such a patch.
    """
    lines = text.replace("\r\n", "\n").strip().split("\n")
    begin = next((at for at, line in enumerate(lines) if _FIRST.fullmatch(line.strip())), None)
    if begin is not None and any(_ELSEWHERE.search(line) for line in lines[:begin]):
        return "\n".join(lines)  # its paths begin in another folder: the parser refuses it
    if begin is None:
        return patch_of_diff(lines) or "\n".join(lines)
    end = next((at for at in range(len(lines) - 1, begin, -1) if _LAST.fullmatch(lines[at].strip())), None)
    inner = lines[begin + 1 : end] if end is not None else _without_wrapping(lines[begin + 1 :])
    return "\n".join([_BEGIN, *inner, _END])


_ELSEWHERE = re.compile(r"(^|[;&|\s])(cd|pushd)\s")
_FIRST = re.compile(r"\*{3}\s*Begin Patch\s*\**", re.IGNORECASE)
_LAST = re.compile(r"\*{3}\s*End Patch\s*\**", re.IGNORECASE)
_WRAPPING = re.compile(r"```|[A-Z][A-Z0-9_-]*|")


def _without_wrapping(lines: list[str]) -> list[str]:
    """Without the end of a fence or a here-document."""
    while lines and _WRAPPING.fullmatch(lines[-1].strip()):
        lines = lines[:-1]
    return lines


def parse(text: str) -> list[FilePatch]:
    """Parse a patch. Raises ToolFailure that names the mistake and its line."""
    lines = text.replace("\r\n", "\n").strip().split("\n")
    if lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise ToolFailure(f"the patch must begin with {_BEGIN!r} and end with {_END!r}")
    files: list[FilePatch] = []
    for number, line in enumerate(lines[1:-1], 2):
        if (header := _header(line)) is not None:
            files.append(header)
        elif not files:
            raise _malformed(number, "a line '*** Add File: …', '*** Update File: …' or '*** Delete File: …'")
        else:
            _take_line(files[-1], line, number)
    if not files:
        raise ToolFailure("the patch changes no file")
    for file in files:
        file.hunks = [hunk for hunk in file.hunks if hunk.lines]
        if file.change == "update" and not file.hunks and not file.move_to:
            raise ToolFailure(f"the patch says no change for {file.path}")
    return files


def _header(line: str) -> FilePatch | None:
    for prefix, change in ((_ADD, "create"), (_DELETE, "delete"), (_UPDATE, "update")):
        if line.startswith(prefix):
            path = line[len(prefix) :].strip()
            if not path:
                raise ToolFailure(f"no file is named after {prefix!r}")
            return FilePatch(path, change)  # type: ignore[arg-type]
    return None


def _take_line(file: FilePatch, line: str, number: int) -> None:
    if file.change == "create":
        if not line.startswith("+"):
            raise _malformed(number, f"a line of {file.path}, beginning with '+'")
        file.content.append(line[1:])
    elif file.change == "delete":
        if line.strip():
            raise _malformed(number, "another file, since a deleted one has no lines")
    elif line.startswith(_MOVE) and not file.hunks:
        file.move_to = line[len(_MOVE) :].strip()
    elif line.startswith("@@"):
        if not file.hunks or file.hunks[-1].lines:
            file.hunks.append(Hunk())
        if anchor := _anchor(line):
            file.hunks[-1].anchors.append(anchor)
    else:
        if not file.hunks:
            file.hunks.append(Hunk())
        _take_hunk_line(file.hunks[-1], line, number)


def _take_hunk_line(hunk: Hunk, line: str, number: int) -> None:
    if line.strip() == _END_OF_FILE:
        hunk.is_at_end = True
        return
    sign = line[:1] or " "
    if sign not in " +-":
        raise _malformed(number, "a line beginning with ' ', '-' or '+', or one of '@@' or '***'")
    hunk.lines.append((sign, line[1:]))


def _anchor(line: str) -> str:
    """The anchor of a hunk. Line numbers, as in `@@ -1,4 +1,5 @@`, are ignored: models count badly."""
    text = line[2:].strip()
    if text.startswith("-") and "@@" in text:
        text = text.partition("@@")[2].strip()
    return text


def _malformed(number: int, expected: str) -> ToolFailure:
    return ToolFailure(f"line {number} of the patch: expected {expected}")


def patched(text: str, hunks: Sequence[Hunk], path: str) -> str:
    """The text with all hunks applied, in order. Raises ToolFailure when one does not fit."""
    has_end = text.endswith("\n") or not text
    lines = text.split("\n")
    if has_end:
        lines.pop()
    result: list[str] = []
    place = 0
    for number, hunk in enumerate(hunks):
        alike = sum(1 for other in hunks[number:] if _sought(other) == _sought(hunk))
        start, changes = _located(lines, hunk, place, path, alike)
        result += lines[place:start]
        place = start
        for sign, line in changes:
            if sign == "+":
                result.append(line)
            else:
                if sign == " ":
                    result.append(lines[place])  # the file's line, with its own white space and characters
                place += 1
    result += lines[place:]
    return "\n".join(result) + ("\n" if has_end and result else "")


def _sought(hunk: Hunk) -> list[str]:
    return [line for sign, line in hunk.lines if sign != "+"]


def _located(
    lines: list[str], hunk: Hunk, place: int, path: str, alike: int
) -> tuple[int, list[tuple[str, str]]]:
    """The position of a hunk, and which of its lines count. `alike`: how many hunks have the same lines."""
    begin = place
    for anchor in hunk.anchors:
        places = _places(lines, [anchor], place)
        if not places:
            raise ToolFailure(f"{path}: no line {anchor!r} (named by @@) from line {place + 1} on")
        place = places[0] + 1
    sought = _sought(hunk)
    if not sought:
        return (place if hunk.anchors and not hunk.is_at_end else len(lines)), hunk.lines
    changes = hunk.lines
    fitting = _fitting(lines, sought, hunk, place)
    if not fitting and changes[-1] == (" ", "") and len(sought) > 1:
        # An empty line before the next header is usually a matter of style, not of content.
        sought, changes = sought[:-1], changes[:-1]
        fitting = _fitting(lines, sought, hunk, place)
    if not fitting:
        missing = "\n".join(sought[:12])
        raise ToolFailure(f"{path}: these lines were not found from line {place + 1} on:\n{missing}")
    if len(fitting) > alike:
        _assert_named(lines, hunk, fitting, begin, path)
    return fitting[0], changes


def _assert_named(lines: list[str], hunk: Hunk, fitting: list[int], begin: int, path: str) -> None:
    """An @@ line must select one of several places: a change at the wrong place is worse than none."""
    if hunk.anchors:
        named_places = _places(lines, [hunk.anchors[-1]], begin)
        if len(named_places) == 1 or len(hunk.anchors) > 1:
            return  # the first match after the named line
        fitting, what = named_places, f"the line {hunk.anchors[-1]!r} (named by @@)"
    else:
        what = "what the hunk is about"
    numbers = ", ".join(str(place + 1) for place in fitting[:8])
    raise ToolFailure(
        f"{path}: {what} stands there {len(fitting)} times, at the lines {numbers}: give more of the lines around "
        "the change, or name with @@ the function or class that it is in"
    )


def _fitting(lines: list[str], sought: list[str], hunk: Hunk, place: int) -> list[int]:
    """All matching places; only the one at the end of the file, if the hunk is marked so."""
    at_end = max(place, len(lines) - len(sought))
    places = _places(lines, sought, at_end) if hunk.is_at_end else []
    if not places:
        places = _places(lines, sought, place)
    if not places and hunk.anchors:
        places = _places(lines, sought, place - 1)  # the anchor is often also the first line
    return places


def _places(lines: list[str], sought: list[str], place: int) -> list[int]:
    """Where these lines occur, by the strictest comparison that finds them."""
    for look in _LOOKS:
        lines_seen, lines_sought = [look(line) for line in lines], [look(line) for line in sought]
        places_found = [
            start
            for start in range(place, len(lines) - len(sought) + 1)
            if lines_seen[start] == lines_sought[0]
            and lines_seen[start : start + len(lines_sought)] == lines_sought
        ]
        if places_found:
            return places_found
    return []


_DESCRIPTION = """\
Change several files at once; if any part does not fit, nothing is changed. Files must have been read before.

*** Begin Patch
*** Update File: src/old.py
*** Move to: src/new.py
@@ def greet():
     name = ask()
-    return "hi"
+    return "hello"
*** Add File: notes.md
+text
*** Delete File: gone.py
*** End Patch

Lines of a hunk begin with a blank (stays), - (goes) or + (comes). Give about three lines around each change;
they must stand in one place only; where they do not, name the function or class with a line @@. Paths are relative."""


class ApplyPatchArguments(Arguments, frozen=True, kw_only=True):
    patch: Annotated[str, Meta(description="from *** Begin Patch to *** End Patch")]


class ApplyPatchTool(Tool):
    category = "edit"

    def __init__(self, workspace: ToolWorkspace) -> None:
        self.spec = spec("apply_patch", _DESCRIPTION, ApplyPatchArguments)
        self._workspace = workspace

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return operations_of_patch(_taken(arguments), self._workspace.root)

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        """Exactly this patch: a rule for all patches would allow more than the user was shown."""
        name = _name_in(arguments)
        return ToolPermission("apply_patch", {name: escaped(spelled(arguments.get(name, "")))})

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Sequence[FileChange]:
        draft = _Draft(self._workspace, context)
        for file in parse(_taken(arguments)):
            with as_tool_failure(file.path):
                draft.take(file)
        return draft.previews()

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        files = parse(_taken(arguments))
        draft = _Draft(self._workspace, context)
        async with AsyncExitStack() as locks:
            # Always in the same order, or two patches could wait for each other.
            for path in sorted(draft.paths_of(files)):
                await locks.enter_async_context(context.files.lock(path))
            for file in files:
                with as_tool_failure(file.path):
                    draft.take(file)
            changes = draft.changes()
            with as_tool_failure("the patch was not applied"):
                apply(changes)
            for change in changes:
                context.files.read(change.path)
        operations = draft.operations()
        lines = [
            f"{_LETTERS[operation.change]} {self._workspace.shown(operation.path)}"
            for operation in operations
        ]
        return ToolOutput(text="\n".join(["patch applied:", *lines]), operations=[*operations])


def _taken(arguments: dict[str, Any]) -> str:
    """The patch without its wrapping: the same text is shown for approval and applied."""
    name = _name_in(arguments)
    if name != "patch":
        arguments = {"patch": arguments[name]}
    return unwrapped(take(ApplyPatchArguments, arguments, "apply_patch").patch)


def _name_in(arguments: dict[str, Any]) -> str:
    """Under which name the patch was given."""
    return next((name for name in ("patch", *_OTHER_NAMES) if name in arguments), "patch")


_OTHER_NAMES = ("input", "patchText", "patch_text", "diff", "content")
"""The names that some models have learnt for the argument."""
_NEW = TextFile("")
_LETTERS = {"create": "A", "update": "M", "delete": "D", "move": "D"}


class _File:
    """One file before and after the patch; None where there is no file."""

    def __init__(self, data: bytes | None, before: TextFile | None) -> None:
        self.data = data
        self.before = before
        self.text = None if before is None else before.text
        self.has_moved = False


class _Draft:
    """All changes of a patch, collected before any is made."""

    def __init__(self, workspace: ToolWorkspace, context: ToolContext) -> None:
        self._workspace = workspace
        self._context = context
        self._files: dict[str, _File] = {}

    def paths_of(self, files: Sequence[FilePatch]) -> set[str]:
        names = [name for file in files for name in (file.path, file.move_to) if name]
        return {self._workspace.writable(name) for name in names}

    def take(self, patch: FilePatch) -> None:
        path = self._workspace.writable(patch.path)
        file = self._open(path, patch.path, is_text=patch.change != "delete")
        if patch.change == "create":
            if file.text is not None:
                raise ToolFailure(f"{patch.path} exists already: update it, or delete it first")
            file.text = "".join(f"{line}\n" for line in patch.content)
            return
        if file.text is None:
            raise ToolFailure(f"{patch.path}: there is no such file")
        if patch.change == "delete":
            file.text = None
            return
        text = patched(file.text, patch.hunks, patch.path)
        if not patch.move_to:
            file.text = text
            return
        target = self._open(self._workspace.writable(patch.move_to), patch.move_to)
        if target.text is not None and target is not file:
            raise ToolFailure(f"{patch.move_to} exists already: nothing is moved there")
        target.before, target.text = target.before or file.before, text
        if target is not file:
            file.text, file.has_moved = None, True

    def changes(self) -> list[Change]:
        return [
            Change(path, file.data, None if file.text is None else (file.before or _NEW).encode(file.text))
            for path, file in self._files.items()
            if file.text is not None or file.data is not None
        ]

    def previews(self) -> list[FileChange]:
        return [
            FileChange(
                path=path,
                before=None if file.data is None else file.data.decode("utf-8", "replace"),
                after=file.text,
            )
            for path, file in self._files.items()
            if file.text is not None or file.data is not None
        ]

    def operations(self) -> list[Write]:
        writes: list[Write] = []
        for path, file in self._files.items():
            if file.text is None:
                if file.data is not None:
                    writes.append(Write(path=path, change="move" if file.has_moved else "delete"))
                continue
            lines = changed_lines(file.before.text if file.before else "", file.text)
            first, last = lines or (None, None)
            change = "create" if file.data is None else "update"
            writes.append(Write(path=path, change=change, start_line=first, end_line=last))
        return writes

    def _open(self, path: str, shown_path: str, *, is_text: bool = True) -> _File:
        if path not in self._files:
            self._context.files.assert_current(path)
            try:
                data = read_all(path, MOST_EDITABLE_BYTES)
            except FileNotFoundError:
                self._files[path] = _File(None, None)
            else:
                self._files[path] = _File(data, decode(data, shown_path) if is_text else TextFile(""))
        return self._files[path]
