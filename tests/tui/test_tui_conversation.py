"""The conversation pane shows what the transcript view writes, whatever pieces it comes in."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.events import Event, Message, Result, SessionStart, TextDelta, ToolEnd, ToolStart
from harness.events.operation import Command, Spawn
from harness.stage import ViewOptions, feed_all
from harness.tui.lines import COLOURED, parts_of, strip_of, text_of
from harness.tui.transcript_lines import TranscriptLines
from harness.views import transcript
from scripted_inbox import ScriptedInbox, checkout_log, twelve_rows
from terminal_screen import Seen, drive, still

__all__ = ["still"]


def stamped(events: list[Event], run: str = "run") -> list[Event]:
    return [
        replace(event, seq=at, run_id=event.run_id or run, timestamp_ms=at) for at, event in enumerate(events)
    ]


def with_child() -> list[Event]:
    spawn = ToolStart(call_id="s1", tool_name="Task", operations=[Spawn(name="reviewer", task="review it")])
    return stamped(
        [
            SessionStart(session_id="s", agent="claude", cwd="/code"),
            Message(role="user", text="go"),
            spawn,
            SessionStart(session_id="c", agent="claude", run_id="child", parent_id="s1"),
            ToolStart(call_id="x", tool_name="Bash", operations=[Command(command="ls")], run_id="child"),
            ToolEnd(call_id="x", tool_name="Bash", success=True, output="a", run_id="child"),
            Message(role="assistant", text="looks good", run_id="child"),
            Result(success=True, text="", outcome="completed", run_id="child"),
            ToolEnd(call_id="s1", tool_name="Task", success=True, output="fine"),
            TextDelta(id="t", text="All is fine now."),
            Message(role="assistant", id="t", text="All is fine now."),
        ]
    )


@pytest.mark.parametrize("log", [checkout_log(), with_child()], ids=["calls", "sub-agent"])
def test_the_lines_are_those_of_the_view_however_the_events_arrive(log: list[Event]) -> None:
    view = transcript.open(ViewOptions(color=True, width=60))
    whole = b"".join([*feed_all(view, log), *view.finish()]).decode()
    for seed in range(20):
        chance = random.Random(seed)
        lines = TranscriptLines(60)
        at = 0
        while at < len(log):
            step = chance.randint(1, 4)
            lines.feed(log[at : at + step])
            at += step
        assert len(lines.lines) == len(lines.tags)
        assert whole.startswith("\n".join(lines.lines))


def test_what_is_not_finished_is_replaced_by_what_comes() -> None:
    lines = TranscriptLines(60)
    lines.feed(checkout_log())
    assert "cart package to be" in lines.tail
    lines.feed(
        stamped(
            [Message(role="assistant", id="t2", text="Understood. I run only the cart package to be sure.")]
        )
    )
    assert lines.lines[-1] == "Understood. I run only the cart package to be sure."
    assert "pnpm test" in lines.tail, "the call that runs"
    lines.feed([ToolEnd(call_id="c4", tool_name="Bash", success=True, run_id="run")])
    assert (lines.tail, "pnpm test" in lines.lines[-1]) == ("", True)


def test_a_call_is_found_by_its_line() -> None:
    lines = TranscriptLines(60)
    lines.feed(checkout_log())
    at = next(at for at, line in enumerate(lines.lines) if "edit" in line)
    tag = lines.tags[at]
    assert tag.call_id == "c3"
    assert lines.calls[tag.run_id, tag.call_id] == (8, 9)


@pytest.mark.usefixtures("still")
def test_a_sub_agent_is_folded_and_unfolded() -> None:
    data = ScriptedInbox(twelve_rows()[4:5], {"gift": with_child()})

    async def script(seen: Seen) -> None:
        await seen.shows("looks good")
        await seen.press("enter")
        while seen.screen.pane.tag is None or not seen.screen.pane.tag.spawns:
            await seen.press("k")
        await seen.press("enter")
        await seen.shows("lines, ↵ opens")
        assert "looks good" not in seen.text
        assert "All is fine now." in seen.text
        await seen.press("enter")
        await seen.shows("looks good")

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_the_end_is_followed_until_the_reader_scrolls_away() -> None:
    start = stamped([SessionStart(session_id="s", agent="claude"), Message(role="user", text="count")])
    data = ScriptedInbox(twelve_rows()[4:5], {"gift": start})

    async def script(seen: Seen) -> None:
        data.say("gift", *(Message(role="assistant", text=f"line {n}", run_id="run") for n in range(100)))
        await seen.shows("line 99")
        await seen.press("enter", "b")
        data.say("gift", Message(role="assistant", text="line 100", run_id="run"))
        await seen.until(lambda: any("line 100" in line for line in seen.screen.pane.text.lines))
        assert "line 100" not in seen.text
        await seen.press("G")
        await seen.shows("line 100")
        data.say("gift", Message(role="assistant", text="line 101", run_id="run"))
        await seen.shows("line 101")

    drive(data, script)


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2J\x1b]0;evil\x07",
        "\x9b31m",
        "a\rb",
        "a\u202eb",
        "\ud800",
        "tab\there",
        "wide 漢字 👩‍👩‍👧 x",
        "e\u0301" * 50,
    ],
)
def test_no_text_leaves_its_line_or_commands_the_terminal(text: str) -> None:
    for width in (1, 7, 40):
        strip = strip_of([("bold", text), ("", "after")], width, COLOURED)
        shown = "".join(segment.text for segment in strip)
        assert strip.cell_length == width
        assert all(ord(letter) >= 0x20 and not 0x7F <= ord(letter) < 0xA0 for letter in shown)
        assert "\u202e" not in shown


def test_painted_lines_are_parts() -> None:
    assert parts_of("\x1b[36m⌕ \x1b[0m\x1b[2msearch \x1b[0mx") == [
        ("cyan", "⌕ "),
        ("dim", "search "),
        ("", "x"),
    ]
    assert text_of(parts_of("plain")) == "plain"


RECORDED = sorted((Path(__file__).parents[1] / "agents").glob("*/*/*/events.ndjson"))


@pytest.mark.parametrize("path", RECORDED[::9], ids=lambda path: "/".join(path.parts[-4:-1]))
def test_every_line_of_a_recording_can_be_drawn(path: Path) -> None:
    from harness.log.codec import decode_lines

    data = path.read_bytes()
    events = list(decode_lines(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data))
    lines = TranscriptLines(57)
    lines.feed([replace(event, seq=at) for at, event in enumerate(events)])
    for line in (*lines.lines, lines.tail):
        assert strip_of(parts_of(line), 58, COLOURED).cell_length == 58
