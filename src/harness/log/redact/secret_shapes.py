"""What credentials look like: the table of well-known key shapes, and the few that are more than a token.

Every shape is a literal beginning and a bounded body. There is no rule on entropy or on
"forty hex digits": commit hashes, UUIDs, digests and tool ids are not credentials.

No expression has a possessive quantifier: before Python 3.11.5 `re` finds too little with them, or
breaks. Repetitions are written so that there is one way to match: what follows a run cannot be in it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

compiled = cache(re.compile)
"""Patterns are stored as text and compiled on first use: most runs never need most of them."""

ALPHANUMERIC = rb"[A-Za-z0-9]"
TOKEN = rb"[A-Za-z0-9_-]"

BOUNDARY = rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=[0-9;\[]m))"
"""A key begins a word; a JSON escape or a colour code before it is no part of that word."""


class KeyShape(NamedTuple):
    """A token with a public beginning. `growing` is what may follow it while it is still being written."""

    name: str
    prefixes: tuple[bytes, ...]
    body: bytes
    growing: bytes


def _token(name: str, prefixes: bytes, alphabet: bytes, shortest: int, longest: int = 512) -> KeyShape:
    body = b"%b{%d,%d}" % (alphabet, shortest, longest)
    return KeyShape(name, tuple(prefixes.split()), body, b"%b{0,%d}" % (alphabet, longest))


def _fixed(name: str, prefixes: bytes, alphabet: bytes, length: int) -> KeyShape:
    body = b"%b{%d}(?!%b)" % (alphabet, length, ALPHANUMERIC)
    return KeyShape(name, tuple(prefixes.split()), body, b"%b{0,%d}" % (alphabet, length - 1))


_SEGMENT = rb"[A-Za-z0-9_-]{8,8192}"
_GROWING_SEGMENT = rb"[A-Za-z0-9_-]{0,8192}"

KEY_SHAPES: tuple[KeyShape, ...] = (
    _token("gateway-token", b"hgw-", TOKEN, 16),
    _token("anthropic-key", b"sk-ant-", TOKEN, 16),
    _token("openrouter-key", b"sk-or-", TOKEN, 20),
    _token("openai-key", b"sk-proj- sk-svcacct- sk-admin- sk-None-", TOKEN, 20),
    _token("langfuse-key", b"sk-lf-", TOKEN, 32),
    # Without a second word only letters and digits count: "sk-" also begins class names of style sheets.
    KeyShape("openai-key", (b"sk-",), rb"[A-Za-z0-9]{20,512}[A-Za-z0-9_-]{0,512}", rb"[A-Za-z0-9]{0,512}"),
    _token("github-token", b"ghp_ gho_ ghu_ ghs_ ghr_", ALPHANUMERIC, 20),
    _token("github-token", b"github_pat_", rb"[A-Za-z0-9_]", 22),
    _token("gitlab-token", b"glpat- gldt- glrt- glptt- glsoat-", TOKEN, 16),
    _token("slack-token", b"xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", TOKEN, 16),
    _fixed("aws-key-id", b"AKIA ASIA", rb"[A-Z0-9]", 16),
    _token("google-key", b"AIza", TOKEN, 35, 64),
    _token("google-secret", b"GOCSPX-", TOKEN, 20),
    _token("npm-token", b"npm_", ALPHANUMERIC, 30),
    _token("pypi-token", b"pypi-", TOKEN, 40),
    _token("stripe-key", b"sk_live_ sk_test_ rk_live_ rk_test_", ALPHANUMERIC, 16),
    _token("huggingface-token", b"hf_", ALPHANUMERIC, 30),
    _token("xai-key", b"xai-", ALPHANUMERIC, 32),
    _token("groq-key", b"gsk_", ALPHANUMERIC, 32),
    _token("cerebras-key", b"csk-", ALPHANUMERIC, 32),
    _token("together-key", b"tgp_v1_", TOKEN, 32),
    _token("perplexity-key", b"pplx-", ALPHANUMERIC, 32),
    _token("nvidia-key", b"nvapi-", TOKEN, 40),
    _token("replicate-token", b"r8_", ALPHANUMERIC, 32),
    _token("digitalocean-token", b"dop_v1_", ALPHANUMERIC, 40),
    _token("linear-key", b"lin_api_", ALPHANUMERIC, 32),
    _token("docker-token", b"dckr_pat_", TOKEN, 20),
    KeyShape(
        "jwt",
        (b"eyJ",),
        rb"[A-Za-z0-9_-]{16,8192}\.eyJ%b\.%b" % (_SEGMENT, _SEGMENT),
        rb"%b(?:\.(?:ey?|eyJ%b(?:\.%b)?)?)?" % (_GROWING_SEGMENT, _GROWING_SEGMENT, _GROWING_SEGMENT),
    ),
)


class Phrase(NamedTuple):
    """A credential that is known by the words around it. Group 1 is the part to mask.

    Every match begins with `opening` and has `needle` in it, the rarer of the two, at most
    `lead_bytes` behind; the pattern runs only where they are. `growing` finds one that is still
    being written, from its opening to the end of the text; its group `visible` is what there is
    beyond the well-known words.
    """

    name: str
    needle: bytes
    opening: bytes
    lead_bytes: int
    found: bytes
    growing: bytes
    words_bytes: int
    """How far the opening may stand before the last blank."""


_BASE64 = rb"[A-Za-z0-9+/=]"
_BREAK = rb"(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)"
# A key that was read with a file tool carries that tool's line numbers.
_GUTTER = rb"[ \t]{0,16}(?:[0-9]{1,6}(?:\t|\\{1,8}t|\xe2\x86\x92|\\{1,8}u2192|[:|])[ \t]{0,5})?"
_HEADER = rb"(?:Proc-Type|DEK-Info|Version|Comment|Hash): [^\r\n\\\"]{0,500}(?![^\r\n\\\"])"
_KEY_BEGIN = rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_LINE = rb"%b%b(?:%b|%b{0,200}(?=[\r\n\\\"']|-----|\Z))" % (_BREAK, _GUTTER, _HEADER, _BASE64)
_KEY_LINES = rb"(?:%b{16,20000})?(?:%b){0,1000}" % (_BASE64, _KEY_LINE)
_ENOUGH_OF_A_KEY = rb"(?=(?:%b%b(?:%b)?){0,6}%b{16})" % (_BREAK, _GUTTER, _HEADER, _BASE64)

PRIVATE_KEY = Phrase(
    "private-key",
    b"PRIVATE KEY",
    b"-----BEGIN",
    64,
    rb"(%b%b%b(?:%b?%b%b)?)" % (_KEY_BEGIN, _ENOUGH_OF_A_KEY, _KEY_LINES, _BREAK, _GUTTER, _KEY_END),
    rb"(%b(?P<visible>%b(?:%b%b)?(?!%b)-{0,5}(?:EN?|END[A-Z0-9 -]{0,60})?))\Z"
    % (_KEY_BEGIN, _KEY_LINES, _BREAK, _GUTTER, _KEY_END),
    8192,
)
KEY_CONTINUED = rb"(?:%b(?:%b{40,200}|%b)?\r?\n){0,500}" % (_GUTTER, _BASE64, _HEADER)
"""Further lines of a private key whose beginning came earlier, not all at once: `re` remembers every repetition."""
KEY_FINISHED = rb"(?P<last>%b%b{1,200}\r?(?:\n|\Z))?(?P<end>%b%b)?" % (_GUTTER, _BASE64, _GUTTER, _KEY_END)
"""What comes after the last of them."""

_QUOTES = rb"[\\\"' ]{0,6}"
_NAMED = rb"uthorization%b[:=,]%b(?:value%b[:=]%b)?" % (_QUOTES, _QUOTES, _QUOTES, _QUOTES)
_SCHEME = _NAMED + rb"(?:[Bb]earer|BEARER|[Bb]asic|[Tt]oken)[ +]{1,3}"
_CREDENTIALS = rb"[A-Za-z0-9._~+/=-]"
_USER = rb"://[^\s/?#:@\"'<>\\\[\]{}]{0,128}:"
_PASSWORD = rb"[^\s/?#@\"'<>\\]"
# Placeholders such as ${PASSWORD}, {password}, %s, the word itself or an earlier mark are no passwords.
_NO_PLACEHOLDER = rb"(?![${*]|%[s(]|\[REDACTED:|(?i:pass(?:word|wd)?)@)"

PHRASES: tuple[Phrase, ...] = (
    PRIVATE_KEY,
    Phrase(
        "authorization",
        b"uthorization",
        b"uthorization",
        0,
        # Prose is lower case throughout ("authorization: bearer authentication"); a credential is not.
        rb"%b(?=%b{0,64}[A-Z0-9=_])(%b{16,8192})" % (_SCHEME, _CREDENTIALS, _CREDENTIALS),
        rb"%b(?P<visible>%b{0,8192})\Z" % (_SCHEME, _CREDENTIALS),
        64,
    ),
    Phrase(
        "url-password",
        b"://",
        b"://",
        0,
        rb"%b%b(%b{3,256})@(?!sha256:)" % (_USER, _NO_PLACEHOLDER, _PASSWORD),
        # Only digits after the colon are a port.
        rb"%b%b(?![0-9]+\Z)(?P<visible>%b{0,256})\Z" % (_USER, _NO_PLACEHOLDER, _PASSWORD),
        0,
    ),
)


# Where any of many literals stands in a text: one pass over the bytes, done by Hyperscan.
#
# The library is loaded, and its database built, when enough has been looked through: searching what a short run
# writes for one literal after the other costs less than the import.


_Hit: TypeAlias = tuple[int, int]
"""The literal's number, and where it ends."""
_FIRST_BYTES = 32 * 1024
"""So much is looked through literal by literal, by all searches of the process together."""


