"""A thread is one log with many runs: every view shows them all, one after the other."""

from __future__ import annotations

import json
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from msgspec.structs import replace

import harness.views
from harness.events import (
    Event,
    Message,
    ModeChanged,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    Signal,
    Suspended,
    TextDelta,
    ThreadCreated,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
)
from harness.log.run_tree import RunTree
from harness.log.store import Metadata
from harness.stage import ViewOptions
from harness.usage.ledger import Ledger, total
from harness.usage.prices import Price, Prices
from showing import shown
from steered import steered

VIEWS = [module.name for module in iter_modules(harness.views.__path__) if not module.ispkg]


def run(run_id: str, prompt: str, answer: str, tokens: int, *, model: str = "big") -> list[Event]:
    events: list[Event] = [
        SessionStart(agent="native", model=model, session_id=f"s-{run_id}"),
        Message(role="user", text=prompt),
        TextDelta(id="t", text=answer),
        Message(role="assistant", id="t", text=answer),
        UsageDelta(usage=Usage(input=tokens, output=1), model=model),
        Result(success=True, text=answer, duration_ms=1000, usage=Usage(input=tokens, output=1)),
    ]
    return [replace(event, run_id=run_id) for event in events]


THREAD: list[Event] = [
    ThreadCreated(id="thread", title="Plans", run_id="thread"),
    *run("r1", "one?", "First.", 10),
    ModeChanged(mode_id="build", previous_mode_id="plan", run_id="thread"),
    *run("r2", "two?", "Second.", 20),
    *run("r3", "three?", "Third.", 30, model="small"),
]


def test_the_stream_shows_each_run() -> None:
    lines = [json.loads(line) for line in shown("stream", *THREAD).split("\n") if line]

    ends = [line for line in lines if line["type"] in ("SessionStart", "Result")]
    assert [line["type"] for line in ends] == ["SessionStart", "Result"] * 3
    assert [line["session_id"] for line in ends] == ["s-r1", "s-r1", "s-r2", "s-r2", "s-r3", "s-r3"]


def test_text_is_what_all_runs_say() -> None:
    assert shown("text", *THREAD) == "First.\nSecond.\nThird.\n"


def test_a_run_that_only_answers_at_its_end_is_shown_after_one_that_wrote_text() -> None:
    silent = [SessionStart(run_id="r4"), Result(success=True, text="Fourth.", run_id="r4")]

    assert shown("text", *THREAD, *silent).endswith("Third.\nFourth.\n")


def test_the_result_is_that_of_the_last_run() -> None:
    assert json.loads(shown("result", *THREAD))["result"] == "Third."
    going_on = json.loads(shown("result", *THREAD, SessionStart(run_id="r4", session_id="s-4")))
    assert going_on == {
        "type": "result",
        "success": False,
        "result": "",
        "session_id": "s-4",
        "agent_session_id": "s-4",
        "log_id": "thread",
        "outcome": "interrupted",
    }


def test_usage_adds_all_runs() -> None:
    report = json.loads(shown("usage", *THREAD))

    assert (report["total"]["input"], report["total"]["output"]) == (60, 3)
    assert report["duration_ms"] == 3000
    assert {one["model"]: one["usage"]["input"] for one in report["models"]} == {"big": 30, "small": 30}
    assert [one["run_id"] for one in report["runs"]] == ["r1", "r2", "r3"]


def test_what_a_run_only_states_at_its_end_is_added_to_what_others_reported() -> None:
    silent = [
        SessionStart(run_id="r4"),
        Result(success=True, usage=Usage(input=5, output=0), total_cost_usd=0.5, run_id="r4"),
    ]
    more = run("r5", "?", "!", 1)

    report = json.loads(shown("usage", *THREAD, *silent, *more))

    assert report["total"]["input"] == 66
    assert report["total"]["cost_usd"] == 0.5


@pytest.mark.parametrize("split", range(len(THREAD) + 1))
def test_usage_continues_from_any_snapshot(split: int) -> None:
    module = import_module("harness.views.usage")
    first, second = module.open(ViewOptions()), module.open(ViewOptions())
    for event in THREAD[:split]:
        first.feed(event)
    second.restore(json.loads(json.dumps(first.snapshot())))
    for event in THREAD[split:]:
        second.feed(event)

    assert b"".join(second.finish()).decode() == shown("usage", *THREAD)


