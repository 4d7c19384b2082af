"""Find credentials in bytes: known values in all their spellings, key shapes, phrases."""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from harness.log.redact.obscured import MARKS, plain_text, resolved
from harness.log.redact.secret_shapes import (
    BOUNDARY,
    KEY_SHAPES,
    PHRASES,
    KeyShape,
    LiteralSearch,
    compiled,
)

# A known secret as it may be written: in JSON, in a URL, in base64.
#
# Most values have no character that is ever escaped, so that most of these spellings are one and the same.


_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_KEPT_BY_JAVASCRIPT = b"!'()*"
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)} | {
    ord(character): escape
    for character, escape in zip(
        '"\\\n\r\t\b\f', ('\\"', "\\\\", "\\n", "\\r", "\\t", "\\b", "\\f"), strict=True
    )
}
_ESCAPED_FOR_HTML = {ord(character): f"\\u{ord(character):04x}" for character in "&<>"}
_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")


def spellings(value: str) -> list[bytes]:
    """The value as it is, in JSON (also in JSON within JSON), in URLs, and in base64 wherever it stands there."""
    raw = _encoded(value)
    return [
        raw,
        *(_encoded(text) for text in _in_json(value)),
        *_in_url(raw),
        *_in_base64(raw),
    ]


def _in_json(value: str) -> Iterator[str]:
    escaped = value.translate(_JSON_ESCAPES)
    ascii_only = _ascii_escaped(escaped)
    yield escaped
    yield escaped.translate(_JSON_ESCAPES)
    yield ascii_only
    yield ascii_only.translate(_JSON_ESCAPES)
    yield escaped.translate(_ESCAPED_FOR_HTML)  # as Go writes it
    yield escaped.replace("/", "\\/")  # as PHP and Swift do


def _in_url(raw: bytes) -> Iterator[bytes]:
    yield re.sub(rb"%[0-9A-Fa-f]{2}", lambda match: bytes([int(match[0][1:], 16)]), raw)
    for unescaped in (b"", b"/", _KEPT_BY_JAVASCRIPT):
        yield _percent_encoded(raw, _UNRESERVED + unescaped)
    yield b"+".join(_percent_encoded(part, _UNRESERVED) for part in raw.split(b" "))
    yield _percent_encoded(raw, _UNRESERVED, b"%%%02x")


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """Alone, or behind any other text (`user:password`), which moves it by no, one or two bytes."""
    for moved in range(3):
        encoded = b2a_base64(bytes(moved) + raw, newline=False)
        if moved:
            # The first characters are partly, the last one perhaps, of what stands beside the value.
            encoded = encoded[moved + 1 : (moved + len(raw)) * 8 // 6]
        encoded = encoded.rstrip(b"=")
        yield encoded
        yield encoded.translate(_URL_ALPHABET)


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _percent_encoded(raw: bytes, unescaped: bytes, escape: bytes = b"%%%02X") -> bytes:
    if not raw.strip(unescaped):
        return raw
    return b"".join(bytes([byte]) if byte in unescaped else escape % byte for byte in raw)


def _ascii_escaped(text: str) -> str:
    if text.isascii():
        return text
    return "".join(
        character if character < "\x80" else f"\\u{unit:04x}"
        for character in text
        for unit in _utf16_units(character)
    )


def _utf16_units(character: str) -> list[int]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(encoded[index : index + 2], "big") for index in range(0, len(encoded), 2)]


SHORTEST_VALUE = 4
LONGEST_CUT_BYTES = 1024
"""No longer part of a known value is looked for at the end of a string that cuts it off."""
SIGNIFICANT_BEGINNING = 4
"""So many characters of a secret, at the end of a text, may be its beginning."""
TELLING_CUT = 12
"""So many characters of a known value, cut off by the end of a string, are a secret by themselves."""
WINDOW_BYTES = 8192
"""No secret that is still being written is longer."""


class SecretSpan(NamedTuple):
    start: int
    end: int
    name: str


class Findings(NamedTuple):
    """What one pass over a text has found."""

    spans: list[SecretSpan]
    """All secrets, in order; those that overlap are one."""
    has_heads: bool
    """Whether there is so much of a known value that it may be cut off somewhere."""
    keys: list[str]
    """Which of the keys are there."""


class PartialSecret(NamedTuple):
    """A text ends with what may be the beginning of a secret, from `start` on.

    `secret` is where the part begins that would be masked, and `visible` counts its
    characters beyond the publicly known prefix of such a secret.
    """

    start: int
    secret: int
    visible: int
    significant: bool
    name: str

    def moved(self, distance: int) -> PartialSecret:
        return self._replace(start=self.start + distance, secret=self.secret + distance)


class Form(NamedTuple):
    """One spelling of a known value. `public` is the length of its well-known prefix."""

    spelling: bytes
    public: int
    name: str

    @property
    def head(self) -> bytes:
        """What is looked for: no shorter part of the value is a secret by itself."""
        return self.spelling[: self.public + TELLING_CUT]


