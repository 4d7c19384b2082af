"""When two requests are the same: what was said, what was around it, and what the tools gave, each apart.

An agent that is run a second time sends nearly the same requests, and never quite: ids, dates, ports and folders are
others, results come in another order. *Said* are the texts of both sides, the calls with their arguments, and that a
call had a result; without the blocks that programs add to what the user said. *Context* are these blocks, the system
prompt, the tools and options. *Results* are compared call by call.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from harness.models.wires.wire import SaidConversation, SaidItem, WireFormat, as_text

REMINDERS = (
    *("system-reminder", "environment_context", "env", "environment_details", "session_context"),
    *("turn-context", "current_datetime", "info-msg", "user_info"),
)
"""The elements that programs put into what the user said."""
_ADDRESS = re.compile(r"(?:127\.0\.0\.1|localhost):\d{2,5}")
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_VARYING = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
        (
            r"\b(?:ses|prt|msg|thread|session|req|run|wf|task|agent|user|proj|evt|rs|ws)_[A-Za-z0-9]{8,}\b",
            "<id>",
        ),
        (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "<ulid>"),
        (
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?",
            "<time>",
        ),
        (
            (
                rf"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},? (?:\d{{1,2}} )?(?:{_MONTHS})[a-z]{{0,6}}\.? \d{{1,2}}"
                r"[, ]{1,2}\d{4}(?:,? \d\d?:\d\d(?::\d\d)?(?: [AP]M)?)?"
            ),
            "<date>",
        ),
        (rf"\b(?:{_MONTHS})[a-z]{{0,6}} \d{{1,2}}, \d{{4}}\b", "<date>"),
        (r"\b20\d\d-\d\d-\d\d\b", "<date>"),
        (r"\b\d{1,2}/\d{1,2}/20\d\d\b", "<date>"),
        (r"\b\d\d?:\d\d(?::\d\d)?(?: ?[AP]M)?\b", "<clock>"),
        (r"\b1[6-9]\d{8}(?:\d{3})?\b", "<epoch>"),
        (r"\b[0-9a-f]{40,64}\b", "<hash>"),
        (r"(/tmp/[A-Za-z-]{1,40}[-_.])[A-Za-z0-9]{6,}", r"\1<tmp>"),
    )
)
"""What differs between runs that do the same."""
_DRAWN = re.compile(r"[\s│]*[├└]")
_BRANCHES = str.maketrans("└│", "├ ")
"""In a drawn tree the last entry has another branch: it may be last only because of what comes after it."""
_SHORT, _LONGEST_REMEMBERED = 32 * 1024, 1024 * 1024
_SHOWN_BEFORE, _MOST_BEFORE = 20, 60
"""Characters of a line that are shown before the first that differs."""


class MatchContext(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run when its requests are compared."""

    places: tuple[tuple[str, str], ...] = ()
    """Paths that differ between runs, and what stands for each: the workspace, the home."""
    result_noise: tuple[str, ...] = ()
    """Regular expressions for what the agent itself puts into results: times, process ids."""
    reminders: tuple[str, ...] = ()
    """Further elements that the agent puts into what the user said."""
    stand_ins: tuple[str, ...] = ()
    """What only a wall around the program has made, as paths below the workspace: lines that end with one, as in a listing,
    are not compared."""


ANYWHERE = MatchContext()


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """A request, so that it can be compared with another."""

    route: str
    exact: bytes
    said: bytes
    """Two requests that differ in this ask for different things."""
    alike: bytes
    """The same with ids, dates, times and hashes masked."""
    context: Mapping[str, bytes]
    results: Mapping[int, bytes]
    """By the place of their call among the calls."""
    conversation: str = ""
    """Of all requests with the same first words of the user, and with tools or without."""
    tool_count: int = 0
    tools: str = ""
    texts: Mapping[str | int, str] = {}
    """What the digests of `context` and `results` were made of, for people."""
    items: tuple[tuple[str, str], ...] = ()
    """What was said, one by one, by whom and what, for people."""
    call_names: Mapping[int, str] = {}

    def differences(self, recording: Fingerprint) -> list[str]:
        """The parts of context, and the results, that are others: `system`, `result 3` …"""
        parts = sorted({*self.context, *recording.context})
        parts_found = [part for part in parts if self.context.get(part) != recording.context.get(part)]
        return parts_found + [
            f"result {place + 1}"
            for place, digest in sorted(self.results.items())
            if place in recording.results and recording.results[place] != digest
        ]


class Outline(NamedTuple):
    """What a request is one of, without a look at all that it says."""

    conversation: str = ""
    """As in `Fingerprint`."""
    tools: str = ""
    tool_count: int = 0


def outline(wire: WireFormat | None, body: Any, context: MatchContext) -> Outline:
    """`body`: as a value."""
    if wire is None or not isinstance(body, dict):
        return Outline()
    return _Reading("", wire.said(body), context).outline()


