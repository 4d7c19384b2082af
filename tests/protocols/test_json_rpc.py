"""JSON-RPC in both directions, by a protocol of two requests and one notification."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.driver import Asked, Moves, Send, SessionKnown, Withdrawn
from harness.contracts.request import Request
from harness.events import Relay, RelayReply
from harness.protocols.json_rpc import JsonRpcDriver, RpcRequest, RpcResponse


class SmallDriver(JsonRpcDriver):
    requests: ClassVar[dict[str, str]] = {"may/I": "_may_i"}
    notifications: ClassVar[dict[str, str]] = {"never/mind": "_never_mind"}

    def begin(self) -> Moves:
        return [self._call("hello", {"who": "us"}, self._greeted)]

    def _greeted(self, response: RpcResponse) -> Moves:
        return [SessionKnown(response.error if response.error is not None else str(response.result))]

    def _may_i(self, asked: RpcRequest) -> Moves:
        return [self._ask(asked, Relay(id="", tool_name="thing"))]

    def _never_mind(self, params: dict[str, Any]) -> Moves:
        return self._withdraw_request(params.get("id"))

    def _answered(self, native: RpcRequest, reply: RelayReply) -> Moves:
        return [self._respond(native, {"ok": reply.approved})]


class PlainDriver(SmallDriver):
    has_version: ClassVar[bool] = False


def driver(kind: type[SmallDriver] = SmallDriver) -> SmallDriver:
    return kind(Request(agent="small"), "line")


def written(moves: Moves | None) -> list[Any]:
    lines = [move.data for move in moves or () if isinstance(move, Send)]
    assert all(data.endswith(b"\n") and data.count(b"\n") == 1 for data in lines)
    return [msgspec.json.decode(data) for data in lines]


def test_requests_are_counted_and_have_the_member_jsonrpc_only_where_the_protocol_wants_it() -> None:
    small, plain = driver(), driver(PlainDriver)

    assert written(small.begin()) == [{"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"who": "us"}}]
    assert written(small.begin())[0]["id"] == 2
    assert written(plain.begin()) == [{"id": 1, "method": "hello", "params": {"who": "us"}}]
    assert written([plain._notify("done")]) == [{"method": "done"}]


def test_a_response_is_taken_once() -> None:
    small = driver()
    small.begin()

    assert small.receive({"id": 1, "result": {"a": 1}}) == [SessionKnown("{'a': 1}")]
    assert not small.receive({"id": 1, "result": {"a": 1}})


@pytest.mark.parametrize("number", [True, 1.0, "1", None, 2, [1], {"a": 1}])
def test_a_response_to_nothing_is_ignored(number: Any) -> None:
    small = driver()
    small.begin()

    assert not small.receive({"id": number, "result": {}})
    assert small.receive({"id": 1, "result": {}}) == [SessionKnown("{}")]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"error": {"code": -1, "message": "no"}}, "no"),
        ({"error": {"code": "x"}}, ""),
        ({"error": "no"}, ""),
        ({"error": None, "result": None}, "{}"),
        ({"result": [1]}, "{}"),
        ({}, "{}"),
    ],
)
def test_errors_and_results_of_any_shape_are_read(record: dict[str, Any], said: str) -> None:
    small = driver()
    small.begin()

    assert small.receive({"id": 1, **record}) == [SessionKnown(said)]


@pytest.mark.parametrize("request_id", [0, "", "a", None, 1.5, {"odd": [1]}])
def test_an_id_of_the_program_is_returned_as_it_came(request_id: Any) -> None:
    small = driver()

    [asked] = small.receive({"id": request_id, "method": "may/I"})
    assert isinstance(asked, Asked)
    answer = small.answer(RelayReply(id=asked.relay.id, approved=True))

    assert written(answer) == [{"jsonrpc": "2.0", "id": request_id, "result": {"ok": True}}]
    assert small.answer(RelayReply(id=asked.relay.id, approved=True)) is None


def test_an_unknown_request_is_refused_and_an_unknown_notification_ignored() -> None:
    small = driver()

    [refusal] = written(small.receive({"id": 0, "method": "odd/thing", "params": []}))
    assert refusal["id"] == 0
    assert refusal["error"]["code"] == -32601
    assert not small.receive({"method": "odd/thing"})
    assert not small.receive({"method": ["odd"]})
    assert not small.receive({})


def test_a_question_is_withdrawn_by_its_own_id_only() -> None:
    small = driver()
    [zero] = small.receive({"id": 0, "method": "may/I"})
    assert isinstance(zero, Asked)

    assert not small.receive({"method": "never/mind", "params": {"id": False}})
    assert not small.receive({"method": "never/mind", "params": {"id": "0"}})
    assert small.receive({"method": "never/mind", "params": {"id": 0}}) == [Withdrawn(zero.relay.id)]
    assert small.answer(RelayReply(id=zero.relay.id, approved=True)) is None


def test_an_id_that_is_used_again_withdraws_the_question_before() -> None:
    small = driver()
    [first] = small.receive({"id": 0, "method": "may/I"})
    withdrawn, second = small.receive({"id": 0, "method": "may/I"})

    assert isinstance(first, Asked)
    assert isinstance(second, Asked)
    assert withdrawn == Withdrawn(first.relay.id)
    assert list(small.open) == [second.relay.id]


_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, -1.5, "", "id", [], [{}], {}, {"id": 0}, {"message": 3, "code": {}}]
)
_METHODS = st.sampled_from(["may/I", "never/mind", "other"]) | _VALUES


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "id": st.integers(0, 3) | _VALUES,
                "method": _METHODS,
                "params": _VALUES,
                "result": _VALUES,
                "error": _VALUES,
            },
        )
    )
)
def test_whatever_is_received_every_request_is_answered_or_open(records: list[dict[str, Any]]) -> None:
    small = driver()
    small.begin()
    for record in records:
        moves = small.receive(record)
        if "id" in record and isinstance(record.get("method"), str):
            answers = [one for one in written(moves) if one["id"] == record["id"]]
            assert len(answers) + sum(isinstance(move, Asked) for move in moves) == 1
