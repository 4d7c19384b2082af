"""What a call changed in files, read from its arguments.

No agent is known here: arguments are distinguished by what is in them, since what agents call the same thing differs by
little more than a name. Which files were written, and whether that succeeded, the operations of the call say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec

from harness.events import FileTexts, ToolEnd, ToolStart
from harness.events.operation import Write
from harness.folds.changes.patches import (
    PatchedFile,
    PatchHunk,
    files_of_patch,
    hunks_in,
    is_patch,
)

_Arguments: TypeAlias = Mapping[str, Any]

_BEFORE = ("old_string", "old_str", "oldText", "oldString", "old_text", "search", "before", "original")
_AFTER = ("new_string", "new_str", "newText", "newString", "new_text", "replace", "after", "replacement")
_WHOLE = ("content", "file_text", "contents", "fileText", "new_content", "text", "file_content")
_INSERTED = ("insert_text", *_AFTER)
_EVERY = ("replace_all", "replaceAll", "allow_multiple", "all_occurrences")
_PATCHES = ("patch", "diff", "input", "patchText", "changes", "command", "unified_diff", "unifiedDiff")
_PLACES = ("insert_line", "insertLine")
_PATHS = ("path", "file_path", "filePath", "filepath")


class Passage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a text that is replaced."""

    old: str
    new: str
    every: bool = False
    """Wherever it occurs."""
    line: int | None = None
    """The number of its first line in the new text, or of the first line in it that changed."""
    is_lines: bool = False
    """It consists of whole lines, as the parts of a patch do."""