def fingerprint(
    route: str, wire: WireFormat | None, plain: bytes, body: Any, context: MatchContext
) -> Fingerprint:
    """`route`: what the request is for. `plain`: the body; `body`: the same as a value."""
    exact = _digest(plain)
    if wire is None or not isinstance(body, dict):
        whole = _digest(route.encode() + exact)
        return Fingerprint(route=route, exact=exact, said=whole, alike=whole, context={}, results={})
    return _Reading(route, wire.said(body), context).finish(exact)


class _Reading:
    """One request, while its print is made."""

    def __init__(self, route: str, conversation: SaidConversation, context: MatchContext) -> None:
        self._route = route
        self._conversation = conversation
        self._tags = (*REMINDERS, *context.reminders)
        self._noise = [re.compile(pattern) for pattern in context.result_noise]
        self._stand_in = _listed(context.stand_ins)
        self._in_row = _listed_in_row(context.stand_ins)
        self._places = sorted(context.places, key=lambda pair: -len(pair[0]))
        self._items_said: list[Any] = []
        self._alike: list[Any] = []
        self._items: list[tuple[str, str]] = []
        self._around: list[str] = []
        self._reasoning: list[str] = []
        self._results: dict[int, bytes] = {}
        self._texts: dict[str | int, str] = {}
        self._names: dict[int, str] = {}
        self._call_places: dict[str, int] = {}

    def outline(self) -> Outline:
        for item in self._conversation.items:
            if self._first() is not None:
                break
            self._take(item)
        return self._outlined()

    def _first(self) -> Any:
        return next((item for item in self._alike if item[0] == "user"), None)

    def _outlined(self) -> Outline:
        tools = self._conversation.tools
        conversation = _digest(_serial([bool(tools), self._first()])).hex()[:12]
        return Outline(conversation, _digest(_serial(tools)).hex()[:16] if tools else "", len(tools))

    def finish(self, exact: bytes) -> Fingerprint:
        conversation = self._conversation
        calls = [item for item in conversation.items if item.kind == "call"]
        for place, call in enumerate(calls):
            self._names[place] = f"{call.name} {as_text(call.value)}"
            if call.call_id:
                self._call_places.setdefault(call.call_id, place)
        for item in conversation.items:
            self._take(item)
        has_tools = bool(conversation.tools)
        outlined = self._outlined()
        context: dict[str | int, str] = {
            "system prompt": self._without_trees("\n".join(conversation.system)),
            "tools": "\n".join(sorted(conversation.tools)),
            "options": as_text(conversation.options),
            "reminders": "\n".join(self._around),
            "reasoning": "\n".join(self._reasoning),
        }
        return Fingerprint(
            route=self._route,
            exact=exact,
            said=_digest(_serial([self._route, has_tools, self._items_said])),
            alike=_digest(_serial([self._route, has_tools, self._alike])),
            context={
                str(part): _digest(self._masked(text).encode("utf-8", "replace"))
                for part, text in context.items()
                if text
            },
            results=self._results,
            conversation=outlined.conversation,
            tool_count=outlined.tool_count,
            tools=outlined.tools,
            texts={**context, **self._texts},
            items=tuple(self._items),
            call_names=self._names,
        )

    def _take(self, item: SaidItem) -> None:
        match item.kind:
            case "text":
                self._take_text(item)
            case "call":
                self._add(item.role, "call", as_text(item.value), item.name)
            case "result":
                self._take_result(item)
            case "reasoning":
                self._reasoning.append(f"after {len(self._items_said)}: {as_text(item.value)}")
            case "image":
                digest = _digest(as_text(item.value).encode("utf-8", "replace")).hex()
                self._add(item.role, "image", digest)
            case "other":
                self._add(item.role, "other", as_text(item.value))

    def _take_text(self, item: SaidItem) -> None:
        text = item.value
        if item.role != "assistant":
            bare, around = without_elements(text, self._tags)
            self._around += (
                f"after {len(self._items_said)}: {self._without_trees(element)}" for element in around
            )
            text = bare.strip()
        if text.strip():
            self._add(item.role, "text", text.strip())

    def _take_result(self, item: SaidItem) -> None:
        place = self._call_places.get(item.call_id, len(self._results))
        text = self._without_stand_ins(as_text(item.value))
        quiet = text
        for pattern in self._noise:
            quiet = pattern.sub("<noise>", quiet)
        self._results[place] = _digest(self._masked(quiet).encode("utf-8", "replace"))
        self._texts[place] = text
        self._items_said.append(["tool", "result"])
        self._alike.append(["tool", "result"])

    def _without_trees(self, text: str) -> str:
        """What an agent says by itself of the folder: it leaves out what is too much, and so stand-ins push out the rest."""
        if self._stand_in is None:
            return text
        return self._without_stand_ins("\n".join(line for line in text.split("\n") if not _DRAWN.match(line)))

    def _without_stand_ins(self, text: str) -> str:
        if self._stand_in is None or self._in_row is None:
            return text
        text = self._in_row.sub("", text)
        lines_left = "\n".join(line for line in text.split("\n") if not self._stand_in.search(line))
        return lines_left.translate(_BRANCHES)

    def _add(self, role: str, kind: str, text: str, name: str = "") -> None:
        plain = self._named(text)
        self._items_said.append([role, kind, name, plain])
        self._alike.append([role, kind, name, _mask(plain)])
        self._items.append((role if kind == "text" else kind, f"{name} {text}".strip()))

    def _named(self, text: str) -> str:
        for path, name in self._places:
            text = text.replace(path, name)
        return _ADDRESS.sub("<address>", text)

    def _masked(self, text: str) -> str:
        return _mask(self._named(text))


