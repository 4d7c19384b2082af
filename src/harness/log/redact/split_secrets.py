"""Secrets that are cut over the pieces of a streamed text.

Agents stream what a model writes as many small JSON lines. The string values under the
delta keys are pieces of one stream; a secret that spans several pieces is masked in each of
them. All work is done on the escaped bytes, and all places are offsets into what the
agent has written so far, so that nothing moves while lines wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from harness.log.redact.secret_finder import (
    TELLING_CUT,
    WINDOW_BYTES,
    PartialSecret,
    SecretFinder,
    SecretSpan,
    mark,
    united,
)
from harness.log.redact.secret_shapes import compiled

MEMORY_BYTES = 64
"""How much of the end of every stream is remembered: enough for any beginning that is not yet significant."""
TELLING_BEGINNING = 8
"""A beginning that shows so many characters is masked when it can wait no longer."""
CONTEXT_BYTES = 8
MOST_STREAMS = 64

_last_characters = itemgetter(slice(-TELLING_CUT, None))
_last_byte = itemgetter(slice(-1, None))
_RARE_LETTERS = b"qjzxkvw_ypgbmfhucld"


class Replacement(NamedTuple):
    """These bytes of what the agent wrote are replaced."""

    start: int
    end: int
    replacement: bytes


class _Segment(NamedTuple):
    """Where a part of a stream's text stands. `line` is the offset of the line that holds it."""

    start: int
    end: int
    line: int


class _PiecePatterns(NamedTuple):
    """Group 1 is what stands before the key, if there is enough of it; group 2 of `quick` is the piece.

    `quick` may run over the end of a broken line, and ends behind a backslash where it should not; `head`
    ends where a piece begins, for one look after the other.
    """

    quick: bytes
    head: bytes


_MOST_ESCAPES = 500
"""So many escapes of a string are matched at once: `re` remembers every repetition."""
_STRING_PART = rb"[^\"\\\n]*(?:\\[^\n][^\"\\\n]*){0,%d}" % _MOST_ESCAPES


class _Place(NamedTuple):
    """Where a piece stands in its block, and where the end of its key was found."""

    key: int
    start: int
    end: int


class _Stream:
    """The pieces under one key that follow each other: what is remembered of their end."""

    __slots__ = ("beginning", "masked_until", "memory", "segments")

    def __init__(self) -> None:
        self.memory = b""
        self.segments: list[_Segment] = []
        self.beginning: PartialSecret | None = None
        self.masked_until = 0
        """So much of the memory is settled: a secret that continues from there has its mark already."""

    @property
    def masked(self) -> bool:
        return 0 < self.masked_until == len(self.memory)

    def remember(self, text: bytes, segments: list[_Segment], beginning: PartialSecret | None) -> None:
        keep = max(0, len(text) - MEMORY_BYTES)
        if beginning:
            # A little more than the beginning itself: whether it begins a word must stay known.
            keep = max(0, min(keep, beginning.start - CONTEXT_BYTES), len(text) - WINDOW_BYTES)
            if beginning.start < keep:
                beginning = None
        self.masked_until = max(0, self.masked_until - keep)
        self.memory = text[keep:]
        self.segments = list(_parts(SecretSpan(keep, len(text), ""), segments))
        self.beginning = beginning and beginning.moved(-keep)


