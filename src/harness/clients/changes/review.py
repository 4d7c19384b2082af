"""The changes of a conversation, with the files as they are now: a list, and the diff of each file.

Scopes: `conversation` and `turn:<run id>` show what was written according to the log; `uncommitted` and `base` compare
the files with git. The log may have only the parts of a file that the agent replaced: its whole text follows from the
file as it is now, or from the last commit, if these parts are found there.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence

import msgspec

from harness.clients.changes.generated_files import is_generated
from harness.clients.changes.repository import Repository, find_repository
from harness.clients.changes.run_folder import FileNow, NotInFolder, RunFolder, file_of
from harness.clients.changes.shapes import (
    ChangeLetter,
    ChangeList,
    FileDiff,
    FileSummary,
    FileText,
    GitSummary,
    Pictures,
    TurnSummary,
)
from harness.clients.recorded_folder import recorded_folder
from harness.errors import UsageError
from harness.folds.changes.edits import Edit
from harness.folds.changes.fold import ChangedFile, ChangeHistory, totals_of
from harness.folds.changes.lines import CONTEXT_LINES, DiffRow, counts, lines_of, patch_of, rows_of
from harness.folds.changes.texts import ABSENT, Text, merged, versions
from harness.workspace.git_calls import GitFailed

# Pictures before and after, as addresses that a page can show without asking for more.


_KINDS = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "bmp": "image/bmp",
}
"""No SVG: it is a text, and has a diff."""
_LARGEST_BYTES = 3 * 1024 * 1024


def pictures_of(path: str, before: bytes | None, after: bytes | None) -> Pictures | None:
    """None: the file is no picture."""
    kind = _KINDS.get(path.rsplit(".", 1)[-1].lower())
    if kind is None:
        return None
    return Pictures(before=_address(kind, before), after=_address(kind, after))


def _address(kind: str, data: bytes | None) -> str:
    if data is None or len(data) > _LARGEST_BYTES:
        return ""
    return f"data:{kind};base64,{b64encode(data).decode()}"


CONVERSATION, UNCOMMITTED, BASE = "conversation", "uncommitted", "base"
TURN = "turn:"
_SLACK_MS = 2_000
"""A file has its time from another clock than an event, and is written before the call ends."""
_NOT_WRITTEN = "the log does not have what was written"
_NOT_GITS = "git does not know whose lines these are: revert in this conversation"


class Reviewed(msgspec.Struct, kw_only=True):
    """One file in a scope: its texts before and after, and as it is now."""

    path: str
    named: str
    old_path: str = ""
    edits: list[Edit]
    before: Text = None
    after: Text = None
    left: Text = None
    """As the agent left it, after all of its edits."""
    now: FileNow
    is_here: bool = True
    """Whether it is in the folder, on this machine."""
    source: str = "log"
    is_of_log: bool = True
    """Whether it is in the scope because of the log, wherever its texts are from."""
    committed: bytes | None = None
    moved_from: str = ""
    """The path that it had before the scope moved it."""
    origin: FileNow = FileNow()
    """What is at `moved_from` now."""

    @property
    def is_changed(self) -> bool:
        return not self.is_known or self.before != self.after or bool(self.moved_from or self.old_path)

    @property
    def is_as_before(self) -> bool:
        if not self.is_known or not self.is_here:
            return False
        if self.moved_from:
            return self.now.text is ABSENT and self.origin.text == self.before
        return self.now.text == self.before

    @property
    def is_known(self) -> bool:
        return self.before is not None and self.after is not None

    @property
    def reverted(self) -> Text:
        """The file as it is now without what the scope changed; None if that cannot be."""
        present = self.now.text
        if not self.is_known or present is None or not self.is_here:
            return None
        if present == self.after:
            return self.before
        if isinstance(present, str) and isinstance(self.after, str) and isinstance(self.before, str):
            return merged(self.after, present, self.before)
        return None


class Review:
    def __init__(self, history: ChangeHistory, *, folder: str = "", is_running: bool = False) -> None:
        """`folder`: where the files are, if not in the folder of the log."""
        self.history = history
        root = folder or ("" if history.runner else history.cwd)
        here = recorded_folder(root) if root else ""
        self.folder = RunFolder(here) if here else None
        self._log_root = root if here and here != root else ""
        """How the log names the folder, where its name is no text."""
        self._place = os.path.realpath(here) if here else ""
        self.why_no_git = ""
        self._repository: Repository | None = None
        self._is_sought = False
        self._is_running = is_running

    @property
    def repository(self) -> Repository | None:
        if not self._is_sought and self.folder is not None:
            self._is_sought = True
            self._repository = find_repository(self.folder.root)
        return self._repository

    def listing(self, scope: str, proposed_message: str = "") -> ChangeList:
        """Raises UsageError, GitFailed."""
        files = [self.summary(file) for file in self.files(scope) if file.is_changed]
        files.sort(key=lambda file: (file.is_generated, file.path))
        return ChangeList(
            scope=scope,
            root=self.folder.root if self.folder is not None else "",
            files=files,
            added=sum(file.added for file in files),
            removed=sum(file.removed for file in files),
            is_count_complete=all(file.is_count_complete for file in files),
            turns=self._turns(),
            git=self._git(),
            why_no_git=self.why_no_git,
            is_running=self._is_running,
            more_files=self._elsewhere(files) if scope == CONVERSATION else 0,
            proposed_message=proposed_message,
        )

    def diff(
        self, scope: str, path: str, *, context: int = CONTEXT_LINES, ignores_spaces: bool = False
    ) -> FileDiff:
        """All rows of a file. Raises UsageError."""
        file = self.file(scope, path)
        summary = self.summary(file)
        rows, note = _rows(file, summary, context, ignores_spaces=ignores_spaces)
        if ignores_spaces and not rows and not note and file.before != file.after:
            note = "Only spaces differ."
        pictures = pictures_of(file.named, file.committed, file.now.data) if summary.is_binary else None
        return FileDiff(file=summary, rows=rows, first=0, total=len(rows), note=note, pictures=pictures)

    def patch(self, scope: str, paths: Sequence[str] = ()) -> tuple[str, list[str]]:
        """A unified diff, and the files that are not in it since their texts are not known."""
        out: list[str] = []
        missing: list[str] = []
        for file in sorted(self.files(scope), key=lambda each: each.named):
            if (paths and file.named not in paths) or not file.is_changed:
                continue
            if not file.is_known or os.path.isabs(file.named):
                missing.append(file.named)
                continue
            old = None if file.before is ABSENT else str(file.before)
            new = None if file.after is ABSENT else str(file.after)
            out.append(patch_of(file.old_path or file.named, file.named, old, new))
        return "".join(out), missing

    def text(self, path: str) -> FileText:
        """A file of the folder as it is now, changed or not. Raises UsageError."""
        if self.folder is None:
            raise UsageError("the folder of the conversation is not on this machine")
        now = self.folder.read(path)
        if now.data is None:
            why = now.why_unread or "it is not there any more"
            raise UsageError(f"{path[:200]} cannot be shown: {why}")
        lines = [line.removesuffix("\n") for line in lines_of(now.decoded.text)] if now.decoded else []
        pictures = pictures_of(path, None, now.data) if now.is_binary else None
        return FileText(
            path=self._named(path),
            root=self.folder.root,
            lines=lines,
            first=0,
            total=len(lines),
            note="This is no text." if now.is_binary else "" if lines else "This file is empty.",
            picture=pictures.after if pictures is not None else "",
        )

    def file(self, scope: str, path: str) -> Reviewed:
        match = next((file for file in self.files(scope, path) if file.named == path), None)
        if match is None:
            raise UsageError(f"{path[:200]} was not changed in this scope")
        return match

    def files(self, scope: str, path: str = "") -> list[Reviewed]:
        """Those of a scope; with `path` at least that one. Raises UsageError, GitFailed."""
        if scope in (UNCOMMITTED, BASE):
            return self._of_git(scope)
        if scope != CONVERSATION and scope.removeprefix(TURN) not in self.history.turns:
            raise UsageError(f"there is no such scope: {scope[:80]}", hint="see docs/protocol.md")
        turn = "" if scope == CONVERSATION else scope.removeprefix(TURN)
        chosen_files = [
            file
            for file in self._files.values()
            if (not turn or turn in file.turns) and (not path or self._named(file.path) == path)
        ]
        committed = self._committed(chosen_files)
        return [self._of_log(file, turn, committed.get(file.path)) for file in chosen_files]

    def summary(self, file: Reviewed) -> FileSummary:
        added, removed, is_complete = _counts(file)
        text = file.after if isinstance(file.after, str) else file.before
        can_revert, why_not = self._can_revert(file)
        changed_ms, changed_by = self._also_changed(file)
        return FileSummary(
            path=file.named,
            old_path=file.old_path,
            change=_letter(file),
            added=added,
            removed=removed,
            is_count_complete=is_complete,
            turns=list(dict.fromkeys(edit.turn for edit in file.edits)),
            source="git" if file.source == "git" else "log",
            has_before=file.before is not None,
            is_generated=is_generated(file.named, text if isinstance(text, str) else ""),
            is_binary=file.now.is_binary
            or (file.committed is not None and file_of(file.committed).is_binary),
            is_reverted=file.is_as_before and file.source == "log",
            also_changed_ms=changed_ms,
            also_changed_by="" if changed_ms is None else "you" if changed_by else "unknown",
            can_revert=can_revert,
            why_not=why_not,
            digest=file.now.digest,
        )

    @property
    def _files(self) -> dict[str, ChangedFile]:
        if not self._log_root:
            return self.history.files
        places = (
            msgspec.structs.replace(file, path=self._here(file.path), original=self._here(file.original))
            for file in self.history.files.values()
        )
        return {file.path: file for file in places}

    def _here(self, path: str) -> str:
        inside = path.removeprefix(f"{self._log_root}{os.sep}")
        return path if inside == path else os.path.join(self._place, inside)

    def _named(self, path: str) -> str:
        return self.folder.named(path) if self.folder is not None else path

    def _has(self, path: str) -> bool:
        return self.folder is not None and self.folder.has(path)

    def _read(self, path: str) -> tuple[FileNow, bool]:
        if self.folder is None:
            return FileNow(why_unread="the folder is not on this machine"), False
        try:
            return self.folder.read(path), True
        except NotInFolder:
            return FileNow(why_unread="it is outside of the folder of the conversation"), False

    def _committed(self, files: Sequence[ChangedFile]) -> dict[str, Text | bytes]:
        """What the last commit has of these files."""
        repository = self.repository
        if repository is None or not files:
            return {}
        names = {file.path: os.path.relpath(file.original or file.path, repository.top) for file in files}
        try:
            head = repository.head()
            blobs = repository.blobs(head, [name for name in names.values() if not name.startswith("..")])
        except GitFailed as error:
            self.why_no_git = error.message
            return {}
        return {path: blobs.get(name, ABSENT) for path, name in names.items()}

    def _of_log(self, file: ChangedFile, turn: str, committed: Text | bytes) -> Reviewed:
        now, is_here = self._read(file.path)
        present = now.text if is_here else None
        blob = committed if isinstance(committed, bytes) else None
        base = file_of(blob).text if blob is not None else ABSENT if committed is ABSENT else None
        is_as_left = now.modified_ms <= file.edits[-1].timestamp_ms + _SLACK_MS
        is_replaced = all(
            edit.content is None and (edit.passages or edit.change == "move") for edit in file.edits
        )
        # What was reverted is again what the edits began with.
        candidates = [base, present] if is_replaced else [base]
        places = [number for number, edit in enumerate(file.edits) if not turn or edit.turn == turn]
        first, last = places[0], places[-1] + 1
        moved_from = _moved_from(file.edits[first:last])
        origin = self._read(moved_from)[0] if moved_from else FileNow()
        if moved_from and present is ABSENT:  # moved back
            present, candidates = None, [base, origin.text]
        texts = versions(file.edits, present, candidates, is_as_left=is_as_left)
        texts_left = texts if is_as_left else versions(file.edits, None, [base], is_as_left=False)
        moved_from = "" if texts[first] is ABSENT else moved_from  # made here, under another name
        reviewed = Reviewed(
            path=file.path,
            named=self._named(file.path),
            old_path=self._named(moved_from) if moved_from else "",
            edits=file.edits[first:last],
            before=texts[first],
            after=texts[last],
            left=texts_left[-1],
            now=now,
            is_here=is_here,
            committed=blob,
            moved_from=moved_from,
            origin=origin,
        )
        is_changed = base is not None and present is not None and base != present
        if not turn and not file.has_text and is_changed:
            # The log only says that it was written: git has what was there before.
            reviewed.before, reviewed.after, reviewed.source = base, present, "git"
        return reviewed

    def _of_git(self, scope: str) -> list[Reviewed]:
        repository = self.repository
        if repository is None or self.folder is None:
            raise UsageError("the folder of the conversation is in no git repository")
        commit = repository.head() if scope == UNCOMMITTED else repository.base()[1]
        if scope == BASE and not commit:
            raise UsageError("there is no branch to compare with")
        changed = repository.changed(commit)
        places = {name: os.path.join(repository.top, name) for name in changed}
        names = [name for name, path in places.items() if self.folder.has(path)]
        blobs = repository.blobs(commit, [name for name in names if changed[name] is not None])
        files: list[Reviewed] = []
        for name in names:
            path = places[name]
            now, is_here = self._read(path)
            blob = blobs.get(name)
            before: Text = ABSENT if changed[name] is None else file_of(blob or b"").text
            file = self._files.get(path)
            files.append(
                Reviewed(
                    path=path,
                    named=self._named(path),
                    edits=file.edits if file is not None else [],
                    before=before,
                    after=now.text,
                    now=now,
                    is_here=is_here,
                    source="git",
                    is_of_log=False,
                    committed=blob,
                )
            )
        return _with_renames(files)

    def _elsewhere(self, files: Sequence[FileSummary]) -> int:
        """How many files are not committed that no edit of the log has written: commands may have changed them."""
        repository = self.repository
        if repository is None or self.folder is None or self.why_no_git:
            return 0
        paths = {path for file in files for path in (file.path, file.old_path)}
        try:
            changed = repository.changed(repository.head())
            if len(changed) > _MOST_COMPARED:
                places = (os.path.join(repository.top, name) for name in changed)
                return sum(self.folder.has(place) and self._named(place) not in paths for place in places)
            changes = [file for file in self._of_git(UNCOMMITTED) if file.is_changed]
        except GitFailed:
            return 0
        return sum(not paths & {file.named, file.old_path or file.named} for file in changes)

    def _can_revert(self, file: Reviewed) -> tuple[bool, str]:
        if file.source == "git":
            return False, _NOT_WRITTEN if file.is_of_log else _NOT_GITS
        if not file.is_here:
            return False, file.now.why_unread
        if file.now.why_unread:
            return False, file.now.why_unread
        if file.now.is_binary:
            return False, "it is no text"
        if not file.is_known:
            return False, "the log does not have the text that was there before"
        if file.is_as_before:
            return False, "it is as it was before"
        if file.moved_from and not (file.origin.text is ABSENT and self._has(file.moved_from)):
            return False, f"it was moved from {file.old_path}, where it cannot be put back"
        if file.reverted is None:
            return False, "the same lines were changed since"
        return True, ""

    def _also_changed(self, file: Reviewed) -> tuple[int | None, bool]:
        """When it was changed since, and whether that was outside of all turns."""
        if file.source == "git" or not file.is_here or not file.now.modified_ms:
            return None, False
        at_ms = file.now.modified_ms
        if file.left is not None and file.left == file.now.text:
            return None, False
        if file.left is None and at_ms <= file.edits[-1].timestamp_ms + _SLACK_MS:
            return None, False
        if file.is_as_before:
            return None, False
        turns = self.history.turns.values()
        is_outside = not any(turn.started_ms <= at_ms <= turn.last_ms + _SLACK_MS for turn in turns)
        return at_ms, is_outside

    def _turns(self) -> list[TurnSummary]:
        turns: list[TurnSummary] = []
        for turn in self.history.turns.values():
            edited = [
                [edit for edit in file.edits if edit.turn == turn.id] for file in self.history.files.values()
            ]
            totals = [totals_of(edits) for edits in edited if edits]
            totals = [total for total in totals if not (total.is_new and total.is_gone)]
            if totals:
                turns.append(
                    TurnSummary(
                        id=turn.id,
                        number=turn.number,
                        title=turn.title,
                        started_ms=turn.started_ms,
                        files=len(totals),
                        added=sum(total.added for total in totals),
                        removed=sum(total.removed for total in totals),
                    )
                )
        return turns

    def _git(self) -> GitSummary | None:
        repository = self.repository
        if repository is None or self.why_no_git:
            return None
        try:
            head, branch = repository.head(), repository.branch()
            return GitSummary(
                branch=branch, head=head, base=repository.base()[0], has_hooks=repository.has_hooks()
            )
        except GitFailed as error:
            self.why_no_git = error.message
            return None


_MOST_COMPARED = 200  # files that are read only to be counted
_LEAST_ALIKE = 0.5
_MOST_PAIRS = 2_000
"""Of deleted and new files that are compared with each other."""


def _with_renames(files: Sequence[Reviewed]) -> list[Reviewed]:
    """A file that went and one that came with mostly the same lines are one file with another name."""
    missing = [file for file in files if file.after is ABSENT and file.committed]
    came = [file for file in files if file.before is ABSENT and file.now.data]
    pairs = [(old, new) for old in missing for new in came][:_MOST_PAIRS]
    ranked = sorted(
        ((_alike(old, new), at) for at, (old, new) in enumerate(pairs)), key=lambda pair: -pair[0]
    )
    matches: dict[str, Reviewed] = {}
    origins: dict[str, Reviewed] = {}
    for alike, at in ranked:
        old, new = pairs[at]
        if alike >= _LEAST_ALIKE and old.path not in matches and new.path not in origins:
            matches[old.path], origins[new.path] = new, old
    for path, old in origins.items():
        new = next(file for file in came if file.path == path)
        new.old_path, new.before, new.committed = old.named, old.before, old.committed
    return [file for file in files if file.path not in matches]


def _alike(old: Reviewed, new: Reviewed) -> float:
    """The share of lines that both have, of all lines of the longer one; of what is no text, whether it is the same."""
    if old.committed == new.now.data:
        return 1.0
    if not isinstance(old.before, str) or not isinstance(new.after, str):
        return 0.0
    old_lines, right = Counter(lines_of(old.before)), Counter(lines_of(new.after))
    return (old_lines & right).total() / max(old_lines.total(), right.total(), 1)


def _moved_from(edits: Sequence[Edit]) -> str:
    """The path before the first of these edits; empty if none of them moved the file."""
    moved_to = next((edit.moved_to for edit in reversed(edits) if edit.moved_to), "")
    return edits[0].path if moved_to and moved_to != edits[0].path else ""


def _letter(file: Reviewed) -> ChangeLetter:
    words = [edit.change for edit in file.edits]
    if file.old_path:
        return "R"
    if file.after is ABSENT or (file.after is None and words and words[-1] == "delete"):
        return "D"
    if file.before is ABSENT or (file.before is None and words and words[0] == "create"):
        return "A"
    return "M"


def _counts(file: Reviewed) -> tuple[int, int, bool]:
    """Lines added and removed, and whether these are all."""
    if file.is_known:
        old = file.before if isinstance(file.before, str) else ""
        new = file.after if isinstance(file.after, str) else ""
        return *counts(old, new), True
    if not file.edits or file.source == "git":
        return 0, 0, file.now.is_binary
    totals = totals_of(file.edits)
    is_complete = all(edit.has_text and (edit.passages or edit.change == "create") for edit in file.edits)
    return totals.added, totals.removed, is_complete


def _rows(
    file: Reviewed, summary: FileSummary, context: int, *, ignores_spaces: bool
) -> tuple[list[DiffRow], str]:
    if summary.is_binary:
        return [], "This is no text."
    if file.is_known:
        old = file.before if isinstance(file.before, str) else ""
        new = file.after if isinstance(file.after, str) else ""
        return rows_of(old, new, context=context, ignores_spaces=ignores_spaces), ""
    if file.source == "git":
        return [], f"Its text is not shown: {file.now.why_unread or 'it is no text'}."
    rows: list[DiffRow] = []
    for edit in file.edits:
        for passage in edit.passages:
            rows.append(DiffRow("place", "", passage.line, passage.line))
            changed = rows_of(
                passage.old, passage.new, first_line=passage.line, ignores_spaces=ignores_spaces
            )
            rows += changed[passage.line is not None :]
        if not edit.passages and edit.content is not None:
            rows.append(DiffRow("place", "The whole file"))
            rows += [DiffRow("added", row.text, None, row.new) for row in rows_of("", edit.content)[1:]]
    if not rows:
        return [], "The log does not have what was written."
    return (
        rows,
        "The log does not have the text from before: this is what the agent wrote, where it wrote it.",
    )