def _listed(stand_ins: Sequence[str]) -> re.Pattern[str] | None:
    """Lines that list one of them: by its path or, in a drawn tree, by its name alone."""
    if not stand_ins:
        return None
    paths = "|".join(map(re.escape, stand_ins))
    names = "|".join(sorted({re.escape(path.rpartition("/")[2]) for path in stand_ins}))
    return re.compile(rf"(?:(?:^|[\s/─])(?:{paths})|─ ?(?:{names}))[/=|*]?\s*$")


def _listed_in_row(stand_ins: Sequence[str]) -> re.Pattern[str] | None:
    """Entries of a line that lists many: `In the directory: .claude/, data.txt, harness.toml`."""
    names = "|".join(re.escape(path) for path in stand_ins if "/" not in path)
    if not names:
        return None
    return re.compile(rf"(?:(?<=: )|(?<=, ))(?:(?:{names})/?, )+|(?:, (?:{names})/?)+$", re.MULTILINE)


def _mask(text: str) -> str:
    if len(text) > _LONGEST_REMEMBERED:
        return _masked(text)
    return _remembered_mask(text) if len(text) <= _SHORT else _remembered_long_mask(text)


@lru_cache(maxsize=2048)
def _remembered_mask(text: str) -> str:
    """Most of what a request says was said in the one before: of a long run each text would be masked a hundred times."""
    return _masked(text)


@lru_cache(maxsize=16)
def _remembered_long_mask(text: str) -> str:
    """The first words of a conversation may be a whole file, and name it in each of its requests."""
    return _masked(text)


def _masked(text: str) -> str:
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return text


def without_elements(text: str, tags: Sequence[str]) -> tuple[str, list[str]]:
    """A text without the elements of these names, and the elements."""
    if "<" not in text:
        return text, []
    elements: list[str] = []
    for tag in tags:
        opening, closing = f"<{tag}>", f"</{tag}>"
        rest, pieces = text, []
        while (start := rest.find(opening)) >= 0 and (end := rest.find(closing, start)) >= 0:
            pieces.append(rest[:start])
            elements.append(rest[start : end + len(closing)])
            rest = rest[end + len(closing) :]
        text = "".join([*pieces, rest])
    return text, elements


def first_difference(before: str, after: str, noise: Sequence[str] = ()) -> str:
    """The first line that differs, as `line 7: "…" → "…"`; if there is one, the first that does not only by noise."""
    old, new = before.split("\n"), after.split("\n")
    lines = [(number, *pair) for number, pair in enumerate(_paired(old, new), 1) if pair[0] != pair[1]]
    loud = (line for line in lines if _quiet(line[1], noise) != _quiet(line[2], noise))
    number, first, right = next(loud, lines[0]) if lines else (0, None, None)
    skipped = _in_common(first, right)
    return f"line {number}: {_quoted(first, skipped)} → {_quoted(right, skipped)}" if number else ""


def _quiet(line: str | None, noise: Sequence[str]) -> str | None:
    for pattern in noise if line is not None else ():
        line = re.sub(pattern, "<noise>", line or "")
    return line if line is None else _mask(line)


def _paired(old: list[str], new: list[str]) -> Iterable[tuple[str | None, str | None]]:
    for place in range(max(len(old), len(new))):
        yield (old[place] if place < len(old) else None), (new[place] if place < len(new) else None)


def _in_common(left: str | None, right: str | None) -> int:
    """How much of the beginning of two lines is left out, so that what differs is seen."""
    if left is None or right is None:
        return 0
    count = next(
        (place for place, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), 0
    )
    return max(0, count - _SHOWN_BEFORE) if count > _MOST_BEFORE else 0


def _quoted(line: str | None, skipped: int = 0, longest: int = 80) -> str:
    if line is None:
        return "(nothing)"
    line = f"…{line[skipped:]}" if skipped else line
    return f'"{line if len(line) <= longest else line[: longest - 1] + "…"}"'


def quoted(text: str) -> str:
    """A text on one line, between quotes, not too long."""
    return _quoted(" ".join(text.split()))


def _serial(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:  # half a character
        return repr(value).encode("utf-8", "backslashreplace")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
