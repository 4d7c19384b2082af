"""Searches the catalogue: for words, for files that were read or written, for commands and commits.

The catalogue knows in which documents a word is, not the texts: a passage is read from the agent's store, when it is
shown. A session that its agent has deleted is found too, without a passage.
"""

# Only names of our own are put into a statement; what comes from outside is a parameter.
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from harness.contracts.history import AgentHistory, StoredSession, StoredText
from harness.contracts.reading import masked
from harness.events import Message
from harness.histories.catalogue_filter import SessionFilter
from harness.histories.catalogue_rows import CATALOGUED_COLUMNS, IN_ORDER, CataloguedSession, catalogued
from harness.histories.catalogue_writer import SEPARATOR

_WORD = re.compile(r"[^\W_]+")
_MOST_TERMS = 200
"""Words of the catalogue that a part of a word is looked up in."""
_AT_ONCE = 40
_BEFORE = 60
_PASSAGE = 240


class SessionSearch(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for. Every field that is given must match."""

    parts: tuple[str, ...] = ()
    """Words or exact parts of texts, in one case. A word is found by its beginning."""
    file: str = ""
    """A path, or the end of one: read, written, or named in a command."""
    command: str = ""
    """A part of a command."""
    commit: str = ""
    """The beginning of a hash that `git commit` has reported."""


class FoundPassage(NamedTuple):
    at_ms: int
    text: str
    """Without secrets, in one line."""
    how: str = ""
    """For files, commands and commits: what the session has done."""


class FoundSession(NamedTuple):
    session: CataloguedSession
    passage: FoundPassage


class _Place(NamedTuple):
    file: str
    start: int
    end: int
    at_ms: int
    commands: str
    files: str
    commits: str


def parts_of(text: str) -> tuple[str, ...]:
    """The words of a query; a text in double quotes is one part."""
    pieces = re.findall(r'"([^"]+)"|(\S+)', text)
    return tuple((quoted or word).casefold() for quoted, word in pieces)


class CatalogueSearch:
    def __init__(
        self,
        ask: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]],
        histories: dict[str, AgentHistory],
    ) -> None:
        """`ask`: gives the rows of a statement with these values."""
        self._ask = ask
        self._histories = histories

    def find(self, wish: SessionSearch, choice: SessionFilter) -> Iterator[FoundSession]:
        """The last changed first. Each is looked at when it is asked for."""
        matches = [self._match(part) for part in wish.parts]
        behind = choice
        while candidates := self._candidates(wish, matches, behind):
            for session in candidates:
                passage = self._passage(session, wish, matches)
                if passage is not None:
                    yield FoundSession(session, passage)
            last = candidates[-1]
            behind = msgspec.structs.replace(choice, behind=(last.changed_ms, last.number))

    def _match(self, part: str) -> str:
        """The query for the table of words; empty where the part has no word."""
        words = _WORD.findall(part)
        if not words:
            return ""
        words_in_order = " AND ".join([*(f'"{word}"' for word in words[:-1]), f'"{words[-1]}" *'])
        if len(words) > 1 or self._ask(f"{_IN_WORDS} LIMIT 1", (words_in_order,)):
            return words_in_order
        terms = self._ask("SELECT term FROM vocabulary WHERE instr(term, ?) LIMIT ?", (words[0], _MOST_TERMS))
        inside = [f'"{term}"' for (term,) in terms]
        return " OR ".join(inside) or words_in_order

    def _candidates(
        self, wish: SessionSearch, matches: Sequence[str], choice: SessionFilter
    ) -> list[CataloguedSession]:
        condition, values = choice.condition()
        for part, match in zip(wish.parts, matches, strict=True):
            condition += (
                f" AND ({_OF_DOCUMENTS.format(f'number IN ({_IN_WORDS})')} OR instr(lower(title), ?))"
            )
            values += [match or '""', part]
        parts: list[tuple[str, list[Any]]] = []
        if wish.file:
            parts.append(("instr(files, ?) OR instr(commands, ?)", [wish.file, wish.file]))
        if wish.command:
            parts.append(("instr(commands, ?)", [wish.command]))
        if wish.commit:
            parts.append(("instr(commits, ?)", [wish.commit[:_SHORTEST_COMMIT]]))
        for part, its_values in parts:
            condition += f" AND {_OF_DOCUMENTS.format(part)}"
            values += its_values
        rows = self._ask(
            f"SELECT {CATALOGUED_COLUMNS} FROM sessions WHERE {condition}{IN_ORDER} LIMIT ?",  # noqa: S608
            (*values, _AT_ONCE),
        )
        return [catalogued(row) for row in rows]

    def _passage(
        self, session: CataloguedSession, wish: SessionSearch, matches: Sequence[str]
    ) -> FoundPassage | None:
        """None where the session does not match after all."""
        deed = self._done(session, wish)
        if deed is None or not wish.parts:
            return deed
        passage = self._text_passage(session, wish.parts, matches)
        return None if passage is None else passage._replace(how=deed.how)

    def _done(self, session: CataloguedSession, wish: SessionSearch) -> FoundPassage | None:
        """What it did with the file, the command and the commit; None if it did not."""
        passage = FoundPassage(session.started_ms or session.changed_ms, "")
        if not (wish.file or wish.command or wish.commit):
            return passage
        rows = self._ask(f"{_PLACES} WHERE session = ? ORDER BY number", (session.number,))
        places = [_Place(*row) for row in rows]
        for look, text in ((_touched, wish.file), (_ran, wish.command), (_committed, wish.commit)):
            if text:
                deed = next((deed for place in places if (deed := look(place, text))), None)
                if deed is None:
                    return None
                passage = deed
        return passage

    def _text_passage(
        self, session: CataloguedSession, parts: Sequence[str], matches: Sequence[str]
    ) -> FoundPassage | None:
        whole = " OR ".join(f"({match})" for match in matches if match)
        where = f" WHERE session = ? AND number IN ({_IN_OWN_WORDS})" if whole else " WHERE session = ?"
        values = (whole, session.number, session.number) if whole else ()
        rows = self._ask(f"{_PLACES}{where} ORDER BY number", (session.number, *values))
        history = self._histories.get(session.agent)
        title = session.title.casefold()
        missing, best, most = {part for part in parts if part not in title}, None, 0
        for place in map(_Place._make, rows):
            for passage in texts_of(history, session.stored, place.file, place.start, place.end, parts):
                text = passage.text.casefold()
                own = [part for part in parts if part in text]
                missing.difference_update(own)
                if len(own) > most:
                    at_ms, most = passage.at_ms or place.at_ms, len(own)
                    best = FoundPassage(at_ms, shortened(passage.text, own[0]))
                if most == len(parts):
                    return best
            if not missing:
                break
        if any(map(_is_exact, missing)) and not session.gone_ms:
            return None
        return best or FoundPassage(session.started_ms or session.changed_ms, "")


_SHORTEST_COMMIT = 7
_OF_DOCUMENTS = "sessions.number IN (SELECT session FROM documents WHERE {})"
_IN_WORDS = "SELECT rowid FROM words WHERE words MATCH ?"
_IN_OWN_WORDS = (
    f"{_IN_WORDS} AND rowid BETWEEN (SELECT min(number) FROM documents WHERE session = ?)"  # noqa: S608
    " AND (SELECT max(number) FROM documents WHERE session = ?)"
)
"""Without the bounds, all documents with these words would be looked at for each session."""
_PLACES = "SELECT file, start, end, at_ms, commands, files, commits FROM documents"


def texts_of(
    history: AgentHistory | None,
    session: StoredSession,
    file: str,
    start: int,
    end: int,
    parts: Iterable[str],
) -> Iterator[StoredText]:
    """The texts of a part of a session; at least those in which one of the parts occurs."""
    if history is None:
        return
    if end and history.scanner is not None:
        needles = [part.encode() for part in parts]
        is_plain = all(needle.isascii() and b'"' not in needle and b"\\" not in needle for needle in needles)
        yield from history.scanner().texts(session, file, start, end, needles if is_plain else [])
        return
    from harness.histories.stored_log import StoredLog

    for event in StoredLog(history, session).events():
        if isinstance(event, Message):
            yield StoredText(event.timestamp_ms, event.role, event.text)


def shortened(text: str, part: str) -> str:
    """The surroundings of a part, in one line and without secrets."""
    safe = " ".join(masked(text).split())
    place = max(0, safe.casefold().find(part))
    start = max(0, place - _BEFORE)
    passage = safe[start : start + _PASSAGE]
    return f"{'…' if start else ''}{passage}{'…' if start + _PASSAGE < len(safe) else ''}"


def _is_exact(part: str) -> bool:
    """Whether more than its words must be there: with accents and cases the words alone are enough."""
    return _WORD.fullmatch(part) is None


def _touched(place: _Place, path: str) -> FoundPassage | None:
    files = [file for file in place.files.split(SEPARATOR) if file.endswith(path) or path in file]
    for file in sorted(files, key=lambda file: not file.startswith("w ")):
        return FoundPassage(place.at_ms, file[2:], "wrote" if file.startswith("w ") else "read")
    deed = _ran(place, path)
    return None if deed is None else deed._replace(how="named in a command")


def _ran(place: _Place, text: str) -> FoundPassage | None:
    commands = (command for command in place.commands.split(SEPARATOR) if text in command)
    return next(
        (FoundPassage(place.at_ms, shortened(command, text.casefold()), "ran") for command in commands), None
    )


def _committed(place: _Place, commit: str) -> FoundPassage | None:
    for hash_of_commit in place.commits.split(SEPARATOR):
        if hash_of_commit and (hash_of_commit.startswith(commit) or commit.startswith(hash_of_commit)):
            return FoundPassage(place.at_ms, hash_of_commit, "committed")
    return None