class _Prefix(NamedTuple):
    """A well-known beginning, and the expression that must match where it stands."""

    literal: bytes
    name: str
    whole: bytes


_SHAPE_PREFIXES = [
    _Prefix(prefix, shape.name, b"%b%b%b" % (BOUNDARY, re.escape(prefix), shape.body))
    for shape in KEY_SHAPES
    for prefix in shape.prefixes
]


class SecretFinder:
    """Where the secrets are in a text, and whether its end may be the beginning of one.

    `keys`: names of JSON strings that are looked for in the same pass.
    """

    def __init__(self, secrets: Mapping[str, str], keys: Sequence[str] = ()) -> None:
        self.forms: list[Form] = _forms(tuple(secrets.items()))
        literals = [form.head for form in self.forms]
        self._shapes_from = len(literals)
        literals += [prefix.literal for prefix in _SHAPE_PREFIXES]
        self._phrases_from = len(literals)
        literals += [phrase.needle for phrase in PHRASES]
        self._keys_from = len(literals)
        self._keys = tuple(keys)
        self._marks_from = self._keys_from + len(keys)
        once = [*(b'"%b"' % key.encode() for key in keys), *MARKS]
        self._search = LiteralSearch(literals, once=once)
        longest = max((len(form.spelling) for form in self.forms), default=0)
        self._longest_form = min(longest, WINDOW_BYTES)
        self._blanks = any(b" " in form.spelling for form in self.forms)

    # What only streamed text needs is made when the first of it comes.

    @cached_property
    def cut_endings(self) -> dict[bytes, list[tuple[Form, int]]]:
        """The last characters of a known value that is cut off → which one, and how much of it is there."""
        return _cut_endings(self.forms)

    @cached_property
    def _heads(self) -> dict[bytes, list[Form]]:
        heads: dict[bytes, list[Form]] = {}
        for form in self.forms:
            heads.setdefault(form.spelling[:SIGNIFICANT_BEGINNING], []).append(form)
        return heads

    @cached_property
    def _head_pattern(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(re.escape(head) for head in self._heads) or b"(?!)")

    def spans(self, text: bytes) -> list[SecretSpan]:
        """All secrets, in order; those that overlap are one."""
        return self.scan(text).spans

    def scan(self, text: bytes) -> Findings:
        findings, is_obscured = self._scan_written(text)
        if not is_obscured or not self._scan_written(resolved(text))[0].spans:
            return findings
        plain = plain_text(text)
        hidden, _ = self._scan_written(plain.text)
        hidden_spans = [SecretSpan(*plain.source(span.start, span.end), span.name) for span in hidden.spans]
        return findings._replace(spans=united([*findings.spans, *hidden_spans]))

    def _scan_written(self, text: bytes) -> tuple[Findings, bool]:
        """Secrets in one of their spellings, and whether there may be more of them in the plain text."""
        hits = self._search.hits(text)
        if not hits:
            return Findings([], has_heads=False, keys=[]), False
        # Values come first: of two spans of equal length the more specific name stays. Keys come last.
        hits.sort()
        is_obscured = hits[-1][0] >= self._marks_from
        while hits and hits[-1][0] >= self._marks_from:
            hits.pop()
        keys = []
        while hits and hits[-1][0] >= self._keys_from:
            keys.append(self._keys[hits.pop()[0] - self._keys_from])
        spans = [span for number, end in hits if (span := self._verified(text, number, end))]
        has_heads = bool(hits) and hits[0][0] < self._shapes_from
        return Findings(united(spans) if len(spans) > 1 else spans, has_heads, keys), is_obscured

    def _verified(self, text: bytes, number: int, end: int) -> SecretSpan | None:
        """What stands where a literal was found, if it is a secret."""
        if number >= self._phrases_from:
            phrase = PHRASES[number - self._phrases_from]
            start = text.rfind(phrase.opening, max(0, end - len(phrase.needle) - phrase.lead_bytes), end)
            if start >= 0 and (match := compiled(phrase.found).match(text, start)):
                return SecretSpan(match.start(1), match.end(1), phrase.name)
        elif number >= self._shapes_from:
            prefix = _SHAPE_PREFIXES[number - self._shapes_from]
            if match := compiled(prefix.whole).match(text, end - len(prefix.literal)):
                return SecretSpan(match.start(), match.end(), prefix.name)
        else:
            form = self.forms[number]
            start = end - len(form.head)
            if text.startswith(form.spelling, start):
                return SecretSpan(start, start + len(form.spelling), form.name)
        return None

    def cut_off(self, text: bytes) -> SecretSpan | None:
        """A known value that is there but for its last part, at the end of `text`."""
        for form, length in self.cut_endings.get(text[-TELLING_CUT:], ()):
            if text.endswith(form.spelling[:length]):
                return SecretSpan(len(text) - length, len(text), form.name)
        return None

    def beginning(self, text: bytes) -> PartialSecret | None:
        """The longest end of `text` that may be the beginning of a secret."""
        candidates = [*self._value_beginnings(text), *_shape_beginnings(text), *_phrase_beginnings(text)]
        return min(candidates, key=_most_telling, default=None)

    def _value_beginnings(self, text: bytes) -> Iterator[PartialSecret]:
        window = max(0, len(text) - self._longest_form + 1)
        if not self._blanks:
            window = max(window, text.rfind(b" ", window))
        for match in self._head_pattern.finditer(text, window):
            start = match.start()
            end = text[start:]
            for form in self._heads[match[0]]:
                if len(end) < len(form.spelling) and form.spelling.startswith(end):
                    yield PartialSecret(
                        start, start, len(end) - form.public, significant=True, name=form.name
                    )
                    return


