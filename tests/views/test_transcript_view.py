"""The transcript is calm, complete, and safe to look at."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from harness.events import (
    Compacted,
    Error,
    Event,
    Info,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Unrecognized,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import (
    Command,
    Fetch,
    List,
    Operation,
    Read,
    Search,
    Skill,
    Spawn,
    Tasks,
    Write,
)
from harness.formatting.columns import columns
from harness.stage import ViewOptions
from harness.views.transcript import Transcript
from showing import shown, shown_bytes
from steered import steered

TOP = SessionStart(agent="claude", model="opus", version="2.1", cwd="/home/me/code/app")


def page(*events: Event, **options: Any) -> str:
    return shown("transcript", *events, **options)


def call(
    operation: Operation, *, success: bool | None = True, call_id: str = "c", **end: Any
) -> tuple[Event, Event]:
    return (
        ToolStart(call_id=call_id, tool_name="t", operations=[operation]),
        ToolEnd(call_id=call_id, tool_name="t", success=success, **end),
    )


def test_a_whole_run_reads_from_top_to_bottom() -> None:
    assert page(
        TOP,
        Message(role="user", text="Fix the bug"),
        TextDelta(id="m1", text="I'll look"),
        TextDelta(id="m1", text=" first."),
        Message(role="assistant", id="m1", text="I'll look first."),
        *call(Read(path="/home/me/code/app/src/main.py", start_line=10, end_line=20)),
        *call(Command(command="npm test"), success=False, exit_code=3, output="FAIL a\nFAIL b\n"),
        Message(role="assistant", id="m2", text="It is broken."),
        Warning(message="a retry"),
        UsageDelta(usage=Usage(input=1200, cache_read=800, output=40, reasoning=2, cost_usd=0.0426)),
        Result(success=True, text="It is broken.", duration_ms=12_340, turns=2),
    ) == (
        "claude · 2.1 · opus · …/code/app\n"
        "\n"
        "\u276f Fix the bug\n"
        "\n"
        "I'll look first.\n"
        "\n"
        "⏺ read src/main.py:10-20  ✓\n"
        "$ npm test  ✗ exit 3\n"
        "    FAIL a\n"
        "    FAIL b\n"
        "\n"
        "It is broken.\n"
        "\n"
        "! a retry\n"
        "\n"
        "✓ completed · 12.3s · 2 turns · 2.0k in (800 cached) / 42 out · $0.043\n"
    )


@pytest.mark.parametrize(
    ("operation", "line"),
    [
        (Command(command="cd x &&\nmake\n"), "$ cd x && … (+1 line)  ✓"),
        (Command(command="/bin/bash -lc 'make test'"), "$ make test  ✓"),
        (Command(command="bash -lc 'make"), "$ bash -lc 'make  ✓"),
        (Command(command="bash -c ls x"), "$ bash -c ls x  ✓"),
        (Read(path="/home/me/code/app"), "⏺ read .  ✓"),
        (Read(path="/etc/hosts", start_line=3), "⏺ read /etc/hosts:3-  ✓"),
        (Write(path="a.py"), "✎ write a.py  ✓"),
        (Write(path="a.py", change="create", start_line=1, end_line=1), "✎ create a.py:1  ✓"),
        (Write(path="a.py", change="update"), "✎ edit a.py  ✓"),
        (Search(query="foo", path="src"), "⌕ search foo in src  ✓"),
        (List(), "≡ list .  ✓"),
        (List(path="src"), "≡ list src  ✓"),
        (Skill(path="/s/SKILL.md", name="greet"), "✦ skill greet  ✓"),
        (Fetch(url="http://a.b"), "⇣ fetch http://a.b  ✓"),
        (Fetch(query="news"), "⇣ search the web news  ✓"),
        (Spawn(name="Explore", task="look"), "⇢ sub-agent Explore: look  ✓"),
        (Spawn(agent_id="7", action="completed"), "⇢ sub-agent 7 completed  ✓"),
    ],
)
def test_each_operation_has_its_own_line(operation: Operation, line: str) -> None:
    assert page(TOP, *call(operation)).split("\n")[-2] == line


def test_the_list_of_tasks_is_shown_and_that_it_was_written_is_not() -> None:
    tasks = [Task(text="one", status="in_progress"), Task(text="two")]
    done = [Task(text="one", status="completed"), Task(text="two")]

    assert page(*call(Tasks()), TasksChanged(tasks=tasks), TasksChanged(tasks=done)) == (
        "▸ one\n☐ two\n☑ one\n"
    )


def test_a_call_without_a_known_meaning_is_shown_by_name_and_input() -> None:
    text = page(
        ToolStart(call_id="c", tool_name="mcp__x", input={"q": "a\nb", "n": [1]}),
        ToolEnd(call_id="c", tool_name="mcp__x"),
    )

    assert text == "• mcp__x q: a b, n: [1]\n"


def test_one_call_may_do_several_things_and_fail_at_one() -> None:
    text = page(
        ToolStart(call_id="c", tool_name="t", operations=[Command(command="?")]),
        ToolEnd(
            call_id="c",
            tool_name="t",
            success=False,
            operations=[Write(path="a", success=True), Write(path="b")],
        ),
    )

    assert text == "✎ write a  ✓\n✎ write b  ✗\n"


def test_a_slow_call_says_how_long_it_took() -> None:
    start = ToolStart(call_id="c", tool_name="t", operations=[Command(command="make")], timestamp_ms=1000)
    end = ToolEnd(call_id="c", tool_name="t", success=True, timestamp_ms=63_000)

    assert page(start, end) == "$ make  ✓  1m 02s\n"


def test_a_long_failure_is_cut_short() -> None:
    output = "\n".join(f"line {number}" for number in range(100))
    lines = page(*call(Command(command="x"), success=False, output=output)).split("\n")

    assert lines[1] == "    line 0"
    assert lines[5:] == ["    line 4", "    … 95 more lines", ""]


def test_a_sub_agent_works_below_its_call() -> None:
    assert page(
        TOP,
        ToolStart(call_id="c1", tool_name="Task", operations=[Spawn(name="Explore", task="Look around")]),
        SessionStart(run_id="kid", parent_id="c1", name="Explore"),
        Message(role="user", text="Look around", run_id="kid"),
        TextDelta(id="k", text="Found it", run_id="kid"),
        ToolStart(call_id="c2", tool_name="t", run_id="kid", operations=[List(path="src")]),
        ToolEnd(call_id="c2", tool_name="t", run_id="kid", success=True),
        Message(role="assistant", id="k", text="Found it", run_id="kid"),
        Result(success=True, text="Found it", run_id="kid", duration_ms=2100),
        ToolEnd(call_id="c1", tool_name="Task", success=True, output="Found it"),
        *call(Command(command="ls"), call_id="c3"),
    ).partition("\n\n")[2] == (
        "⇢ sub-agent Explore: Look around\n"
        "  │ ≡ list src  ✓\n"
        "  │ Found it\n"
        "  └ ✓ Look around · 2.1s\n"
        "$ ls  ✓\n"
    )


def test_sub_agents_at_the_same_time_are_shown_separately() -> None:
    events: list[Event] = [TOP]
    for letter in "AB":
        spawn = Spawn(name="general", task=f"Job {letter}")
        events += [
            ToolStart(call_id=letter, tool_name="Task", operations=[spawn]),
            SessionStart(run_id=f"run-{letter}", parent_id=letter),
        ]
    for letter in "AAB":
        events += [
            ToolStart(call_id="x", tool_name="t", run_id=f"run-{letter}", operations=[List()]),
            ToolEnd(call_id="x", tool_name="t", run_id=f"run-{letter}", success=True),
        ]

    assert page(*events).partition("\n\n")[2] == (
        "⇢ sub-agent general: Job A\n"
        "⇢ sub-agent general: Job B\n"
        "⇢ Job A\n"
        "  │ ≡ list .  ✓\n"
        "  │ ≡ list .  ✓\n"
        "⇢ Job B\n"
        "  │ ≡ list .  ✓\n"
    )


def test_notices_are_marked_wrapped_and_short() -> None:
    assert page(
        Error(message="first\nsecond", code="x"),
        Info(message="by the way"),
        Compacted(before_tokens=150_000, after_tokens=9_000),
        Unknown(raw={"type": "new_thing", "x": "y" * 500}),
        Unknown(raw="garbage", reason="no JSON"),
        Unrecognized(unread={"type": "Later"}),
        width=60,
    ) == (
        "✗ first\n"
        "  second\n"
        "· by the way\n"
        "↯ context compacted (150.0k → 9.0k tokens)\n"
        "? not understood: type: new_thing, x: yyyyyyyyyyyyyyyyyyyyy…\n"
        "? no JSON: garbage\n"
        "? of a newer version: Later\n"
    )


def test_retracted_text_is_marked_as_such() -> None:
    assert page(TextDelta(id="a", text="This is cut o"), TextRetracted(id="a"), TextRetracted(id="b")) == (
        "This is cut o\n\n↺ cut off and asked again; the text above is withdrawn\n"
    )


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (Result(success=False, outcome="failed", exit_code=1), "✗ failed · exit 1"),
        (Result(success=False, outcome="timed_out", signal=9), "✗ timed out · signal 9"),
        (Result(success=False, outcome="interrupted"), "■ interrupted"),
        (Result(success=True, turns=1), "✓ completed · 1 turn"),
    ],
)
def test_the_last_line_says_how_it_ended(result: Result, line: str) -> None:
    assert page(TOP, result).split("\n")[-2] == line


def test_an_answer_that_is_only_in_the_result_is_shown() -> None:
    assert "\n42\n" in page(TOP, Result(success=True, text="42"))


def test_reasoning_is_shown_only_on_request() -> None:
    events = [ReasoningDelta(id="r", text="Let me "), ReasoningDelta(id="r", text="think.")]

    assert page(*events) == ""
    assert page(*events, reasoning=True) == "Let me think.\n"


def test_what_was_open_when_the_log_breaks_off_is_shown() -> None:
    assert page(TextDelta(text="half a wor"), call(Command(command="sleep 9"))[0]) == (
        "half a wor\n\n$ sleep 9\n"
    )


def test_color_is_used_only_when_asked_for_and_never_crosses_a_line() -> None:
    events = [TOP, *call(Command(command="x"), success=False), Error(message="a\nb"), Warning(message="c")]

    assert "\x1b" not in page(*events)
    colored = page(*events, color=True)
    assert "\x1b[31m✗ \x1b[0m\x1b[31ma\x1b[0m\n" in colored
    assert "\x1b[33mc\x1b[0m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == page(*events)
    for line in colored.split("\n"):
        assert line.count("\x1b[0m") * 2 == line.count("\x1b[")


def test_a_live_terminal_shows_what_is_going_on_and_removes_it_again() -> None:
    view = Transcript(ViewOptions(live=True))
    start, end = call(Command(command="make"))

    assert view.feed(start) == ("⋯ $ make".encode(),)
    assert view.feed(ToolProgress(call_id="c", text="1\n2\n")) == ("\r\x1b[K⋯ $ make — 2".encode(),)
    assert view.feed(UsageDelta(usage=Usage(input=1))) == ()
    assert view.feed(end) == ("\r\x1b[K$ make  ✓\n".encode(),)
    assert view.feed(ReasoningDelta(text="hm")) == ("⋯ thinking".encode(),)
    assert view.feed(ReasoningDelta(text="hm")) == ()
    assert view.feed(TextDelta(text="so it is")) == (b"\r\x1b[K\nso it",)
    assert view.finish() == (b" is\n",)


HOSTILE = {
    "clipboard": "\x1b]52;c;ZWNobyBwd25lZA==\x07",
    "title": "\x1b]0;owned\x1b\\",
    "link": "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "cursor": "\x1b[2J\x1b[H\x1b[1A\rfake",
    "c1": "\x9b31m\x9d52;c;eA==\x9c\x85",
    "bidi": "\u202eexe.txt\u202c \u2066x\u2069",
    "bell, backspace, null, delete": "\x07\x08\x00\x7f",
    "half a character": "\ud83d",
}
SAFE_CONTROLS = {"\n"}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("live", [False, True])
def test_no_text_of_an_agent_can_command_the_terminal(hostile: str, live: bool) -> None:
    text = shown_bytes("transcript", hostile_events(hostile), width=200, live=live).decode()
    text = text.replace("\r\x1b[K", "")

    commanding = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
    assert not commanding.findall(text)


def test_escapes_are_shown() -> None:
    assert page(TextDelta(text="\x1b]52;c;eA==\x07 \x9b1A \u202etxt")) == (
        "␛]52;c;eA==␇ <U+009B>1A <U+202E>txt\n"
    )


def hostile_events(text: str) -> list[Event]:
    """Every event of the vocabulary with that text wherever text can be."""
    operations: list[Operation] = [
        Command(command=text, cwd=text),
        Read(path=text),
        Write(path=text, change=text),
        Search(query=text, path=text),
        List(path=text),
        Skill(path=text, name=text),
        Fetch(url=text, query=text),
        Spawn(agent_id=text, name=text, task=text, action=text),
        Tasks(),
    ]
    assert {type(operation) for operation in operations} == set(get_args(Operation))
    return [
        Warning(message=text, code=text),
        SessionStart(agent=text, model=text, cwd=text, version=text, session_id=text),
        Message(role="user", text=text),
        Message(role="system", text=text),
        TextDelta(id="a", text=text),
        TextRetracted(id="a"),
        ReasoningDelta(text=text),
        Message(role="assistant", text=text),
        ToolStart(call_id=text, tool_name=text, operations=operations),
        SessionStart(run_id="kid", parent_id=text, name=text, agent=text),
        Message(role="assistant", text=text, run_id="kid"),
        ToolStart(call_id="x", tool_name=text, input={text: text}, run_id="kid"),
        ToolProgress(call_id="x", text=text, run_id="kid"),
        Result(success=False, outcome="failed", text=text, stop_reason=text, run_id="kid"),
        ToolEnd(call_id=text, tool_name=text, success=False, output=text, operations=operations),
        ToolEnd(call_id="never begun", tool_name=text, success=False, output=text),
        TasksChanged(tasks=[Task(text=text)]),
        Compacted(trigger=text),
        Error(message=text, code=text),
        Info(message=text, code=text),
        Unknown(raw={text: text, "type": text}, reason=text),
        Unknown(raw=text),
        Unrecognized(unread={"type": text}),
        UsageDelta(usage=Usage(input=1), model=text),
        *steered(text),
        Result(success=False, outcome="failed", text=text, stop_reason=text),
    ]


@pytest.mark.parametrize("width", [20, 33, 80])
@pytest.mark.parametrize(
    "text", ["word " * 60, "漢字" * 90, "x" * 400, "👨‍👩‍👧 é\u0301 🇩🇪🇫🇷 " * 30, "\t\x1b[1m" * 40]
)
def test_no_line_is_wider_than_the_terminal(text: str, width: int) -> None:
    for line in page(*hostile_events(text), width=width, reasoning=True).split("\n"):
        assert columns(line) <= width, line


def test_what_came_of_a_call_is_below_it_where_results_are_wanted() -> None:
    edit = {"filePath": "/home/me/code/app/a.py", "oldString": "x = 1\ny = 2", "newString": "x = 1\ny = 3"}
    write = Write(path="/home/me/code/app/a.py", change="update", start_line=7, end_line=8)
    events = (
        TOP,
        ToolStart(call_id="e", tool_name="edit", input=edit, operations=[write]),
        ToolEnd(call_id="e", tool_name="edit", success=True, output="a.py changed in 1 place"),
        *call(
            Command(command="seq 30"),
            output="stdout:\n" + "".join(f"{n}\n" for n in range(1, 31)) + "exit code: 0",
            call_id="c",
        ),
        *call(Read(path="/home/me/code/app/b.py"), output="a secret of many lines", call_id="r"),
        *call(Command(command="false"), success=False, output="stdout:\nno\nexit code: 1", call_id="f"),
    )
    plain, whole = page(*events), page(*events, content=True)
    assert "y = 3" not in plain
    assert "    1\n" not in plain
    shown_lines = [line.strip() for line in whole.split("\n")]
    assert "- y = 2" in whole
    assert "+ y = 3" in whole
    at = shown_lines.index("… 22 more lines")
    assert shown_lines[at - 2 : at + 7] == ["1", "2", "… 22 more lines", "25", "26", "27", "28", "29", "30"]
    assert "secret" not in whole
    assert whole.count("no\n") == plain.count("no\n") == 1, "why a call failed is said once"


def test_what_came_of_a_call_cannot_steer_the_terminal() -> None:
    whole = page(TOP, *call(Command(command="cat x"), output="a\x1b[2Jb\rc\u202ed"), content=True)
    assert "\x1b[2J" not in whole
    assert "\r" not in whole
    assert "\u202e" not in whole
