"""Credentials are masked before a byte reaches disk or any reader.

A `Redactor` is a filter of bytes, one per pipe of an agent, fed with whole lines. What it
masks is replaced by a mark that says which secret stood there; all else stays byte for
byte, and a clean block is passed on as the very same object. Opaque provider fields
(signatures, encrypted content, images) are never touched: a changed byte would break them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from harness.log.redact.secret_finder import WINDOW_BYTES, SecretFinder, SecretSpan, mark
from harness.log.redact.secret_shapes import KEY_CONTINUED, KEY_FINISHED, PRIVATE_KEY, compiled
from harness.log.redact.self_check import check_masking
from harness.log.redact.split_secrets import Replacement, SplitSecrets


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TELLING_PARTS = _words("TOKEN SECRET PASSWORD PASSWD PASSPHRASE CREDENTIAL APIKEY ACCESSKEY PRIVATEKEY")
_TELLING_WORDS = _words("PAT")
_HINTING_WORDS = _words("KEY KEYS AUTH AUTHORIZATION DSN PASS PWD JWT BEARER")
_SETTING_PARTS = _words("PUBLIC FINGERPRINT")
_SETTING_LAST_WORDS = _words(
    "SOCK SOCKET FILE PATH DIR NAME TYPE MODE METHOD STORE BACKEND PROVIDER HELPER HOST PORT ENABLED DISABLED"
    " LIMIT COUNT TTL EXPIRY ALGORITHM VERSION FORMAT USER USERNAME REGION ID"
)
URL = r"[A-Za-z][A-Za-z0-9+.-]*://"
_URL_SECRET = URL + r"(?:[^:/@\s]*:([^/\s]+)|([^:/@\s]{16,}))@"
PATH = r"(?:~|\.{1,2})?/(?!/)|[A-Za-z]:\\"
_RANDOM_WITH_SLASHES = r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9/+]{40}"
_HASH_OR_UUID = r"[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*"
NUMBER = r"[0-9.,:+_-]+"
PLACEHOLDER = r"<[\w .-]+>|\$\{?\w+\}?|\{\{? ?[\w.]+ ?\}?\}"
_WORD = r"(?:[a-z]+|[A-Z]+|[A-Z][a-z]+)"
WORDS = rf"{_WORD}(?:[-_. /]{_WORD})*"
SHORTEST_CREDENTIAL = 8
LONGEST_CREDENTIAL = 65_536
LONGEST_PLAIN_WORD = 15

OPAQUE_KEYS = ("signature", "encrypted_content", "thoughtSignature", "thought_signature")

_OPAQUE_STRING = rb'"(%b|data)"[ \t]*:[ \t]*\Z' % "|".join(OPAQUE_KEYS).encode()
_BINARY_NEIGHBOUR = rb'"(?:redacted_thinking|base64|image|document|audio|media_type|mime_?[tT]ype)"'
_DATA_URL = rb"data:[\w.+/;=-]{0,100}\Z"
_BASE64_RUN = rb"[A-Za-z0-9+/=_-]*"
_NEIGHBOURHOOD_BYTES = 512


def secrets_in(environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables that look like credentials, by variable; of a URL only its password."""
    secrets: dict[str, str] = {}
    for name, value in environ.items():
        text = value.strip()
        in_url = compiled(_URL_SECRET).match(text) if "://" in text else None
        if in_url:
            text = in_url[1] or in_url[2]
        if _is_credential(name.upper(), text, in_url=in_url is not None):
            secrets[name] = text
    return secrets


def _is_credential(name: str, value: str, *, in_url: bool) -> bool:
    telling = in_url or _is_telling(name)
    if not in_url and (_is_setting(name) or not (telling or _is_hinting(name))):
        return False
    if not SHORTEST_CREDENTIAL <= len(value) <= LONGEST_CREDENTIAL:
        return False
    if compiled(NUMBER).fullmatch(value) or compiled(PLACEHOLDER).fullmatch(value):
        return False
    if compiled(URL).match(value):
        return False
    if compiled(PATH).match(value) and not (telling and compiled(_RANDOM_WITH_SLASHES).fullmatch(value)):
        return False
    if compiled(_HASH_OR_UUID).fullmatch(value):
        return telling
    return not compiled(WORDS).fullmatch(value) or (telling and len(value) > LONGEST_PLAIN_WORD)


def _is_telling(name: str) -> bool:
    joined = name.replace("_KEY", "KEY")
    return any(part in joined for part in _TELLING_PARTS) or not _TELLING_WORDS.isdisjoint(name.split("_"))


