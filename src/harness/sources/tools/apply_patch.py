"""`apply_patch`: change, add, delete and move several files at once, all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Any

from msgspec import Meta

from harness.events import Operation
from harness.events.operation import Write
from harness.sources.formats.patch import operations_of_patch
from harness.sources.tool import (
    FileChange,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
    ToolPermission,
    spelled,
)
from harness.sources.tools.arguments import Arguments, exactly, spec, take
from harness.sources.workspace.files import Change, apply, read_all, told_to_the_model
from harness.sources.workspace.patch import FilePatch, parse, patched, unwrapped
from harness.sources.workspace.roots import ToolWorkspace
from harness.sources.workspace.text import MOST_EDITABLE_BYTES, TextFile, changed_lines, decode

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
        """A patch is never the same again; but to allow all of them is more than anybody was shown."""
        name = "patch" if "patch" in arguments else _OTHER_NAME
        return ToolPermission("apply_patch", {name: exactly(spelled(arguments.get(name, "")))})

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Sequence[FileChange]:
        draft = _Draft(self._workspace, context)
        for file in parse(_taken(arguments)):
            with told_to_the_model(file.path):
                draft.take(file)
        return draft.previews()

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        files = parse(_taken(arguments))
        draft = _Draft(self._workspace, context)
        async with AsyncExitStack() as locks:
            # In one order for everybody, or two patches could wait for each other.
            for path in sorted(draft.paths_of(files)):
                await locks.enter_async_context(context.files.lock(path))
            for file in files:
                with told_to_the_model(file.path):
                    draft.take(file)
            changes = draft.changes()
            with told_to_the_model("the patch was not applied"):
                apply(changes)
            for change in changes:
                context.files.read(change.path)
        operations = draft.operations()
        lines = [f"{_LETTERS[one.change]} {self._workspace.shown(one.path)}" for one in operations]
        return ToolOutput(text="\n".join(["patch applied:", *lines]), operations=[*operations])


def _taken(arguments: dict[str, Any]) -> str:
    """The patch alone: what is asked about is what is applied, however the model wrapped it."""
    if "patch" not in arguments and _OTHER_NAME in arguments:
        arguments = {"patch": arguments[_OTHER_NAME]}
    return unwrapped(take(ApplyPatchArguments, arguments, "apply_patch").patch)


_OTHER_NAME = "input"
"""What the argument is called where some models have learnt it."""
_NEW = TextFile("")
_LETTERS = {"create": "A", "update": "M", "delete": "D", "move": "D"}


class _File:
    """One file as it was, and as the patch will leave it; None where there is none."""

    def __init__(self, data: bytes | None, before: TextFile | None) -> None:
        self.data = data
        self.before = before
        self.text = None if before is None else before.text
        self.has_moved = False


class _Draft:
    """Everything that a patch will do, before anything is done."""

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
        found: list[Write] = []
        for path, file in self._files.items():
            if file.text is None:
                if file.data is not None:
                    found.append(Write(path=path, change="move" if file.has_moved else "delete"))
                continue
            lines = changed_lines(file.before.text if file.before else "", file.text)
            first, last = lines or (None, None)
            change = "create" if file.data is None else "update"
            found.append(Write(path=path, change=change, start_line=first, end_line=last))
        return found

    def _open(self, path: str, shown: str, *, is_text: bool = True) -> _File:
        if path not in self._files:
            self._context.files.assert_current(path)
            try:
                data = read_all(path, MOST_EDITABLE_BYTES)
            except FileNotFoundError:
                self._files[path] = _File(None, None)
            else:
                self._files[path] = _File(data, decode(data, shown) if is_text else TextFile(""))
        return self._files[path]
