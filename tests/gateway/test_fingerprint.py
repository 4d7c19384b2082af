"""Over recordings of real programs: what must not matter does not, and what matters is found and told."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.gateway.call import GatewayCall
from harness.gateway.call_records import outline_of, print_of
from harness.gateway.fingerprint import (
    ANYWHERE,
    Fingerprint,
    MatchContext,
    first_difference,
    without_elements,
)
from harness.gateway.http_requests import ArrivedRequest
from harness.gateway.recorded import RecordedCall, call_of
from harness.models.wires.wire import SaidItem, all_wires
from tape_files import TAPES, recording

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CONVERSATIONS = ("messages", "input", "contents")
_NOT_SAID = frozenset(
    ("id", "tool_use_id", "call_id", "tool_call_id", "type", "role", "status", "signature", "media_type")
) | {"thoughtSignature", "namespace", "ttl", "phase", "detail"}


@pytest.fixture(params=TAPES, ids=lambda path: path.stem)
def tape(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def _printed(call: RecordedCall, body: Any, context: MatchContext) -> Fingerprint:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = tuple(
        (name, value) for name, value in call.request.headers.items() if name != "content-encoding"
    )
    arrived = ArrivedRequest(method=call.request.method, target=call.request.path, fields=fields, body=data)
    return print_of(GatewayCall(1, 0, arrived, data), context)


def _answers(path: Path) -> Iterator[tuple[RecordedCall, Any, MatchContext]]:
    from harness.gateway.bodies import BodyReader
    from harness.gateway.recorded import stored_of

    played, context = recording(path)
    bodies = BodyReader()
    for call in played.calls:
        body = bodies.read(call.request.id, stored_of(call.request))
        if call.request.purpose == "answer" and body:
            yield call, json.loads(body), context


def _said(call: RecordedCall, body: Any) -> tuple[list[str], list[SaidItem]]:
    said = all_wires()[call.request.wire].said(body)
    return said.system, said.items


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _leaves(inner, (*path, place))
    elif isinstance(value, str) and len(value) > 3:
        yield path, value


def _with(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(body)
    holder = changed
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value
    return changed


def test_every_request_finds_its_own_answer(tape: Path) -> None:
    played, _ = recording(tape)
    for call in played.calls:
        found = played.find(call.printed)
        assert found is not None
        assert found.level == "exact"
        assert found.recorded.printed.exact == call.printed.exact
    assert not played.left


def test_what_is_recorded_of_a_request_is_what_its_print_says(tape: Path) -> None:
    for call, body, context in _answers(tape):
        again = call_of(call.request, json.dumps(body).encode())
        outlined, printed = outline_of(again, context), print_of(again, context)
        assert outlined == (printed.conversation, printed.tools, printed.tool_count)
        assert outlined.conversation


def test_other_ids_dates_ports_folders_and_orders_do_not_matter(tape: Path) -> None:
    for call, body, context in _answers(tape):
        text = json.dumps(body)
        cwd = context.places[0][0]
        elsewhere = MatchContext(places=(("/home/u/projects/x", "<cwd>"), *context.places[1:]))
        changed = [
            (_UUID.sub("aaaabbbb-0000-4000-8000-ffffeeeedddd", text), context),
            (re.sub(r"\b20\d\d-\d\d-\d\d\b", "2027-03-04", text), context),
            (re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9999", text), context),
            (text.replace(cwd, "/home/u/projects/x"), elsewhere),
            (json.dumps({name: body[name] for name in sorted(body, reverse=True)}, indent=1), context),
        ]
        for other, where in changed:
            assert _printed(call, other.encode(), where).alike == call.printed.alike


def test_a_change_of_what_was_said_is_never_taken_for_the_same(tape: Path) -> None:
    seeded = random.Random(f"29 {tape.stem}")
    for call, body, context in _answers(tape):
        system, items = _said(call, body)
        leaves = [
            (path, value)
            for path, value in _leaves(body)
            if path[0] in _CONVERSATIONS and path[-1] not in _NOT_SAID and "cache_control" not in path
        ]
        for path, value in seeded.sample(leaves, min(12, len(leaves))):
            other = _planted(path, value)
            changed = _with(body, path, other)
            new_system, new_items = _said(call, changed)
            kinds = [one.kind for one, new in zip(items, new_items, strict=True) if one != new]
            printed = _printed(call, changed, context)
            told = printed.differences(call.printed)
            if not kinds and new_system == system:
                continue  # nothing that anybody says
            if not kinds or kinds[0] in ("reasoning", "result"):
                assert printed.said == call.printed.said
                assert len(told) == 1
                assert told[0].startswith("result ") == (kinds[:1] == ["result"])
            elif printed.said == call.printed.said:
                assert told == ["reminders"]  # what a program adds itself
            else:
                assert printed.alike != call.printed.alike, path


def _planted(path: tuple[Any, ...], value: str) -> str:
    if path[-1] == "arguments":
        return json.dumps({**json.loads(value), "planted": 1}) if value.startswith("{") else value + "x"
    return f"{value} planted change" if path[-1] != "name" else f"{value}_planted"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("on 2026-01-02", "on 2026-01-03"),
        ("id 0f0f0f0f-1111-2222-3333-444444444444", "id 0f0f0f0f-1111-2222-3333-444444444445"),
        ("msg_abcdefgh12", "msg_abcdefgh13"),
        ("at 2026-01-02T10:00:00Z", "at 2026-01-02T11:00:00Z"),
    ],
)
def test_what_a_mask_hides_is_alike_and_not_the_same(one: str, other: str) -> None:
    call, body, context = next(_answers(TAPES[0]))
    path = next(
        path for path, value in _leaves(body) if path[0] == "messages" and path[-1] in ("text", "content")
    )
    first = _printed(call, _with(body, path, f"Please look {one}"), context)
    second = _printed(call, _with(body, path, f"Please look {other}"), context)
    assert first.said != second.said
    assert first.alike == second.alike


def test_items_that_are_left_out_doubled_or_swapped_are_found(tape: Path) -> None:
    seeded = random.Random(f"31 {tape.stem}")
    for call, body, context in _answers(tape):
        field = next(name for name in _CONVERSATIONS if name in body)
        sequence = body[field]
        if not isinstance(sequence, list) or len(sequence) < 3:
            continue
        for _ in range(6):
            changed, place = copy.deepcopy(body), seeded.randrange(len(sequence) - 1)
            match seeded.randrange(3):
                case 0:
                    del changed[field][place]
                case 1:
                    changed[field].insert(place, copy.deepcopy(sequence[place]))
                case _:
                    changed[field][place : place + 2] = changed[field][place : place + 2][::-1]
            if _said(call, changed) == _said(call, body):
                continue
            printed = _printed(call, changed, context)
            is_silent = printed.said == call.printed.said and not printed.differences(call.printed)
            if is_silent:  # results of calls that were made at once may come in any order
                kinds = [[one.kind for one in _said(call, one)[1]] for one in (body, changed)]
                assert kinds[0] == kinds[1]


def _asked(system: str) -> GatewayCall:
    body = {"model": "m", "system": system, "messages": [{"role": "user", "content": "Go."}]}
    arrived = ArrivedRequest(method="POST", target="/v1/messages", fields=(), body=json.dumps(body).encode())
    return GatewayCall(1, 0, arrived, arrived.body)


def test_a_tree_that_is_cut_short_because_of_a_seal_is_no_difference() -> None:
    before = "Folder:\n├───a.py\n└───src/\nBe brief."
    sealed = "Folder:\n├───.claude/\n├───a.py\n└───... and 15 more\nBe brief."
    context = MatchContext(stand_ins=(".claude",))
    one, other = (print_of(_asked(text), context) for text in (before, sealed))
    assert one.differences(other) == []
    assert print_of(_asked(sealed.replace("brief", "long")), context).differences(one) == ["system prompt"]
    bare = (print_of(_asked(text), ANYWHERE) for text in (before, sealed))
    assert next(bare).differences(next(bare)) == ["system prompt"]


def test_an_element_of_a_program_is_taken_out_of_a_text() -> None:
    text = "a<env>x</env>b<env>y</env>c<env>open"
    assert without_elements(text, ("env",)) == ("abc<env>open", ["<env>x</env>", "<env>y</env>"])


def test_the_first_line_that_differs_is_told() -> None:
    assert first_difference("a\nb\nc", "a\nB\nc") == 'line 2: "b" → "B"'
    assert first_difference("a", "a\nb") == 'line 2: (nothing) → "b"'
    noise = (r"Chunk ID: \w+",)
    before, after = "Chunk ID: a1\nat 10:02\none", "Chunk ID: b2\nat 10:03\ntwo"
    assert first_difference(before, after, noise) == 'line 3: "one" → "two"'
    assert first_difference("at 10:02", "at 10:03", noise) == 'line 1: "at 10:02" → "at 10:03"'
    assert first_difference("a", "a") == ""
    told = first_difference("x" * 500 + " one", "x" * 500 + " two")
    assert told == f'line 1: "…{"x" * 19} one" → "…{"x" * 19} two"'


@pytest.mark.parametrize("wire", list(all_wires()))
@pytest.mark.parametrize(
    "body",
    [
        *({}, {"messages": 3, "input": 3, "contents": 3}, {"messages": [None, 1, "x", {"content": 1}]}),
        *({"contents": [{"parts": [{"functionCall": 1}]}]}, {"input": [{"type": 7}, {"content": [1]}]}),
        *(
            {"tools": [1, {"name": 3}, {"functionDeclarations": [3]}]},
            {"system": {"text": 1}, "instructions": []},
        ),
    ],
)
def test_a_body_of_any_shape_has_a_print(wire: str, body: Any) -> None:
    from harness.gateway.fingerprint import fingerprint

    data = json.dumps(body).encode()
    assert fingerprint("x", all_wires()[wire], data, body, MatchContext()).route == "x"
    all_wires()[wire].end([body])