def _is_hinting(name: str) -> bool:
    return "COOKIE" in name or not _HINTING_WORDS.isdisjoint(name.split("_"))


def _is_setting(name: str) -> bool:
    _, underscore, last = name.rpartition("_")
    return any(part in name for part in _SETTING_PARTS) or (underscore != "" and last in _SETTING_LAST_WORDS)


class Redactor:
    """Masks what one pipe writes.

    `secrets` are known values by name, `delta_keys` the JSON keys whose string values are
    pieces of a streamed text. A line whose piece may end with the beginning of a secret is
    held back, and all lines behind it; while `held` is true the caller owes a `flush()`,
    at the latest 200 ms later and at the end of the stream.
    """

    def __init__(self, secrets: Mapping[str, str] | None = None, delta_keys: Sequence[str] = ()) -> None:
        keys = tuple(key for key in dict.fromkeys(delta_keys) if key not in OPAQUE_KEYS)
        self._finder = _finder(tuple((secrets or {}).items()), keys)
        if keys:
            check_masking(keys[0])
        self._split = SplitSecrets(self._finder, keys) if keys else None
        self._key_lines = _PrivateKeyLines()
        self._offset = 0
        self._pending = b""
        self._edits: list[Replacement] = []

    @property
    def held(self) -> bool:
        return bool(self._pending)

    def feed(self, block: bytes) -> bytes:
        """Take a block of whole lines; return what may be shown now."""
        if not block:
            return b""
        offset = self._offset
        self._offset += len(block)
        findings = self._finder.scan(block)
        edits = self._line_edits(block, offset, findings.spans)
        waiting = None
        if self._split:
            edits += self._split.feed(findings.keys, block, offset, offset - len(self._pending))
            waiting = self._split.waiting
        if not edits and waiting is None and not self._pending:
            return block
        self._edits += edits
        return self._release(self._pending + block if self._pending else block, waiting)

    def flush(self) -> bytes:
        """Release what is held; a tail that shows too much of a secret goes out masked."""
        if self._split:
            self._edits += self._split.flush(self._offset - len(self._pending))
        return self._release(self._pending, None)

    def _line_edits(self, block: bytes, offset: int, spans: list[SecretSpan]) -> list[Replacement]:
        if spans:
            opaque = _OpaqueStrings(block)
            spans = [span for span in spans if not opaque.covers(span)]
        edits = [edit for span in spans for edit in _edits_by_line(block, span, offset, marked=False)]
        rest, marked = self._key_lines.feed(block, spans)
        if rest:
            edits += _edits_by_line(block, rest, offset, marked=marked)
        return edits

    def _release(self, buffer: bytes, waiting: int | None) -> bytes:
        start = self._offset - len(buffer)
        end = self._offset if waiting is None else waiting
        ready = [edit for edit in self._edits if edit.start < end]
        self._edits = [edit for edit in self._edits if edit.start >= end]
        self._pending = buffer[end - start :]
        return _edited(buffer[: end - start], ready, start)


def redact_text(text: str, secrets: Mapping[str, str]) -> str:
    """The same for a text of our own: a prompt or an argument that goes into the record."""
    raw = text.encode("utf-8", "surrogatepass")
    edits = [
        Replacement(span.start, span.end, mark(span.name))
        for span in _finder(tuple(secrets.items())).spans(raw)
    ]
    return _edited(raw, edits, 0).decode("utf-8", "surrogatepass") if edits else text


@lru_cache(maxsize=4)
def _finder(secrets: tuple[tuple[str, str], ...], keys: tuple[str, ...] = ()) -> SecretFinder:
    return SecretFinder(dict(secrets), keys)


class _PrivateKeyLines:
    """A private key may come line by line, so its beginning and its rest come in different blocks."""

    def __init__(self) -> None:
        self._open = False
        self._marked = False

    def feed(self, block: bytes, spans: list[SecretSpan]) -> tuple[SecretSpan | None, bool]:
        """What belongs to a key that began earlier, and whether that key has its mark already."""
        rest = self._rest(block) if self._open else None
        marked = self._marked
        self._marked = marked or rest is not None
        tail = max(0, len(block) - WINDOW_BYTES)
        if block.find(PRIVATE_KEY.needle, tail) >= 0:
            start = block.rfind(PRIVATE_KEY.opening, tail)
            self._open = start >= 0 and compiled(PRIVATE_KEY.growing).match(block, start) is not None
            self._marked = bool(spans) and spans[-1].start <= start < spans[-1].end
        return rest, marked

    def _rest(self, block: bytes) -> SecretSpan | None:
        place, length = -1, 0
        while length > place and (lines := compiled(KEY_CONTINUED).match(block, length)):
            place, length = length, lines.end()
        rest = compiled(KEY_FINISHED).match(block, length)
        length = rest.end() if rest else length
        has_ended = rest is not None and (rest["last"] is not None or rest["end"] is not None)
        self._open = 0 < length == len(block) and not has_ended
        return SecretSpan(0, length, PRIVATE_KEY.name) if length else None


