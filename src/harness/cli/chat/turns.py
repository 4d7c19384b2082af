"""What the log of a conversation says of its turns."""

from __future__ import annotations

from typing import NamedTuple

from harness.events import Compacted, Message, SessionStart
from harness.log.run_tree import RunTree
from harness.log.store import Store, read_all
from harness.log.stores.files import FileStore


def prompts_of(store: FileStore, log_id: str) -> list[Message]:
    """With which message each turn of a conversation began."""
    tree = RunTree()
    found: dict[str, Message] = {}
    for event in read_all(store, log_id):
        run = tree.feed(event)
        if isinstance(event, Message) and event.role == "user" and not run.depth and event.id:
            found.setdefault(event.run_id, event)
    return list(found.values())


class FoundCompaction(NamedTuple):
    event: Compacted | None = None
    """The last one of a conversation."""
    is_within: bool = False
    """Whether something was said since it began."""


def last_compaction(store: Store, log_id: str) -> FoundCompaction:
    tree, last, answering = RunTree(), FoundCompaction(), ""
    for event in read_all(store, log_id):
        if tree.feed(event).depth:
            continue
        if isinstance(event, Message) and event.role == "user":
            answering = event.run_id
            last = last._replace(is_within=True)
        elif isinstance(event, Compacted):
            last = FoundCompaction(event, is_within=answering == event.run_id)
    return last


def latest_exchange(store: FileStore, log_id: str) -> int:
    """Where the latest run that answers a message begins, or the latest at all: nothing is said in one that sums up."""
    tree, starts, answering = RunTree(), {"": 0}, ""
    for event in read_all(store, log_id):
        if tree.feed(event).depth:
            continue
        if isinstance(event, SessionStart):
            starts[event.run_id] = event.seq
        elif isinstance(event, Message) and event.role == "user" and event.run_id in starts:
            answering = event.run_id
    return starts[answering] if answering else max(starts.values())