class SplitSecrets:
    """Follows all streams of one pipe. `waiting` is the offset of the first line that must wait."""

    def __init__(self, finder: SecretFinder, delta_keys: Sequence[str]) -> None:
        self._finder = finder
        self._patterns = {key: _piece_patterns(key) for key in delta_keys}
        self._streams: dict[tuple[str, bytes], _Stream] = {}
        self._kept_back: dict[_Stream, int] = {}

    @property
    def waiting(self) -> int | None:
        return min(self._kept_back.values(), default=None)

    def feed(self, keys: Sequence[str], block: bytes, offset: int, released: int) -> list[Replacement]:
        """Take whole lines that begin at `offset` and have these keys in them.

        What stands before `released` can no longer be changed.
        """
        edits: list[Replacement] = []
        for key in keys:
            pieces = _Pieces(self._patterns[key], block, offset)
            for context, numbers in pieces.by_context().items():
                edits += self._advance(self._stream(key, context), pieces, numbers, released)
        return edits

    def flush(self, released: int) -> list[Replacement]:
        """Nothing can wait any longer: mask what shows too much of a secret."""
        edits: list[Replacement] = []
        for stream in self._kept_back:
            beginning = stream.beginning
            if beginning and beginning.visible >= TELLING_BEGINNING:
                span = SecretSpan(beginning.secret, len(stream.memory), beginning.name)
                edits += _masked(span, stream.segments, released, marked=span.start < stream.masked_until)
                stream.masked_until = len(stream.memory)
        self._kept_back.clear()
        return edits

    def _stream(self, key: str, context: bytes) -> _Stream:
        stream = self._streams.pop((key, context), None) or _Stream()
        if len(self._streams) >= MOST_STREAMS:
            forgotten = self._streams.pop(next(iter(self._streams)))
            self._kept_back.pop(forgotten, None)
        # Put last, so that the first is the one that has been silent longest.
        self._streams[key, context] = stream
        return stream

    def _advance(
        self, stream: _Stream, pieces: _Pieces, numbers: Sequence[int], released: int
    ) -> list[Replacement]:
        length = len(stream.memory)
        if len(numbers) == len(pieces.texts):
            texts, text = pieces.texts, stream.memory + pieces.joined
        else:
            texts = [pieces.texts[number] for number in numbers]
            text = b"".join((stream.memory, *texts))
        beginning = self._finder.beginning(text)
        spans = [span for span in self._all_spans(texts, length, text) if span.end > stream.masked_until]
        if stream.masked and beginning and beginning.secret < length:
            # What continues a masked beginning is the same secret: it need not wait to be judged again.
            spans.append(SecretSpan(beginning.secret, len(text), beginning.name))
        edits: list[Replacement] = []
        segments = [_Segment(-len(text), 0, -1)]
        if spans or (beginning and beginning.significant):
            segments = [*stream.segments, *pieces.segments(numbers)]
            for span in united(spans):
                edits += _masked(span, segments, released, marked=span.start < stream.masked_until)
            stream.masked_until = max(stream.masked_until, *(span.end for span in spans), 0)
        stream.remember(text, segments, beginning)
        self._hold(stream, released)
        return edits

    def _all_spans(self, texts: Sequence[bytes], length: int, text: bytes) -> list[SecretSpan]:
        """Secrets, and known values that a piece shows but for their last part, as snapshots of a growing text do."""
        spans, has_heads, _keys = self._finder.scan(text)
        if not has_heads:
            return spans
        endings = self._finder.cut_endings
        if endings.keys().isdisjoint(map(_last_characters, texts)) and text[-TELLING_CUT:] not in endings:
            return spans
        place = length
        for piece in texts:
            place += len(piece)
            if piece[-TELLING_CUT:] in endings and (span := self._finder.cut_off(text[:place])):
                spans.append(span)
        if span := self._finder.cut_off(text):
            spans.append(span)
        return spans

    def _hold(self, stream: _Stream, released: int) -> None:
        self._kept_back.pop(stream, None)
        beginning = stream.beginning
        if not beginning or not beginning.significant or stream.masked:
            return
        span = SecretSpan(beginning.secret, len(stream.memory), beginning.name)
        for segment in _parts(span, stream.segments):
            if segment.line >= released:
                self._kept_back[stream] = segment.line
                return


