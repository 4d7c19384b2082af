"""Signals: how they are made, what the model sees of them, how they reach it, and files that come with words."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from harness.contracts.model import Attachment, UserTurn
from harness.conversation.turns import turn_of
from harness.errors import UsageError
from harness.events import Signal
from harness.session import signals
from harness.session.signals import Branch, create, decide, from_input
from harness.session.state import StateLanes, StateReport, cache_key
from harness_kit import Model, opened
from running_kit import in_loop


def turn(signal: Signal) -> UserTurn:
    said = turn_of(signal)
    assert isinstance(said, UserTurn)
    return said


IMAGE = {"type": "file", "data": "data:image/png;base64,aGk=", "mediaType": "image/png", "filename": "a.png"}


@pytest.mark.parametrize(
    ("type", "category", "tag"),
    [
        ("user", "user", "user"),
        ("state", "state", "state"),
        ("reactive", "reactive", "system-reminder"),
        ("notification", "notification", "notification"),
        ("user-message", "user", "user"),
        ("system-reminder", "reactive", "system-reminder"),
    ],
)
def test_every_type_has_a_category_and_a_usual_tag(type: str, category: str, tag: str) -> None:
    signal = create(type, "hello", id="s")
    assert (signal.category, signal.tag_name) == (category, tag)
    assert create(type, "hello", id="s", tag_name="own").tag_name == "own"


def test_other_types_are_refused() -> None:
    with pytest.raises(UsageError, match="Invalid signal type: weather"):
        create("weather", "rain", id="s")


@pytest.mark.parametrize("name", ["1st", "a b", 'a"', "é", "a>"])
def test_names_that_markup_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="attribute name"):
        create("user", "x", id="s", attributes={name: 1})
    with pytest.raises(UsageError, match="tag name"):
        create("user", "x", id="s", tag_name=name)


def test_words_of_a_person_are_plain_unless_they_have_attributes() -> None:
    assert turn(create("user", "a < b", id="s")) == UserTurn("a < b")
    assert turn(create("user", "a < b", id="s", attributes={"gone": None})) == UserTurn("a < b")
    emitted = turn(create("user", "a < b", id="s", attributes={"from": "Ann"}))
    assert emitted.text == '<user from="Ann">a &lt; b</user>'


def test_everything_else_is_an_element_with_its_text_escaped() -> None:
    signal = create(
        "reactive",
        'say "hi" & <go>',
        id="s",
        attributes={"type": 'a"<b>&', "gone": None, "count": 2, "yes": True},
    )
    assert turn(signal).text == (
        '<system-reminder type="a&quot;&lt;b&gt;&amp;" count="2" yes="true">'
        'say "hi" &amp; &lt;go&gt;</system-reminder>'
    )
    assert (
        turn(create("state", "", id="s", tag_name="empty", attributes={"count": 0})).text
        == '<empty count="0" />'
    )


def test_with_files_the_first_text_carries_the_tag() -> None:
    text = {"type": "text", "text": "look & see"}
    emitted = turn(create("notification", [IMAGE, text, {"type": "text", "text": "<raw>"}], id="s"))
    assert emitted.text == "<notification>look &amp; see</notification>\n<raw>"
    assert emitted.attachments == (Attachment(media_type="image/png", data="aGk=", name="a.png"),)
    alone = turn(create("notification", [IMAGE], id="s", attributes={"n": 1}))
    assert alone.text == '<notification n="1" />'
    person = turn(create("user", [text, IMAGE], id="s"))
    assert person.text == "look & see"
    assert len(person.attachments) == 1


def test_parts_that_no_one_knows_are_passed_over() -> None:
    assert signals.split(
        [{"type": "weather"}, 7, {"type": "file", "data": 3, "mediaType": "x/y"}, "text"]
    ) == (
        ["text"],
        (),
    )


def test_input_may_be_text_fields_or_a_signal() -> None:
    assert from_input("hello", id="s") == Signal(id="s", category="user", tag_name="user", contents="hello")
    given = {
        "type": "system-reminder",
        "contents": "go on",
        "tagName": "nudge",
        "attributes": {"type": "goal"},
    }
    made = from_input(given, id="s")
    assert (made.category, made.tag_name, made.attributes) == ("reactive", "nudge", {"type": "goal"})
    assert from_input(made, id="other") is made
    assert from_input({"content": [IMAGE], "id": "own"}, id="s").id == "own"


@pytest.mark.parametrize(
    ("is_active", "branch", "action"),
    [
        (True, None, "deliver"),
        (False, None, "wake"),
        (True, "persist", "persist"),
        (True, "discard", "discard"),
        (False, "persist", "persist"),
        (False, "discard", "discard"),
    ],
)
def test_delivery_depends_on_whether_a_run_is_active(is_active: bool, branch: Any, action: str) -> None:
    other = Branch(behavior="discard", attributes={"wrong": 1})
    own = Branch(behavior=branch or "", attributes={"late": True})
    signal = create("user", "x", id="s", attributes={"a": 1, "late": False})
    decided = decide(
        signal,
        is_active=is_active,
        if_active=own if is_active else other,
        if_idle=other if is_active else own,
    )
    assert decided.action == action
    assert decided.signal.attributes == {"a": 1, "late": True}


@pytest.mark.parametrize(("is_active", "behavior"), [(True, "wake"), (False, "deliver")])
def test_what_cannot_be_done_is_refused(is_active: bool, behavior: Any) -> None:
    branch = Branch(behavior=behavior)
    with pytest.raises(UsageError, match="a signal cannot"):
        decide(create("user", "x", id="s"), is_active=is_active, if_active=branch, if_idle=branch)


def lane_update(key: str, mode: Any = "snapshot") -> StateReport:
    return StateReport(id="lane", cache_key=key, contents=key, mode=mode, value={"key": key})


def test_a_state_that_the_model_sees_is_not_reported_twice() -> None:
    lanes = StateLanes()
    seen: set[str] = set()
    first = lanes.signal(lane_update("a"), id="1", is_visible=seen.__contains__)
    assert first is not None
    assert first.state == {"id": "lane", "cacheKey": "a", "mode": "snapshot", "version": 1}
    lanes.feed(first)
    again = lanes.signal(lane_update("a"), id="2", is_visible=seen.__contains__)
    assert again is not None, "it has left the window"
    seen.add("1")
    assert lanes.signal(lane_update("a"), id="2", is_visible=seen.__contains__) is None
    assert lanes.signal(lane_update("b"), id="2", is_visible=seen.__contains__) is not None
    assert lanes.signal(lane_update("a", "delta"), id="2", is_visible=seen.__contains__) is not None


def test_a_snapshot_begins_a_lane_again_and_other_signals_do_not_touch_it() -> None:
    lanes = StateLanes()
    for number, mode in enumerate(["snapshot", "delta", "delta", "snapshot", "delta"]):
        signal = lanes.signal(lane_update(str(number), mode), id=str(number), is_visible=lambda _: True)
        assert signal is not None
        lanes.feed(signal)
        lanes.feed(create("user", "x", id="u"))
    lane = lanes.lane("lane")
    assert lane.snapshot is not None
    assert (lane.snapshot.signal_id, [delta.signal_id for delta in lane.deltas], lane.version) == (
        "3",
        ["4"],
        5,
    )
    assert lanes.lane("other").last is None


def test_keys_distinguish_fields() -> None:
    assert cache_key("x", ("a:b", "c")) != cache_key("x", ("a", "b:c"))
    assert cache_key("x", ("a",), ("b",)) != cache_key("x", ("a|1:b",))


def uri(text: str, media_type: str = "text/plain") -> str:
    return f"data:{media_type};base64,{b64encode(text.encode()).decode()}"


def test_without_files_a_message_is_its_text() -> None:
    assert signals.contents("hello") == "hello"


def test_text_files_become_fenced_text() -> None:
    said = signals.contents(
        "look",
        [
            {"data": uri("print(1)\n"), "mediaType": "text/x-python", "filename": "a.py"},
            {"data": uri('{"a": 1}'), "mediaType": "application/json"},
            {"data": "as it is", "mediaType": "text/plain"},
            {"data": "data:text/plain,a%20b", "mediaType": "text/plain; charset=utf-8"},
        ],
    )
    assert said == [
        {"type": "text", "text": "look"},
        {"type": "text", "text": "[File: a.py]\n```\nprint(1)\n```"},
        {"type": "text", "text": '[Attached file]\n```\n{"a": 1}\n```'},
        {"type": "text", "text": "[Attached file]\n```\nas it is\n```"},
        {"type": "text", "text": "[Attached file]\n```\na b\n```"},
    ]


def test_a_fence_is_longer_than_any_in_the_file() -> None:
    (part,) = signals.contents("", [{"data": "a ```` b", "mediaType": "text/markdown", "filename": "a.md"}])
    assert isinstance(part, dict)
    assert part["text"] == "[File: a.md]\n`````\na ```` b\n`````"


def test_other_files_stay_files() -> None:
    said = signals.contents("look", [signals.File(data="aGk=", media_type="image/png", filename="a.png")])
    assert said == [
        {"type": "text", "text": "look"},
        {"type": "file", "data": "aGk=", "mediaType": "image/png", "filename": "a.png"},
    ]
    assert signals.split(said)[1] == (Attachment(media_type="image/png", data="aGk=", name="a.png"),)


def test_data_that_is_not_base64_is_stored_as_it_is() -> None:
    (part,) = signals.contents("", [{"data": "data:text/plain;base64,é", "mediaType": "text/plain"}])
    assert isinstance(part, dict)
    assert "é" in part["text"]


@in_loop
async def test_files_may_be_bytes_and_what_is_no_file_is_refused() -> None:
    model = Model()
    async with opened(model) as (harness, _):
        files: list[Any] = [
            {"data": b"\x89PNG", "mediaType": "image/png"},
            {"data": "täxt".encode(), "mediaType": "text/plain", "filename": "a.txt"},
        ]
        await harness.send_message(content="look", files=files)
        assert model.asked[-1][0][-1].attachments[0].data == "iVBORw=="  # type: ignore[union-attr]
        assert "täxt" in model.received()[-1]
        for bad in ({"data": "x"}, {"data": 3, "mediaType": "image/png"}):
            with pytest.raises(UsageError, match="not a file: "):
                await harness.send_message(content="look", files=[bad])
