"""Which id each task of a rewritten list has.

Rules
1. An id that was given is kept; of two that are the same, the first.
2. A task without one takes that of a previous task, when its content stands once among those without an id
   and exactly one previous task, whose id nobody claimed, has that content.
3. Every other one is named after its content, and never like another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Sequence
from typing import Protocol

from harness.events import Task

_LONGEST_NAME = 48
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


class Draft(Protocol):
    """A task as the model wrote it."""

    @property
    def id(self) -> str: ...

    @property
    def content(self) -> str: ...


def task_ids(drafts: Sequence[Draft], previous: Sequence[Task] = ()) -> list[str]:
    """The ids, in order; all of them different."""
    reused = _reusable(drafts, previous)
    reserved = {draft.id for draft in drafts if draft.id} | set(reused.values())
    used: set[str] = set()
    seen: Counter[str] = Counter()
    ids: list[str] = []
    for place, draft in enumerate(drafts):
        seen[draft.content] += 1
        if draft.id and draft.id not in used:
            chosen = draft.id
        elif place in reused and reused[place] not in used:
            chosen = reused[place]
        else:
            chosen = _unique(_name(draft.content, seen[draft.content]), used | reserved)
        used.add(chosen)
        ids.append(chosen)
    return ids


def _reusable(drafts: Sequence[Draft], previous: Sequence[Task]) -> dict[int, str]:
    """By place: the id of the one previous task that is meant."""
    claimed = {draft.id for draft in drafts if draft.id}
    unnamed = Counter(draft.content for draft in drafts if not draft.id)
    free: dict[str, list[str]] = {}
    for task in previous:
        if task.id not in claimed:
            free.setdefault(task.text, []).append(task.id)
    return {
        place: free[draft.content][0]
        for place, draft in enumerate(drafts)
        if not draft.id and unnamed[draft.content] == 1 and len(free.get(draft.content, ())) == 1
    }


def _name(content: str, occurrence: int) -> str:
    slug = _NOT_IN_NAMES.sub("_", content.lower()).strip("_")[:_LONGEST_NAME]
    return f"task_{slug or 'item'}" + (f"_{occurrence}" if occurrence > 1 else "")


def _unique(wanted: str, taken: Container[str]) -> str:
    chosen, number = wanted, 1
    while chosen in taken:
        number += 1
        chosen = f"{wanted}_{number}"
    return chosen