class Edit(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One file, changed by one call. What the log does not say is None or empty."""

    path: str
    change: str = ""
    """`create`, `update`, `delete`, `move`, or empty where the agent does not say."""
    moved_to: str = ""
    passages: tuple[Passage, ...] = ()
    content: str | None = None
    """The whole text after it."""
    before: str | None = None
    """The whole text before it."""
    call_id: str = ""
    turn: str = ""
    """The top run."""
    timestamp_ms: int = 0

    @property
    def has_text(self) -> bool:
        """Whether the log says what was written."""
        return bool(self.passages) or self.content is not None or self.change in ("delete", "move")


def edits_of(start: ToolStart, end: ToolEnd, preview: Any = None) -> list[Edit]:
    """What a call changed; nothing if it failed. `preview`: what was shown when its permission was asked."""
    operations = start.operations if end.operations is None else end.operations
    writes = [each for each in operations if isinstance(each, Write) and each.success is not False]
    if not writes or (end.has_failed and not any(each.success for each in writes)):
        return []
    arguments = _unpacked(start.input)
    patched = [*_patched(arguments, writes)]
    previews = _previewed(preview)
    moved = _moves(writes)
    texts = {each.path: each for each in end.changes or ()}
    edits: list[Edit] = []
    for write in writes:
        if write.path in moved.values():
            continue  # the file that was moved here says so
        edit = _of_texts(write, texts.get(write.path))
        edit = edit or (_of_patch(write, patched) if patched else None)
        edit = edit or (_of_arguments(write, arguments) if len(writes) == 1 and not patched else None)
        edit = edit or Edit(path=write.path, change=write.change)
        edit = _with_move(edit, moved.get(write.path, ""))
        edits.append(_with_preview(edit, previews))
    return edits


def _unpacked(tool_input: Any) -> Any:
    """Arguments that are JSON in a text, as data."""
    if isinstance(tool_input, dict) and len(tool_input) == 1:
        (value,) = tool_input.values()
        return _decoded(value, tool_input)
    return _decoded(tool_input, tool_input)


def _decoded(text: Any, default: Any) -> Any:
    if isinstance(text, str) and text[:1] == "{":
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return default
    return default


def _patched(arguments: Any, writes: Sequence[Write]) -> Iterator[PatchedFile]:
    if isinstance(arguments, str):
        yield from files_of_patch(arguments) if is_patch(arguments) else ()
        return
    if not isinstance(arguments, dict):
        return
    for change in _records(arguments.get("changes")):
        yield from _listed(change)
    only = writes[0].path if len(writes) == 1 else ""
    for key in _PATCHES:
        text = arguments.get(key)
        if isinstance(text, str) and is_patch(text):
            yield from files_of_patch(text, only)
            return


def _listed(change: _Arguments) -> Iterator[PatchedFile]:
    """One of several changes: a path, a kind, and a diff, or the whole text of a new or deleted file."""
    path, text, kind = change.get("path"), change.get("diff"), change.get("kind")
    data = kind if isinstance(kind, dict) else {"type": kind}
    if not isinstance(path, str) or not isinstance(text, str):
        return
    word = {"add": "create", "delete": "delete"}.get(str(data.get("type")), "update")
    moved = data.get("move_path")
    if is_patch(text) or word == "update":
        hunks = [*hunks_in(text)]
        kind_word = "move" if moved else word
        yield PatchedFile(path, kind_word, moved if isinstance(moved, str) else "", hunks)
    elif word == "create":
        yield PatchedFile(path, word, "", [PatchHunk("", text, 1)])
    else:
        yield PatchedFile(path, word, "", [PatchHunk(text, "", 1)])


def _of_patch(write: Write, patched: Iterable[PatchedFile]) -> Edit | None:
    file = next((each for each in patched if _is_same(write.path, each.path)), None)
    if file is None:
        return None
    if file.change == "create":
        return Edit(path=write.path, change="create", content="".join(hunk.new for hunk in file.hunks))
    if file.change == "delete":
        before = "".join(hunk.old for hunk in file.hunks) if file.hunks else None
        return Edit(path=write.path, change="delete", before=before)
    passages = tuple(Passage(hunk.old, hunk.new, line=hunk.line, is_lines=True) for hunk in file.hunks)
    return Edit(path=write.path, change=write.change or file.change, passages=passages)


def _is_same(path: str, relative_path: str) -> bool:
    """Whether a path of the patch, which may be relative, is the one that was written."""
    relative = relative_path.removeprefix("./").lstrip("/")
    return path == relative_path or path.endswith(f"/{relative}")


def _moves(writes: Sequence[Write]) -> dict[str, str]:
    """Old path → new path. The operation of the new path follows that of the old one."""
    return {
        write.path: following.path
        for write, following in pairwise(writes)
        if write.change == "move" and following.change in ("create", "move", "")
    }


def _with_move(edit: Edit, moved_to: str) -> Edit:
    return msgspec.structs.replace(edit, change="move", moved_to=moved_to) if moved_to else edit


def _of_texts(write: Write, texts: FileTexts | None) -> Edit | None:
    if texts is None or write.change == "delete":
        return None
    if texts.before is None:
        return Edit(path=write.path, change="create", content=texts.after)
    return Edit(path=write.path, change=write.change, passages=(Passage(texts.before, texts.after),))


def _of_arguments(write: Write, arguments: Any) -> Edit | None:
    if write.change == "delete":
        return Edit(path=write.path, change="delete")
    if not isinstance(arguments, dict):
        return None
    passages = (*_passages(arguments, write.start_line),)
    if passages and not passages[0].old and _count(arguments, _PLACES) is None:
        # Nothing is replaced: the text is that of the whole file.
        return Edit(path=write.path, change=write.change, content=passages[0].new)
    if passages:
        return Edit(path=write.path, change=write.change, passages=passages)
    content = _first_text(arguments, _WHOLE)
    return None if content is None else Edit(path=write.path, change=write.change, content=content)


def _passages(arguments: _Arguments, line: int | None) -> Iterator[Passage]:
    old, new = _first_text(arguments, _BEFORE), _first_text(arguments, _AFTER)
    if _count(arguments, _PLACES) is not None:
        inserted = _first_text(arguments, _INSERTED)
        if inserted is not None and old is None:
            yield Passage(
                "", inserted if inserted.endswith("\n") else f"{inserted}\n", line=line, is_lines=True
            )
            return
    if old is not None or new is not None:
        every = any(arguments.get(name) is True for name in _EVERY)
        yield Passage(old or "", new or "", every=every, line=line)
        return
    several = next((value for value in arguments.values() if any(_records(value))), None)
    for each in _records(several):
        yield from _passages(each, None)


def _previewed(preview: Any) -> dict[str, _Arguments]:
    """Path → the change as it was shown, where all of its diff was."""
    return {
        each["path"]: each
        for each in _records(preview)
        if isinstance(each.get("path"), str)
        and isinstance(each.get("diff"), str)
        and not each.get("hidden_lines")
    }


def _with_preview(edit: Edit, previews: Mapping[str, _Arguments]) -> Edit:
    """A preview was made of the file itself: it also has the earlier content of an overwritten file."""
    preview = previews.get(edit.path)
    if preview is None or edit.change in ("delete", "move"):
        return edit
    hunks = tuple(
        Passage(hunk.old, hunk.new, line=hunk.line, is_lines=True) for hunk in hunks_in(preview["diff"])
    )
    if not hunks or preview.get("change") == "create":
        return edit
    return msgspec.structs.replace(edit, passages=hunks)


def _records(value: Any) -> Iterator[_Arguments]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def _first_text(arguments: _Arguments, names: Iterable[str]) -> str | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


def _count(arguments: _Arguments, names: Iterable[str]) -> int | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), int)), None)
