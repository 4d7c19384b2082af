"""Revert changes of a conversation: only the agent's lines, and only where they are still as it left them.

The files are saved first, so that a revert can be undone. When a file has changed since the revert was shown, nothing is
reverted.
"""

from __future__ import annotations

import os
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Literal

import msgspec

from harness.clients.changes.repository import Stale
from harness.clients.changes.review import Review, Reviewed
from harness.clients.changes.run_folder import RunFolder, digest_of
from harness.clients.changes.shapes import CommitAnswer, KeptLines, RevertAnswer, RevertedFile
from harness.config.files import data_directory
from harness.errors import UsageError
from harness.folds.changes.lines import lines_of, regions
from harness.folds.changes.texts import ABSENT, Text
from harness.log.private_files import make_private_directory, replace_private
from harness.workspace.files import Change

_FOLDER = "reverts"
_UNDO_ID = re.compile(r"[0-9a-f]{32}")
_SAVED_FOR_S = 14 * 24 * 3600


class SavedFile(msgspec.Struct):
    path: str
    before: str | None
    """Its content before the revert, in base64; None: there was no file."""
    after: str
    """The digest of what the revert wrote; empty: it deleted the file."""
    mode: int | None = None


class SavedRevert(msgspec.Struct):
    root: str
    log_id: str
    files: list[SavedFile]


def revert(
    review: Review,
    log_id: str,
    scope: str,
    paths: Sequence[str],
    expect: Mapping[str, str],
    *,
    dry_run: bool,
) -> RevertAnswer:
    """`expect`: path → digest of the file as it was shown. Raises UsageError, and Stale if a file has changed."""
    files = [file for file in review.files(scope) if not paths or file.named in paths]
    missing = set(paths) - {file.named for file in files}
    if missing or not files:
        raise UsageError(f"not changed in this scope: {', '.join(sorted(missing)) or 'nothing was'}"[:500])
    plans = [_plan(review, file) for file in files]
    if dry_run:
        return RevertAnswer(files=plans)
    for plan in plans:
        if expect.get(plan.path) != plan.digest:
            raise Stale(f"{plan.path} is not as it was shown; nothing was changed", hint="look again")
    if not paths:  # of a whole turn, what is possible
        files = [file for file, plan in zip(files, plans, strict=True) if plan.action != "refuse"]
    refused = [plan for plan in plans if plan.action == "refuse"]
    if not files or (paths and refused):
        raise UsageError(f"{refused[0].path}: {refused[0].reason}; nothing was changed")
    assert review.folder is not None  # without it each file is refused
    return RevertAnswer(files=plans, undo_id=_carry_out(review.folder, log_id, files))


def undo(folder: RunFolder, log_id: str, undo_id: str) -> list[str]:
    """Write back what a revert replaced; the paths. Raises UsageError, and Stale if a file has changed since."""
    saved = _load(undo_id)
    if saved is None or saved.log_id != log_id or saved.root != folder.root:
        raise UsageError("there is no such revert", hint="a revert can be undone for 14 days")
    changes: list[Change] = []
    for file in saved.files:
        now = folder.read(file.path)
        if now.digest != file.after or now.why_unread:
            raise Stale(f"{file.path} was changed after the revert; nothing was changed")
        before = None if file.before is None else b64decode(file.before)
        changes.append(Change(file.path, now.data, before, file.mode))
    folder.replace(changes)
    with suppress(OSError):
        os.unlink(_path(undo_id))
    return [folder.named(change.path) for change in changes]


def _plan(review: Review, file: Reviewed) -> RevertedFile:
    summary = review.summary(file)
    if not summary.can_revert:
        return RevertedFile(path=file.named, action="refuse", reason=summary.why_not, digest=summary.digest)
    after, present = file.reverted, file.now.text
    action: Literal["change", "delete", "create", "move"] = "change"
    if file.moved_from:
        action = "move"
    elif after is ABSENT or present is ABSENT:
        action = "delete" if after is ABSENT else "create"
    return RevertedFile(
        path=file.named,
        action=action,
        moved_to=file.old_path,
        undone_lines=_changed_lines(present, after),
        kept=_kept(file),
        digest=summary.digest,
    )


