"""The model calls of a session that were recorded by a gateway: each in a line, and one with what is new in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from harness.errors import HarnessError, UsageError
from harness.events import ModelCall
from harness.gateway.bodies import BodyReader
from harness.gateway.call_events import call_id
from harness.gateway.recorded import content_of, stored_of
from harness.log.raw import RawRequest, RawResponse
from harness.log.store import Store, read_all
from harness.log.stores.files import FileStore
from harness.models.wires.wire import SaidConversation, SaidItem, all_wires, as_text
from harness.runs.replay_request import answered_calls, recorded_run
from harness.stage import ModelInput
from harness.views.requests import call_rows

_LONGEST = 20_000
_MOST_SHOWN = 200


class CallTable(msgspec.Struct, frozen=True):
    """The calls of a session, as `--format requests` has them."""

    head: list[str]
    rows: list[list[str]]
    """Empty: none was recorded."""


class CallText(msgspec.Struct, frozen=True):
    """What was sent in one call, and the answer."""

    lines: list[str]


def call_table(store: Store, log_id: str) -> CallTable:
    head, *rows = call_rows([event for event in read_all(store, log_id) if isinstance(event, ModelCall)])
    return CallTable(list(head), [list(row) for row in rows])


def sheet(table: CallTable, lines_of: Callable[[int], Sequence[str]]) -> Iterator[str]:
    """The calls in lines, and below them what was new in each. `lines_of`: of a call, by its number."""
    if not table.rows:
        yield "No call went through a gateway: `--gateway` records them."
        return
    rows = [table.head, *table.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.head))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for row in table.rows[-_MOST_SHOWN:]:
        yield ""
        yield f"── {row[0]} ── {row[2]} ── {row[3]}"
        for line in lines_of(int(row[0])):
            yield from line.split("\n")


def call_lines(store: Store, log_id: str, number: int, *, only_new: bool) -> list[str]:
    """A call as text. Raises UsageError for one that there is none of."""
    return SentCalls(store, log_id).lines(number, only_new=only_new)


def model_input(store: Store, log_id: str) -> ModelInput:
    """Empty where no gateway recorded it."""
    try:
        calls = SentCalls(store, log_id)
        return ModelInput(calls.tools(), calls.requests())
    except HarnessError:  # the record was deleted, or has none
        return ModelInput()


class SentCalls:
    """What was sent, of all calls of a session. Raises UsageError where nothing was recorded."""

    def __init__(self, store: Store, log_id: str) -> None:
        if not isinstance(store, FileStore):
            raise UsageError("what was sent is kept in a store of files only", hint="look at it where it ran")
        bodies = BodyReader()
        self._calls = [
            (request, response, body)
            for request, response in answered_calls(recorded_run(store, log_id, whole=True))
            for body in (bodies.read(request.id, stored_of(request)) or b"",)
            if request.purpose in ("answer", "compact")
        ]

    def __len__(self) -> int:
        return len(self._calls)

    def tools(self) -> list[dict[str, Any]]:
        by_name: dict[str, Any] = {}
        digests: set[str] = set()
        for request, _response, body in self._calls:
            if request.tools and request.tools in digests:
                continue
            digests.add(request.tools)
            for name, tool in all_wires()[request.wire].said(_decoded(body)).tools.items():
                by_name.setdefault(name, tool)
        return [_as_function(name, tool) for name, tool in by_name.items()]

    def requests(self) -> dict[str, dict[str, Any]]:
        """By id: each without what the one before it in its conversation had."""
        requests: dict[str, dict[str, Any]] = {}
        latest: dict[str, SaidConversation] = {}
        for request, _response, body in self._calls:
            said = all_wires()[request.wire].said(_decoded(body))
            requests[call_id(request)] = _new_in(said, latest.get(request.conversation))
            latest[request.conversation] = said
        return requests

    def lines(self, number: int, *, only_new: bool) -> list[str]:
        """What was sent in a call, and the answer. `only_new`: without what the call before it in its conversation had.

        Raises UsageError for a call that there is none of.
        """
        if not 1 <= number <= len(self._calls):
            raise UsageError(
                f"there is no call {number}: this session has {len(self._calls)}",
                hint="`--format requests` lists them",
            )
        request, response, body = self._calls[number - 1]
        before: list[SaidItem] = []
        if only_new:
            earlier = [
                call for call in self._calls[: number - 1] if call[0].conversation == request.conversation
            ]
            before = _items(earlier[-1][0], earlier[-1][2]) if earlier else []
        return list(_lines(request, response, body, before))


_SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema")
"""Where the schema of the input is, by API."""


def _as_function(name: str, tool: Any) -> dict[str, Any]:
    fields = tool if isinstance(tool, dict) else {}
    schema = next((fields[key] for key in _SCHEMAS if isinstance(fields.get(key), dict)), None)
    about = {"name": name, "description": fields.get("description"), "parameters": schema}
    return {"type": "function", "function": {key: value for key, value in about.items() if value is not None}}


def _new_in(said: SaidConversation, before: SaidConversation | None) -> dict[str, Any]:
    """`items_before`: so many of the messages are the same as in the one before."""
    same = _same_items(before.items if before is not None else [], said.items)
    request: dict[str, Any] = {"items_before": same, "items": list(map(_as_fields, said.items[same:]))}
    if before is None or before.system != said.system:
        request["system"] = said.system
    if before is None or before.options != said.options:
        request["options"] = dict(said.options)
    if before is None or before.tools.keys() != said.tools.keys():
        request["tools"] = sorted(said.tools)
    return request


def _as_fields(item: SaidItem) -> dict[str, Any]:
    """What it does not have is left out, but for its value."""
    fields = {name: value for name, value in item._asdict().items() if value not in ("", False)}
    return {**fields, "value": item.value}


def _same_items(before: Sequence[SaidItem], items: Sequence[SaidItem]) -> int:
    """How many at the beginning are the same."""
    same = 0
    while same < min(len(before), len(items)) and before[same] == items[same]:
        same += 1
    return same


def _items(request: RawRequest, body: bytes) -> list[SaidItem]:
    return all_wires()[request.wire].said(_decoded(body)).items


def _decoded(body: bytes) -> Any:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _lines(request: RawRequest, response: RawResponse, body: bytes, before: list[SaidItem]) -> Iterator[str]:
    conversation = all_wires()[request.wire].said(_decoded(body))
    yield f"{request.method} {request.path}  {request.model}  {request.body_size} bytes"
    if not before:
        for text in filter(None, conversation.system):
            yield f"\n[system]\n{_cut(text)}"
        yield f"\n[tools] {', '.join(sorted(conversation.tools)) or 'none'}"
    if same := _same_items(before, conversation.items):
        yield f"\n… {same} item{'' if same == 1 else 's'} as before"
    for item in conversation.items[same:]:
        yield f"\n[{item.role} {item.name or item.kind}]\n{_cut(as_text(item.value))}"
    yield f"\n[answer {response.status}{', cut off' if response.is_cut else ''}]"
    content = content_of(response)
    yield "(damaged)" if content is None else _cut(content.decode("utf-8", "replace"))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… {len(text) - _LONGEST} more characters"