def test_the_ledger_bills_each_run_of_a_thread() -> None:
    ledger = Ledger()
    ledger.add(Metadata(session_id="thread"), THREAD)
    prices = Prices("2026-01-01", {"big": Price(input=10, output=50), "small": Price(input=1, output=5)})

    charges = ledger.charges(prices, lambda _: "day")

    assert [(one.run_id, one.sub_agent, one.usage.input) for one in charges] == [
        ("r1", "", 10),
        ("r2", "", 20),
        ("r3", "", 30),
    ]
    assert total(charges).input == 60


def test_the_transcript_shows_run_after_run_and_what_was_steered() -> None:
    page = shown("transcript", *THREAD)

    places = [page.index(text) for text in ("· thread Plans", "❯ one?", "First.", "· mode plan → build")]
    places += [page.index(text) for text in ("❯ two?", "Second.", "❯ three?", "Third.")]
    assert places == sorted(places)
    assert page.count("native · big") == 1
    assert page.count("native · small") == 1
    assert page.count("completed · 1.0s") == 3
    assert "│" not in page


def test_markdown_shows_run_after_run() -> None:
    page = shown("markdown", *THREAD)

    assert page.count("**Result:** Success") == 3
    assert page.index("First.") < page.index("two?") < page.index("Second.")
    assert ">" not in page


def test_the_graph_has_each_run_as_a_conversation_of_its_own() -> None:
    graph = json.loads(shown("graph", *THREAD))

    assert set(graph["lastNodeByRunId"]) >= {"r1", "r2", "r3"}
    kinds = [node["kind"] for node in graph["nodes"].values()]
    assert kinds.count("harness_start") == kinds.count("harness_end") == 3
    for view in ("mermaid", "dot"):
        assert shown(view, *THREAD).count("start: native") == 3


def test_events_say_who_speaks_in_each_run() -> None:
    lines = [json.loads(line) for line in shown("events", *THREAD).split("\n") if line]

    assert [line["runId"] for line in lines if line["type"] == "harness_start"] == ["r1", "r2", "r3"]
    assert all("parentId" not in line for line in lines)


def test_a_run_that_was_cut_off_does_not_hide_what_follows_it_in_a_thread() -> None:
    cut_off = THREAD[:4]

    page = shown("text", *cut_off, *run("r9", "?", "Later.", 1))

    assert page.endswith("Later.\n")


def test_a_run_that_waits_is_not_the_parent_of_the_next() -> None:
    lineage = RunTree()
    for event in (SessionStart(run_id="a"), Suspended(run_id="a"), SessionStart(run_id="b")):
        lineage.feed(event)

    assert (lineage.depth("a"), lineage.depth("b")) == (0, 0)


def test_waiting_and_going_on_are_lines_of_the_transcript() -> None:
    events: list[Event] = [
        SessionStart(run_id="r", agent="native"),
        ToolStart(call_id="c", tool_name="ask_user", run_id="r"),
        Relay(id="q", kind="question", call_id="c", tool_name="ask_user", question="Which?", run_id="r"),
        Suspended(run_id="r"),
        RelayReply(id="q", approved=True, answer="that", run_id="r"),
        Resumed(run_id="r"),
        ToolEnd(call_id="c", tool_name="ask_user", success=True, run_id="r"),
        Result(success=True, run_id="r"),
    ]

    page = shown("transcript", *events)

    places = [page.index(text) for text in ("? Which?", "· waits for an answer", "› that", "· continues")]
    assert places == sorted(places)


def test_words_of_a_person_that_come_as_a_signal_look_like_a_prompt() -> None:
    event = Signal(
        id="s", category="user", tag_name="user", contents="Stop that.", attributes={"from": "web"}
    )

    assert "❯ Stop that." in shown("transcript", event)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("text", ["", "x", "\ud800 half", "many\nlines"])
def test_whatever_is_steered_every_view_shows_it_or_passes_it_over(view: str, text: str) -> None:
    events: list[Event] = steered(text)
    mixed: list[Any] = [*THREAD[:4], *events, *THREAD[4:], *events]

    for options in (ViewOptions(), ViewOptions(live=True, reasoning=True, usage=True)):
        stage = import_module(f"harness.views.{view}").open(options)
        pieces = [piece for event in mixed for piece in stage.feed(event)]
        b"".join([*pieces, *stage.finish()]).decode()