class _Pieces:
    """The pieces under one key in a block of lines. Where they stand is looked up only when it is needed."""

    def __init__(self, patterns: _PiecePatterns, block: bytes, offset: int) -> None:
        self._block = block
        self._offset = offset
        self._contexts: Sequence[bytes] = ()
        self.texts: Sequence[bytes] = ()
        self._patterns = patterns
        self._exact: list[_Place] | None = None
        pieces: list[tuple[bytes, bytes]] = compiled(patterns.quick).findall(block)
        if pieces:
            self._contexts, self.texts = zip(*pieces, strict=True)
        self.joined = b"".join(self.texts)
        # A line that is no JSON has an open quote; and a backslash may escape the quote at which the piece ended.
        if b"\n" in self.joined or b"\\" in map(_last_byte, self.texts):
            self._find_exactly()

    def _find_exactly(self) -> None:
        pieces = list(_exact_pieces(self._patterns.head, self._block))
        self._contexts = [context for context, _ in pieces]
        self._exact = [place for _, place in pieces]
        self.texts = [self._block[place.start : place.end] for place in self._exact]
        self.joined = b"".join(self.texts)

    def _places(self) -> Iterator[_Place]:
        if self._exact is not None:
            yield from self._exact
            return
        for match in compiled(self._patterns.quick).finditer(self._block):
            yield _Place(match.start(), *match.span(2))

    def by_context(self) -> dict[bytes, Sequence[int]]:
        """Separate streams that share a key: the pieces of a message, and the whole message after them.

        The bytes right before the key distinguish them; numbers and ids in it change from line to line.
        """
        names = {context: _stable(context) for context in set(self._contexts)}
        if b"" in names:
            # Only the first piece can be too near to the block's beginning to have a whole context.
            first = next(self._places())
            names[b""] = _stable(self._block[: self._block.rfind(b'"', 0, first.key)])
        if len(names) == 1:
            return {name: range(len(self.texts)) for name in names.values()}
        groups: dict[bytes, list[int]] = {}
        for number, context in enumerate(self._contexts):
            groups.setdefault(names[context], []).append(number)
        return dict(groups)

    def segments(self, numbers: Sequence[int]) -> Iterator[_Segment]:
        places = list(self._places())
        for number in numbers:
            _key, start, end = places[number]
            line = self._block.rfind(b"\n", 0, start) + 1
            yield _Segment(self._offset + start, self._offset + end, self._offset + line)


@lru_cache(maxsize=64)
def _piece_patterns(key: str) -> _PiecePatterns:
    quoted = b'"%b"' % key.encode()
    # The search begins at the key's rarest letter: quotes are everywhere.
    ranks = [_RARE_LETTERS.find(letter) % 256 for letter in quoted]
    rarest = ranks.index(min(ranks))
    name = re.escape(quoted)
    head = rb"(?s)%b(?:(?<=(.{%d})%b)|(?<=%b))[ \t]*:[ \t]*\"" % (
        re.escape(quoted[rarest:]),
        CONTEXT_BYTES,
        name,
        name,
    )
    escaped = b"|".join(rb"(?<=[^\\]\\{%d})" % backslashes for backslashes in (1, 3, 5, 7))
    # Most strings end without a backslash: one lookbehind is enough.
    quick = rb"([^\"]*(?:(?<=\\)(?:%b)\"[^\"]*){0,%d})\"" % (escaped, _MOST_ESCAPES)
    return _PiecePatterns(head + quick, head)


def _exact_pieces(head: bytes, block: bytes) -> Iterator[tuple[bytes, _Place]]:
    """The strings of JSON behind a key, each with what stands before that key."""
    end = 0
    while match := compiled(head).search(block, end):
        start, end = match.end(), _string_end(block, match.end())
        if block[end : end + 1] == b'"':
            yield match[1] or b"", _Place(match.start(), start, end)


def _string_end(block: bytes, start: int) -> int:
    """Where the quote stands that ends a string, or the end of a line that has none."""
    place, end = -1, start
    while end > place and (part := compiled(_STRING_PART).match(block, end)):
        place, end = end, part.end()
    return end


def _stable(context: bytes) -> bytes:
    return context[-CONTEXT_BYTES:].rpartition(b"\n")[2].translate(None, b"0123456789abcdefABCDEF-")


def _parts(span: SecretSpan, segments: list[_Segment]) -> Iterator[_Segment]:
    """The segments' parts that `span` covers, where the segments together are the text it is in."""
    place = 0
    for segment in segments:
        length = segment.end - segment.start
        first, last = max(span.start - place, 0), min(span.end - place, length)
        if first < last:
            yield _Segment(segment.start + first, segment.start + last, segment.line)
        place += length


def _masked(span: SecretSpan, segments: list[_Segment], released: int, *, marked: bool) -> list[Replacement]:
    replacement = b"" if marked else mark(span.name)
    edits = []
    for part in _parts(span, segments):
        if part.line >= released:
            edits.append(Replacement(part.start, part.end, replacement))
            replacement = b""
    return edits