def _changed_lines(old: Text, new: Text) -> int:
    before, after = (lines_of(text) if isinstance(text, str) else [] for text in (old, new))
    return sum(
        max(region.old_end - region.old_start, region.new_end - region.new_start)
        for region in regions(before, after)
    )


def _kept(file: Reviewed) -> list[KeptLines]:
    """The lines of the present file that differ from what the agent left."""
    text_left, present = file.left, file.now.text
    if not isinstance(text_left, str) or not isinstance(present, str):
        return []
    return [
        KeptLines(first=region.new_start + 1, last=max(region.new_end, region.new_start + 1))
        for region in regions(lines_of(text_left), lines_of(present))
    ]


def _carry_out(folder: RunFolder, log_id: str, files: Sequence[Reviewed]) -> str:
    changes: list[Change] = []
    for file in files:
        after = file.reverted
        data = file.now.encoded(after) if isinstance(after, str) else None
        if file.moved_from:
            changes.append(Change(file.moved_from, None, data, file.now.mode))
            data = None
        changes.append(Change(file.path, file.now.data, data, file.now.mode))
    undo_id = token_hex(16)
    saved = SavedRevert(
        root=folder.root,
        log_id=log_id,
        files=[
            SavedFile(
                path=change.path,
                before=None if change.before is None else b64encode(change.before).decode(),
                after="" if change.after is None else digest_of(change.after),
                mode=change.mode,
            )
            for change in changes
        ],
    )
    _save(undo_id, saved)
    try:
        folder.replace(changes)
    except UsageError:
        with suppress(OSError):
            os.unlink(_path(undo_id))
        raise
    return undo_id


def _path(undo_id: str) -> str:
    return os.path.join(data_directory(), _FOLDER, f"{undo_id}.json")


def _save(undo_id: str, saved: SavedRevert) -> None:
    folder = os.path.join(data_directory(), _FOLDER)
    try:
        make_private_directory(folder)
        _remove_old(folder)
        replace_private(_path(undo_id), msgspec.json.encode(saved))
    except OSError as error:
        raise UsageError(
            f"nothing was changed: the files cannot be saved first ({error.strerror})"
        ) from error


def _remove_old(folder: str) -> None:
    oldest_s = time.time() - _SAVED_FOR_S
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime < oldest_s:
                os.unlink(entry.path)


def _load(undo_id: str) -> SavedRevert | None:
    if not _UNDO_ID.fullmatch(undo_id):
        return None
    try:
        with open(_path(undo_id), "rb") as file:
            return msgspec.json.decode(file.read(), type=SavedRevert)
    except (OSError, msgspec.DecodeError):
        return None


# Commit chosen files of a conversation, as they are now. What the user has staged is left alone.


_LONGEST_MESSAGE = 20_000


def commit(
    review: Review, paths: Sequence[str], message: str, expect_head: str, expect: Mapping[str, str]
) -> CommitAnswer:
    """`expect`: path → digest of the file as it was shown, for any of them. Raises UsageError, GitFailed, Stale."""
    folder, repository = review.folder, review.repository
    if folder is None or repository is None:
        raise UsageError("the folder of the conversation is in no git repository")
    message = message.strip()
    if not message or len(message) > _LONGEST_MESSAGE or "\0" in message:
        raise UsageError("a commit needs a message, of at most 20,000 characters")
    if not paths:
        raise UsageError("no files were chosen")
    contents: dict[str, bytes | None] = {}
    for path in paths:
        now = folder.read(path)
        if now.why_unread:
            raise UsageError(f"{path[:200]}: {now.why_unread}; nothing was committed")
        if path in expect and expect[path] != now.digest:
            raise Stale(f"{path[:200]} is not as it was shown; nothing was committed", hint="look again")
        real = os.path.realpath(os.path.join(folder.root, path))
        name = os.path.relpath(real, repository.top)
        if name.startswith("..") or name.split(os.sep)[0].casefold() == ".git":
            raise UsageError(f"{path[:200]} is not in the repository; nothing was committed")
        contents[name] = now.data
    commit_id = repository.commit(contents, f"{message}\n", expect_head)
    return CommitAnswer(
        commit=commit_id,
        branch=repository.branch(),
        files=len(contents),
        hooks_skipped=repository.has_hooks(),
    )