def _most_telling(beginning: PartialSecret) -> tuple[int, bool, int]:
    return beginning.start, not beginning.significant, -beginning.visible


def united(spans: list[SecretSpan]) -> list[SecretSpan]:
    """Overlapping spans become one, under the name of the longest."""
    result: list[SecretSpan] = []
    longest = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not result or span.start >= result[-1].end:
            result.append(span)
            longest = span.end - span.start
            continue
        last = result[-1]
        name = last.name
        if span.end - span.start > longest:
            longest, name = span.end - span.start, span.name
        result[-1] = SecretSpan(last.start, max(last.end, span.end), name)
    return result


_PREFIX_LETTERS = (b"-", b"_", b"A", b"J")
"""Every prefix of a shape has one of them."""


def _shape_beginnings(text: bytes) -> Iterator[PartialSecret]:
    # No shape has a blank in it: what stands before the last one is of no interest.
    word = _last_word(text)
    if not any(text.find(letter, word) >= 0 for letter in _PREFIX_LETTERS):
        return
    for shape in KEY_SHAPES:
        for prefix in shape.prefixes:
            start = text.find(prefix, word)
            if start >= 0:
                yield from _growing(shape, prefix, text, start)


def _last_word(text: bytes) -> int:
    return max(text.rfind(b" "), len(text) - WINDOW_BYTES, 0)


def _growing(shape: KeyShape, prefix: bytes, text: bytes, start: int) -> Iterator[PartialSecret]:
    pattern = compiled(b"%b%b%b\\Z" % (BOUNDARY, re.escape(prefix), shape.growing))
    while start >= 0:
        if pattern.match(text, start):
            visible = len(text) - start - len(prefix)
            yield PartialSecret(start, start, visible, visible >= SIGNIFICANT_BEGINNING, shape.name)
            return
        start = text.find(prefix, start + 1)


def _phrase_beginnings(text: bytes) -> Iterator[PartialSecret]:
    word = _last_word(text)
    for phrase in PHRASES:
        start = text.rfind(phrase.opening, max(0, word - phrase.words_bytes))
        if start < 0:
            continue
        if match := compiled(phrase.growing).match(text, start):
            visible = len(match["visible"])
            secret = match.start(1)
            yield PartialSecret(start, secret, visible, visible >= SIGNIFICANT_BEGINNING, phrase.name)


def _cut_endings(forms: Iterable[Form]) -> dict[bytes, list[tuple[Form, int]]]:
    endings: dict[bytes, list[tuple[Form, int]]] = {}
    for form in forms:
        for length in range(form.public + TELLING_CUT, min(len(form.spelling), LONGEST_CUT_BYTES)):
            endings.setdefault(form.spelling[length - TELLING_CUT : length], []).append((form, length))
    return endings


@lru_cache(maxsize=2)
def _forms(secrets: tuple[tuple[str, str], ...]) -> list[Form]:
    names: dict[bytes, str] = {}
    for variable, value in secrets:
        name = mark_name(variable)
        for spelling in spellings(value):
            if len(spelling) >= SHORTEST_VALUE:
                names.setdefault(spelling, name)
    names_of_forms = {
        *names.values(),
        *(shape.name for shape in KEY_SHAPES),
        *(phrase.name for phrase in PHRASES),
    }
    marks = b" ".join(mark(name) for name in names_of_forms)
    forms = (
        # A value that stands in a mark is public, and masking it would never end.
        Form(spelling, _public_length(spelling), name)
        for spelling, name in names.items()
        if spelling not in marks
    )
    return sorted(forms, key=lambda form: -len(form.spelling))


_PREFIXES = tuple(prefix for shape in KEY_SHAPES for prefix in shape.prefixes)


def _public_length(spelling: bytes) -> int:
    if not spelling.startswith(_PREFIXES):
        return 0
    return max(len(prefix) for prefix in _PREFIXES if spelling.startswith(prefix))


def mark_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def mark(name: str) -> bytes:
    return b"[REDACTED:%b]" % name.encode("ascii")
