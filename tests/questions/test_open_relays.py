"""Which answer counts: the first valid one, from whichever thread it comes."""

from __future__ import annotations

import threading

import pytest

from harness.errors import UsageError
from harness.events import Relay, RelayReply
from harness.questions.open_questions import OpenRelays


def test_of_answers_from_many_threads_one_counts() -> None:
    relays: OpenRelays[str] = OpenRelays()
    ids = [f"r{number}" for number in range(200)]
    for relay_id in ids:
        relays.add(Relay(id=relay_id), relay_id)
    start, taken = threading.Barrier(8), list[str]()

    def answer() -> None:
        start.wait()
        found = (relays.take(RelayReply(id=relay_id, approved=True)) for relay_id in ids)
        taken.extend(one[1] for one in found if one is not None)

    threads = [threading.Thread(target=answer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(ids)
    assert not relays


def test_what_is_no_answer_leaves_the_question_open() -> None:
    relays: OpenRelays[int] = OpenRelays()
    schema = {"type": "object", "required": ["name"]}
    question = Relay(id="q", kind="question", resume_schema=schema)
    relays.add(question, 7)
    with pytest.raises(UsageError, match="Invalid answer"):
        relays.take(RelayReply(id="q", approved=True, answer=[]))
    assert list(relays) == [(question, 7)]
    assert relays.take(RelayReply(id="q", approved=True, answer={"name": "x"})) == (question, 7)
    assert relays.take(RelayReply(id="q", approved=True, answer={"name": "y"})) is None


def test_a_withdrawn_question_cannot_be_answered() -> None:
    relays: OpenRelays[None] = OpenRelays()
    first, second = Relay(id="a"), Relay(id="b")
    relays.add(first, None)
    relays.add(second, None)
    assert relays.withdraw("a")
    assert not relays.withdraw("a")
    assert relays.take(RelayReply(id="a", approved=True)) is None
    assert relays.withdraw_all() == [second]
    assert not relays
