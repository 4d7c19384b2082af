"""A recording as the model: each request is looked up and answered with the recorded bytes.

| level     | first entry that was not used yet, in the order of the recording                    | is told            |
|-----------|--------------------------------------------------------------------------------------|--------------------|
| exact     | the same bytes                                                                       | nothing            |
| same      | said, context and results are equal                                                  | nothing            |
| structure | said is equal                                                                        | what differs       |
| alike     | said is equal when ids, dates, times and hashes are masked                           | that a text differs |
| again     | a request that was answered whole, once more                                         | nothing            |
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from harness.gateway.bindings import Bindings, bound_words, words_of_calls
from harness.gateway.bodies import BodyReader, StoredBody, inflated
from harness.gateway.call import GatewayCall
from harness.gateway.call_records import is_whole, print_of
from harness.gateway.fingerprint import ANYWHERE, Fingerprint, MatchContext
from harness.gateway.http_requests import ArrivedRequest
from harness.log.raw import RawEntry, RawRequest, RawResponse, RawStart

Level: TypeAlias = Literal["exact", "same", "structure", "alike", "again"]
_LEVELS: tuple[Level, ...] = ("exact", "same", "structure", "alike")


class RecordedCall(NamedTuple):
    """One call of a recording."""

    request: RawRequest
    response: RawResponse
    printed: Fingerprint
    content: bytes

    @property
    def is_answered(self) -> bool:
        return is_whole(self.response.status, is_cut=self.response.is_cut)


class FoundCall(NamedTuple):
    recorded: RecordedCall
    level: Level
    printed: Fingerprint
    """Of the request, as it would have been in the recording."""


def stored_of(request: RawRequest) -> StoredBody:
    return StoredBody(request.data, request.new_size, request.of, request.prefix, request.suffix)


class Recording:
    """Contract: `find` hands out each answer once, in the order of the recording. It is used from any thread under
    `lock`. Knows its main conversation: the one with the most answers.
    """

    def __init__(self, entries: Iterable[RawEntry], context: MatchContext = ANYWHERE) -> None:
        """`context`: of the recording, with its own folders."""
        self.lock: threading.Lock = threading.Lock()
        self.starts: list[RawStart] = []
        """Of each message of the conversation."""
        self.calls: list[RecordedCall] = []
        self.damaged: int = 0
        """Calls whose bodies cannot be read."""
        self.is_without_bodies: bool = False
        self._read(entries, context)
        self._used_numbers: set[int] = set()
        answered = [call for call in self.calls if call.is_answered and call.request.purpose == "answer"]
        with_tools = [call for call in answered if call.printed.tool_count]  # some agents offer none at all
        counts = Counter(call.printed.conversation for call in with_tools or answered)
        self.main: str = counts.most_common(1)[0][0] if counts else ""
        self.words: set[str] = set[str]().union(*(words_of_calls(call.content) for call in self.calls))

    def _read(self, entries: Iterable[RawEntry], context: MatchContext) -> None:
        bodies = BodyReader()
        waiting: dict[int, RawRequest] = {}
        for entry in entries:
            if isinstance(entry, RawStart):
                self.starts.append(entry)
            elif isinstance(entry, RawRequest):
                waiting[entry.id] = entry
            elif isinstance(entry, RawResponse) and (request := waiting.pop(entry.id, None)) is not None:
                body = bodies.read(request.id, stored_of(request))
                self.is_without_bodies |= bool(request.body_size and not request.data and not request.of)
                content = content_of(entry)
                if body is None or content is None:
                    self.damaged += 1
                    continue
                call = call_of(request, body)
                self.calls.append(RecordedCall(request, entry, print_of(call, context), content))

    @property
    def left(self) -> list[RecordedCall]:
        """What was not asked for."""
        return [call for number, call in enumerate(self.calls) if number not in self._used_numbers]

    @property
    def steps(self) -> int:
        """Of the main conversation."""
        of_main = (call for call in self.calls if call.printed.conversation == self.main)
        return sum(call.is_answered for call in of_main)

    def find(self, printed: Fingerprint, *, most: Level = "alike") -> FoundCall | None:
        """`most`: the loosest level that counts."""
        for level in _LEVELS[: _LEVELS.index(most) + 1]:
            for number, call in enumerate(self.calls):
                if number not in self._used_numbers and _matches(printed, call.printed, level):
                    self._used_numbers.add(number)
                    return FoundCall(call, level, printed)
        return self._again(printed)

    def _again(self, printed: Fingerprint) -> FoundCall | None:
        for number in reversed(range(len(self.calls))):
            call = self.calls[number]
            is_question = call.request.purpose == "answer"
            if call.printed.route != printed.route or (is_question and not call.is_answered):
                continue
            if _matches(printed, call.printed, "alike") or call.request.purpose in ("models", ""):
                self._used_numbers.add(number)
                return FoundCall(call, "again", printed)
        return None

    def nearest(self, printed: Fingerprint) -> RecordedCall | None:
        """The call that the request has the most in common with, of those that were not used: to say where it parted. None:
        its conversation is at its end.
        """
        free = [call for call in self.left if call.printed.route == printed.route]
        if any(call.printed.conversation == printed.conversation for call in self.calls):
            free = [call for call in free if call.printed.conversation == printed.conversation]
        return max(free, key=lambda call: _in_common(printed, call.printed), default=None)


def _matches(printed: Fingerprint, recording: Fingerprint, level: Level) -> bool:
    if printed.route != recording.route:
        return False
    match level:
        case "exact":
            return printed.exact == recording.exact
        case "same":
            return printed.said == recording.said and not printed.differences(recording)
        case "structure":
            return printed.said == recording.said
        case _:
            return printed.alike == recording.alike


def _in_common(first: Fingerprint, right: Fingerprint) -> tuple[bool, int]:
    pairs = zip(first.items, right.items, strict=False)
    count = 0
    for ours, theirs in pairs:
        if ours != theirs:
            break
        count += 1
    return first.conversation == right.conversation, count


def call_of(request: RawRequest, body: bytes) -> GatewayCall:
    """A recorded request as a call."""
    fields = tuple((name, value) for name, value in request.headers.items() if name != "content-encoding")
    arrived = ArrivedRequest(method=request.method, target=request.path, fields=fields, body=body)
    return GatewayCall(request.id, request.at_ms, arrived, body)


def content_of(response: RawResponse) -> bytes | None:
    """None: it is damaged."""
    try:
        return inflated(response.data)
    except zlib.error:
        return None


class Playback:
    """A recording while it is played: finds the answer of each call, and learns what has to be replaced in it.

    Contract: used under the recording's lock.
    """

    def __init__(
        self,
        recording: Recording,
        context: MatchContext,
        places: Mapping[str, str],
        *,
        is_strict: bool = False,
    ) -> None:
        """`context`: of the present run, where its folders and the recorded ones have the same names. `places`: recorded
        folder → present one.
        """
        self.recording = recording
        self.bindings: Bindings = Bindings(places)
        self.answers: Counter[str] = Counter()
        """By conversation: how many answers were given whole."""
        self.context = context
        self._most: Level = "structure" if is_strict else "alike"

    def find(self, call: GatewayCall) -> tuple[FoundCall | None, Fingerprint]:
        """The recorded call that answers this one, if there is one; and the print of the request as it came."""
        printed = print_of(call, self.context)
        undone = self.bindings.undo_in(call.plain) if self.bindings else call.plain
        compared = print_of(call, self.context, undone) if undone != call.plain else printed
        found_call = self.recording.find(compared, most=self._most)
        if found_call is None:
            return None, compared
        recorded_call = found_call.recorded
        if found_call.level != "again" and recorded_call.is_answered and call.endpoint == "answer":
            self.answers[recorded_call.printed.conversation] += 1
        for place, text in printed.texts.items():
            before = recorded_call.printed.texts.get(place)
            if isinstance(place, int) and before is not None and before != text:
                self.bindings.bind(bound_words(before, text, self.recording.words))
        return found_call, compared

    def content(self, found_call: FoundCall) -> bytes:
        return self.bindings.put_into(found_call.recorded.content)