class _OpaqueStrings:
    """Whether a span stands in a JSON string that must stay as it is. Ask in the order of the spans."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._string_end = 0
        self._opaque = False
        self._data_url_end = 0
        self._searched = 0

    def covers(self, span: SecretSpan) -> bool:
        if span.start >= self._string_end:
            self._look_at(span)
        return self._opaque or self._in_data_url(span)

    def _look_at(self, span: SecretSpan) -> None:
        line = self._block.rfind(b"\n", 0, span.start) + 1
        opening = _unescaped_quote_before(self._block, line, span.start)
        closing = _unescaped_quote_after(self._block, span.end)
        self._string_end = closing
        key = (
            compiled(_OPAQUE_STRING).search(self._block, max(line, opening - 64), opening)
            if opening >= 0
            else None
        )
        self._opaque = key is not None and (key[1] != b"data" or self._binary(line, opening, closing))

    def _binary(self, line: int, opening: int, closing: int) -> bool:
        """`data` is a common name: the rest of its object shows whether these are bytes."""
        before = self._block[max(line, opening - _NEIGHBOURHOOD_BYTES) : opening].rpartition(b"{")[2]
        after = self._block[closing : closing + _NEIGHBOURHOOD_BYTES].partition(b"}")[0]
        return compiled(_BINARY_NEIGHBOUR).search(before + after) is not None

    def _in_data_url(self, span: SecretSpan) -> bool:
        while (position := self._block.find(b";base64,", self._searched, span.start)) >= 0:
            self._searched = position + 8
            if compiled(_DATA_URL).search(self._block, max(0, position - 105), position):
                run = compiled(_BASE64_RUN).match(self._block, position + 8)
                self._searched = self._data_url_end = run.end() if run else position + 8
        return span.start < self._data_url_end


def _unescaped_quote_before(text: bytes, start: int, end: int) -> int:
    quote = text.rfind(b'"', start, end)
    while quote >= 0 and _escaped(text, quote):
        quote = text.rfind(b'"', start, quote)
    return quote


def _unescaped_quote_after(text: bytes, start: int) -> int:
    """The string's end, or the line's if nothing closes it there."""
    line_end = text.find(b"\n", start) % (len(text) + 1)
    quote = text.find(b'"', start, line_end)
    while quote >= 0 and _escaped(text, quote):
        quote = text.find(b'"', quote + 1, line_end)
    return quote if quote >= 0 else line_end


def _escaped(text: bytes, place: int) -> bool:
    first = place
    while first > 0 and text[first - 1] == 0x5C:
        first -= 1
    return (place - first) % 2 == 1


def _edits_by_line(block: bytes, span: SecretSpan, offset: int, *, marked: bool) -> Iterator[Replacement]:
    """One edit, or one per line for a secret of several lines: line breaks stay."""
    replacement = b"" if marked else mark(span.name)
    start = span.start
    while start < span.end:
        newline = block.find(b"\n", start, span.end)
        end = newline if newline >= 0 else span.end
        if end > start:
            yield Replacement(offset + start, offset + end, replacement)
            replacement = b""
        start = end + 1


def _edited(text: bytes, edits: Iterable[Replacement], offset: int) -> bytes:
    """Apply edits; where they overlap they count as one, with the first mark among them."""
    parts: list[bytes] = []
    place = 0
    for edit in _merged(edits):
        parts += (text[place : edit.start - offset], edit.replacement)
        place = edit.end - offset
    return b"".join((*parts, text[place:])) if parts else text


def _merged(edits: Iterable[Replacement]) -> list[Replacement]:
    result: list[Replacement] = []
    for edit in sorted(edits):
        if result and edit.start < result[-1].end:
            last = result[-1]
            result[-1] = Replacement(
                last.start, max(last.end, edit.end), last.replacement or edit.replacement
            )
        else:
            result.append(edit)
    return result
