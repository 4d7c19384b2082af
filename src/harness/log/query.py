"""Which logs a query means, and in which order: one answer for every store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from msgspec.structs import replace

from harness.events import Event
from harness.log import codec
from harness.log.log_summary import folded
from harness.log.store import Metadata, Query


def words_of(query: Query) -> list[str]:
    return folded(query.text).split()


def heading(metadata: Metadata) -> str:
    """What can be searched of a log besides its messages."""
    return folded(f"{metadata.name}\n{metadata.prompt}")


def select(all_metadata: Iterable[Metadata], query: Query, is_live: Callable[[str], bool]) -> list[Metadata]:
    """The logs that match the query, the last changed first. Its words are not checked here."""
    matches: Iterator[Metadata] = (metadata for metadata in all_metadata if is_asked_for(metadata, query))
    if query.live_first:
        all_of_them = list(matches)
        live = {session.session_id for session in all_of_them if is_live(session.session_id)}
        matches = iter(sorted(all_of_them, key=lambda session: session.session_id not in live))
    return list(_cut(matches, query.offset, query.limit))


def is_asked_for(metadata: Metadata, query: Query) -> bool:
    fork = metadata.fork
    return (
        not metadata.deleted
        and query.kind in (None, metadata.kind)
        and metadata.session_id not in query.excluding
        and (not query.active or is_active(metadata))
        and query.resource_id in (None, metadata.resource_id)
        and (query.include_forks or fork is None)
        and (query.fork_of is None or (fork is not None and fork.log_id == query.fork_of))
        and not any(metadata.settings.get(name) for name in query.without_settings)
        and all(metadata.settings.get(name) == value for name, value in query.settings.items())
    )


def is_sifted(query: Query) -> bool:
    """Whether a query has conditions that only the metadata of each log can answer."""
    has_settings = bool(query.settings or query.without_settings)
    return has_settings or not query.include_forks or query.fork_of is not None or query.live_first


def is_active(metadata: Metadata) -> bool:
    """Whether it has a run that is running or waits, as far as its writer has stored."""
    return bool(metadata.activity) or waits(metadata) or (metadata.kind == "run" and not metadata.outcome)


def waits(metadata: Metadata) -> bool:
    """Whether it waits for an answer. Before there was `activity`, only the outcome showed it."""
    is_suspended = metadata.kind == "thread" and metadata.outcome == "suspended"
    return metadata.activity == "waiting" or (not metadata.activity and is_suspended)


def latest(metadata: Metadata, last_event_ms: int) -> Metadata:
    """The metadata as `find` gives it: changed when its last event came, if that is later."""
    updated_ms = max(metadata.updated_ms, last_event_ms)
    return replace(metadata, updated_ms=updated_ms)


def in_order(metadata: Metadata) -> tuple[int, str]:
    """Sorts, from the last changed on, when it is reversed."""
    return metadata.updated_ms, metadata.session_id


def age(metadata: Metadata) -> tuple[int, str]:
    """Sorts, from the newest on, when it is reversed. What was recorded before there was `created_ms` has seconds."""
    seconds = metadata.start_time
    created_ms = metadata.created_ms or (int(seconds) * 1000 if seconds.isdecimal() else 0)
    return created_ms, metadata.session_id


def _cut(matches: Iterator[Metadata], offset: int, limit: int | None) -> Iterator[Metadata]:
    for position, metadata in enumerate(matches):
        if limit is not None and position >= offset + limit:
            return
        if position >= offset:
            yield metadata


# Reads of a log only the lines that contain certain words, so that gigabytes take seconds.


_BLOCK_BYTES = 1024 * 1024


def grep_events(file: BinaryIO, words: Iterable[str]) -> Iterator[Event]:
    """The events of every whole line that has one of these words as a JSON string, in their order.

    A line may have the word for another reason: the caller must check the type of each event.
    """
    pattern = re.compile(b'"(?:%b)"' % b"|".join(re.escape(word.encode()) for word in words))
    for lines in _whole_lines(file):
        end = 0
        while (match := pattern.search(lines, end)) is not None:
            start = lines.rfind(b"\n", 0, match.start()) + 1
            end = lines.index(b"\n", match.end()) + 1
            yield from _events_of(lines[start:end])


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Blocks that begin and end with a line; what is half written at the end is left out."""
    parts: list[bytes] = []
    while block := file.read(_BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join((*parts, block[:end]))
            parts = [block[end:]]
        else:
            parts.append(block)


def _events_of(line: bytes) -> list[Event]:
    try:
        return [codec.decode(line)]
    except codec.UNREADABLE:
        return codec.salvage(line, -1)
