"""The model calls of a session that were recorded by a gateway: one whole, what is new in one, and all as a tape."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from harness.cli.output import write_text
from harness.errors import UsageError
from harness.formatting.escapes import revealed
from harness.gateway.bodies import BodyReader
from harness.gateway.recorded import content_of, stored_of
from harness.gateway.tape import tape_lines
from harness.log.raw import RawRequest, RawResponse
from harness.log.stores.files import FileStore
from harness.models.wires.wire import SaidItem, all_wires, as_text
from harness.runs.replay_request import RecordedRun, answered_calls, recorded_entries, recorded_run

_LONGEST = 20_000


def export(store: FileStore, log_id: str) -> int:
    """Write a session's calls to standard output as a tape. Raises UsageError where there are none."""
    recorded = recorded_run(store, log_id)
    for line in tape_lines(recorded_entries(recorded)):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    return 0


def show(store: FileStore, log_id: str, number: int, *, only_new: bool) -> int:
    """Raises UsageError for a call that there is none of."""
    calls = [
        (request, response, body)
        for request, response, body in _bodies(recorded_run(store, log_id))
        if request.purpose in ("answer", "compact")
    ]
    if number > len(calls):
        raise UsageError(
            f"there is no call {number}: this session has {len(calls)}",
            hint="`--format requests` lists them",
        )
    request, response, body = calls[number - 1]
    before: list[SaidItem] = []
    if only_new:
        earlier = [one for one in calls[: number - 1] if one[0].conversation == request.conversation]
        before = _items(earlier[-1][0], earlier[-1][2]) if earlier else []
    write_text(revealed("\n".join(_lines(request, response, body, before)) + "\n"))
    return 0


def _bodies(recorded: RecordedRun) -> Iterator[tuple[RawRequest, RawResponse, bytes]]:
    bodies = BodyReader()
    for request, response in answered_calls(recorded):
        yield request, response, bodies.read(request.id, stored_of(request)) or b""


def _items(request: RawRequest, body: bytes) -> list[SaidItem]:
    return all_wires()[request.wire].said(_decoded(body)).items


def _decoded(body: bytes) -> Any:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _lines(request: RawRequest, response: RawResponse, body: bytes, before: list[SaidItem]) -> Iterator[str]:
    said = all_wires()[request.wire].said(_decoded(body))
    yield f"{request.method} {request.path}  {request.model}  {request.body_size} bytes"
    if not before:
        for text in filter(None, said.system):
            yield f"\n[system]\n{_cut(text)}"
        yield f"\n[tools] {', '.join(sorted(said.tools)) or 'none'}"
    same = 0
    while same < min(len(before), len(said.items)) and before[same] == said.items[same]:
        same += 1
    if same:
        yield f"\n… {same} items as before"
    for item in said.items[same:]:
        yield f"\n[{item.role} {item.name or item.kind}]\n{_cut(as_text(item.value))}"
    yield f"\n[answer {response.status}{', cut off' if response.is_cut else ''}]"
    content = content_of(response)
    yield "(damaged)" if content is None else _cut(content.decode("utf-8", "replace"))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… {len(text) - _LONGEST} more characters"