class LiteralSearch:
    """Contract: `hits` may be called from any number of threads at once.

    once: further literals, numbered after the others, of which one occurrence is enough, any of them.
    """

    seen_bytes = 0
    """How much was looked through literal by literal so far."""

    def __init__(self, literals: Sequence[bytes], once: Sequence[bytes] = ()) -> None:
        self._literals = (*literals, *once)
        self._once_from = len(literals)
        self._building = threading.Lock()
        self._database: Any = None
        self._scratch = threading.local()

    def hits(self, text: bytes) -> list[_Hit]:
        """All occurrences, also those that overlap, in any order."""
        if self._database is None:
            LiteralSearch.seen_bytes += len(text)
            if LiteralSearch.seen_bytes <= _FIRST_BYTES:
                return self._one_by_one(text)
            self._build()
        hits: list[_Hit] = []
        self._database.scan(text, _collect, context=hits.append, scratch=self._own_scratch())
        return hits

    def _one_by_one(self, text: bytes) -> list[_Hit]:
        hits: list[_Hit] = []
        for number, literal in enumerate(self._literals):
            start = text.find(literal)
            while start >= 0:
                hits.append((number, start + len(literal)))
                start = text.find(literal, start + 1) if number < self._once_from else -1
        return hits

    def _build(self) -> None:
        import hyperscan

        with self._building:
            if self._database is None:
                # The literal mode ends a literal at its first NUL, as C does.
                is_literal = not any(b"\0" in literal for literal in self._literals)
                expressions = self._literals if is_literal else [*map(_escaped, self._literals)]
                database = hyperscan.Database()
                database.compile(
                    expressions=expressions,
                    ids=range(len(expressions)),
                    flags=[
                        hyperscan.HS_FLAG_SINGLEMATCH if number >= self._once_from else 0
                        for number in range(len(expressions))
                    ],
                    literal=is_literal,
                )
                self._database = database

    def _own_scratch(self) -> Any:
        """Working memory: two threads must not share it."""
        scratch = getattr(self._scratch, "value", None)
        if scratch is None:
            import hyperscan

            scratch = self._scratch.value = hyperscan.Scratch(self._database)
        return scratch


def _escaped(literal: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in literal)


def _collect(number: int, _start: int, end: int, _flags: int, add: Callable[[_Hit], None]) -> None:
    add((number, end))
