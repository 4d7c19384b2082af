"""Commit chosen files of a conversation, as they are now. What the user has staged is left alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.interfaces.changes.repository import Stale
from harness.interfaces.changes.review import Review
from harness.interfaces.changes.shapes import CommitAnswer

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
    made = repository.commit(contents, f"{message}\n", expect_head)
    return CommitAnswer(
        commit=made, branch=repository.branch(), files=len(contents), hooks_skipped=repository.has_hooks()
    )
