"""Every key that `?` lists does what its help says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from harness.clients.commands import AnswerCommand, Approve, Cancel, Deny, Steer, Submit
from harness.tui import actions, screens
from harness.tui.keys import KEYS
from scripted_inbox import ABLE, ScriptedInbox, checkout_log, twelve_rows
from terminal_screen import Seen, drive, still
from test_tui_fleet import fleet_view

__all__ = ["still"]

Check = Callable[[Seen], Awaitable[None]]
CHECKS: dict[tuple[str, str], Check] = {}
"""Where and label of a key → its test."""


def key(where: str, label: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        CHECKS[where, label] = check
        return check

    return add


def test_every_key_has_a_test() -> None:
    assert {(one.where, one.label) for one in KEYS} == CHECKS.keys()


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("one", KEYS, ids=lambda one: f"{one.where} {one.label}")
def test_a_key_does_what_its_help_says(one: object) -> None:
    check = CHECKS[one.where, one.label]  # type: ignore[attr-defined]
    data = ScriptedInbox(twelve_rows(), {"checkout": checkout_log()})

    async def script(seen: Seen) -> None:
        await seen.shows("the cart package to be")
        await check(seen)

    drive(data, script, size=(100, 40))


def selected(seen: Seen) -> str:
    return seen.screen.list.selected


async def select(seen: Seen, id: str) -> None:
    seen.screen.select(id)
    await seen.settle()


@key("everywhere", "j ↓")
async def _(seen: Seen) -> None:
    await seen.press("j", "down")
    assert selected(seen) == "quickstart"


@key("everywhere", "k ↑")
async def _(seen: Seen) -> None:
    await seen.press("j", "j", "k", "up")
    assert selected(seen) == "checkout"


@key("everywhere", "g")
async def _(seen: Seen) -> None:
    await seen.press("j", "j", "g")
    assert selected(seen) == "checkout"
    await seen.press("tab", "g")
    assert seen.screen.pane.cursor == 0


@key("everywhere", "G")
async def _(seen: Seen) -> None:
    await seen.press("G")
    assert selected(seen) == "firewall"
    await seen.press("g")
    await seen.shows("the cart package to be")
    await seen.press("tab", "g", "G")
    assert seen.screen.pane.cursor == -1


@key("everywhere", "space")
async def _(seen: Seen) -> None:
    await seen.press("space")
    assert selected(seen) == "firewall"


@key("everywhere", "b")
async def _(seen: Seen) -> None:
    await seen.press("G", "b")
    assert selected(seen) == "checkout"


@key("everywhere", "tab")
async def _(seen: Seen) -> None:
    await seen.press("tab")
    assert seen.screen.focused is seen.screen.pane
    await seen.press("tab")
    assert seen.screen.focused is seen.screen.list


@key("everywhere", "↵")
async def _(seen: Seen) -> None:
    await seen.press("enter")
    assert seen.screen.focused is seen.screen.pane
    while seen.screen.pane.tag is None or seen.screen.pane.tag.call_id != "c2":
        await seen.press("k")
    await seen.press("enter")
    await seen.shows("export function total() {}")


@key("everywhere", "esc")
async def _(seen: Seen) -> None:
    await seen.press("enter", "escape")
    assert seen.screen.focused is seen.screen.list


@key("everywhere", "/")
async def _(seen: Seen) -> None:
    await seen.press("slash")
    await seen.write("infra")
    await seen.shows("RUNNING 2")
    assert "checkout test" not in seen.text
    await seen.press("escape")
    assert selected(seen) == "checkout"
    await seen.shows("the cart package to be")
    await seen.press("tab", "slash")
    await seen.write("total")
    await seen.shows("2 lines · ↵ next")
    first = seen.screen.pane.cursor
    await seen.press("enter")
    assert seen.screen.pane.cursor > first


@key("everywhere", "?")
async def _(seen: Seen) -> None:
    await seen.press("question_mark")
    await seen.shows("answer all that ask the same")
    await seen.press("escape")
    await seen.shows("NEEDS YOU")


@key("everywhere", "q")
async def _(seen: Seen) -> None:
    seen.data.hosted = 1
    await seen.press("q")
    await seen.shows("1 conversation runs in this program: q again stops them and quits")
    assert seen.app.is_running
    seen.data.hosted = 0
    await seen.pilot.press("q")
    assert seen.app.return_value == 0


@key("everywhere", "y")
async def _(seen: Seen) -> None:
    await seen.press("y")
    assert seen.data.sent == [("checkout", Approve(relay_id="a1", arguments_hash="hash-a1"))]
    await seen.shows("Allowed once")


@key("everywhere", "a")
async def _(seen: Seen) -> None:
    await seen.press("a")
    assert seen.data.sent == [
        ("checkout", Approve(relay_id="a1", arguments_hash="hash-a1", option_id="always"))
    ]


@key("everywhere", "p")
async def _(seen: Seen) -> None:
    await seen.press("p")
    assert seen.data.sent == [
        ("checkout", Approve(relay_id="a1", arguments_hash="hash-a1", option_id="pattern"))
    ]


@key("everywhere", "n")
async def _(seen: Seen) -> None:
    await seen.press("n")
    assert seen.data.sent == [("checkout", Deny(relay_id="a1", arguments_hash="hash-a1"))]
    await seen.shows("Denied")


@key("everywhere", "e")
async def _(seen: Seen) -> None:
    await seen.press("e")
    await seen.write("not now")
    await seen.press("enter")
    assert seen.data.sent == [("checkout", Deny(relay_id="a1", arguments_hash="hash-a1", reason="not now"))]
    await select(seen, "quickstart")
    await seen.press("e")
    await seen.write("yarn")
    await seen.press("enter")
    assert seen.data.sent[1:] == [
        ("quickstart", AnswerCommand(relay_id="a3", arguments_hash="hash-a3", answer="yarn"))
    ]


@key("everywhere", "v")
async def _(seen: Seen) -> None:
    await seen.press("v")
    await seen.shows("call: call-a1")


@key("everywhere", "1–9")
async def _(seen: Seen) -> None:
    await select(seen, "quickstart")
    await seen.press("3")
    await seen.shows("There is no answer 3")
    await seen.press("2")
    assert seen.data.sent == [
        ("quickstart", AnswerCommand(relay_id="a3", arguments_hash="hash-a3", answer="npm"))
    ]


@key("everywhere", "Y")
async def _(seen: Seen) -> None:
    await seen.press("Y")
    await seen.shows("$ pnpm test --filter basket")
    assert seen.data.sent == []
    await seen.press("y")
    await seen.settle()
    assert seen.data.sent == [
        ("checkout", Approve(relay_id="a1", arguments_hash="hash-a1")),
        ("basket", Approve(relay_id="a4", arguments_hash="hash-a4")),
    ]


@key("everywhere", "s")
async def _(seen: Seen) -> None:
    await select(seen, "gift")
    await seen.press("s")
    await seen.write("only gifts")
    await seen.press("enter")
    assert seen.data.sent == [("gift", Steer(message="only gifts"))]


@key("everywhere", "f")
async def _(seen: Seen) -> None:
    await select(seen, "gift")
    await seen.press("f")
    await seen.write("then test")
    await seen.press("enter")
    assert seen.data.sent == [("gift", Submit(prompt="then test"))]
    await seen.shows("Queued for after this run")


@key("everywhere", "m")
async def _(seen: Seen) -> None:
    await select(seen, "rounding")
    await seen.press("m")
    await seen.write("once more")
    await seen.press("enter")
    assert seen.data.sent == [("rounding", Submit(prompt="once more"))]


@key("everywhere", "x")
async def _(seen: Seen) -> None:
    await select(seen, "gift")
    await seen.press("x")
    await seen.shows("Stop “gift cards”? x again stops it")
    assert seen.data.sent == []
    await seen.press("x")
    assert seen.data.sent == [("gift", Cancel())]


@key("everywhere", "z")
async def _(seen: Seen) -> None:
    await select(seen, "gift")
    await seen.press("z")
    await seen.shows("docs/1.md")
    await seen.press("escape")
    assert seen.data.undone == []
    await seen.press("z")
    await seen.shows("Taken back: 1 file")
    assert seen.data.undone == [("gift", "digest", False)]
    await select(seen, "checkout")
    await seen.press("z")
    await seen.shows("docs/1.md")
    await seen.press("escape")
    await select(seen, "gift")
    await seen.press("z")  # what was shown was of another session
    await seen.shows("docs/1.md")
    assert len(seen.data.undone) == 1


@key("everywhere", "Z")
async def _(seen: Seen) -> None:
    await seen.press("Z")
    await seen.shows("docs/1.md")
    await seen.press("escape", "Z")
    await seen.shows("Brought back: 1 file")
    assert seen.data.undone == [("checkout", "digest", True)]


@key("everywhere", "X")
async def _(seen: Seen) -> None:
    gift = next(row for row in seen.data.now if row.id == "gift")
    seen.data.change(replace(gift, queued=2))
    await seen.until(lambda: seen.screen.rows["gift"].queued == 2)
    await select(seen, "gift")
    await seen.press("X")
    await seen.shows("its queue of 2 messages is cleared")
    await seen.press("X")
    assert seen.data.sent == [("gift", Cancel(queue="clear"))]


@key("everywhere", "d")
async def _(seen: Seen) -> None:
    await seen.press("d")
    await seen.shows("+ price * count")


@key("everywhere", "c")
async def _(seen: Seen) -> None:
    await seen.press("c")
    await seen.until(lambda: isinstance(seen.app.screen, screens.StartScreen))
    await seen.shows("‹ Claude Code ›")
    await seen.write("tidy up")
    await seen.press("enter")
    setup, prompt = seen.data.started[0]
    assert (setup.agent, setup.permission_mode, setup.cwd, prompt) == (
        "claude",
        "default",
        "/code/shop",
        "tidy up",
    )
    assert selected(seen) == "new"


@pytest.mark.usefixtures("still")
def test_a_new_conversation_is_confined_where_that_is_chosen() -> None:
    data = ScriptedInbox(twelve_rows(), {"checkout": checkout_log()})

    async def script(seen: Seen) -> None:
        await seen.shows("the cart package to be")
        await seen.press("c")
        await seen.shows("‹ Claude Code ›")
        await seen.shows("confined    ‹ no ›")
        await seen.write("tidy up")
        await seen.press("tab", "down", "down", "right")
        await seen.shows("‹ to the folder (namespaces) ›")
        await seen.press("down", *"gpt", "down", "down", "enter")
        setup, _ = data.started[0]
        assert (setup.sandbox, setup.model) == (True, "gpt")

    drive(data, script, size=(100, 40))


@pytest.mark.usefixtures("still")
def test_where_nothing_can_confine_a_conversation_that_is_said_before_it_starts() -> None:
    data = ScriptedInbox(twelve_rows(), {"checkout": checkout_log()})
    data.walls = ("", "there is no sandbox here that would do")

    async def script(seen: Seen) -> None:
        await seen.shows("the cart package to be")
        await seen.press("c")
        await seen.shows("‹ no: there is no sandbox here that would do ›")
        await seen.write("tidy up")
        await seen.press("enter")
        assert data.started[0][0].sandbox is False

    drive(data, script, size=(100, 40))


@key("everywhere", "r")
async def _(seen: Seen) -> None:
    await seen.press("r")
    await seen.shows("what was new in call 2")


@key("everywhere", "u")
async def _(seen: Seen) -> None:
    await seen.press("u")
    await seen.shows("claude  12        $4.81")


@key("conversation", "[")
async def _(seen: Seen) -> None:
    await seen.press("tab", "left_square_bracket")
    assert "only the cart package" in line_at_cursor(seen)
    await seen.press("left_square_bracket")
    assert "The checkout test fails" in line_at_cursor(seen)


@key("conversation", "]")
async def _(seen: Seen) -> None:
    await seen.press("tab", "g", "right_square_bracket")
    assert "The checkout test fails" in line_at_cursor(seen)
    await seen.press("right_square_bracket")
    assert "only the cart package" in line_at_cursor(seen)


def line_at_cursor(seen: Seen) -> str:
    pane = seen.screen.pane
    return pane.make(pane.cursor, 80).text


@key("text", "↵")
async def _(seen: Seen) -> None:
    await select(seen, "gift")
    await seen.press("m")
    await seen.write("quick")
    await seen.press("enter")
    assert seen.data.sent == [("gift", Steer(message="quick"))]


@key("text", "alt-↵")
async def _(seen: Seen) -> None:
    await select(seen, "gift")
    await seen.press("m")
    await seen.write("later")
    await seen.press("alt+enter")
    assert seen.data.sent == [("gift", Submit(prompt="later"))]


@key("text", "ctrl-j")
async def _(seen: Seen) -> None:
    await seen.press("m")
    await seen.write("one")
    await seen.press("ctrl+j")
    await seen.write("two")
    assert seen.screen.composer.text == "one\ntwo"


@key("text", "↑")
async def _(seen: Seen) -> None:
    await select(seen, "gift")
    await seen.press("m")
    await seen.write("first")
    await seen.press("enter", "m", "up")
    assert seen.screen.composer.text == "first"
    await seen.press("down")
    assert seen.screen.composer.text == ""


@key("text", "tab")
async def _(seen: Seen) -> None:
    await seen.press("m")
    await seen.write("look at @tot")
    await seen.shows("src/total.ts")
    await seen.press("tab")
    assert seen.screen.composer.text == "look at @src/total.ts "


@key("text", "ctrl-g")
async def _(seen: Seen) -> None:
    given: list[str] = []

    def edit(text: str, environ: object) -> str:
        given.append(text)
        return "written elsewhere"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actions, "edited", edit)
        patch.setattr(seen.app, "suspend", _nothing)
        await seen.press("m")
        await seen.write("draft")
        await seen.press("ctrl+g")
    assert given == ["draft"]
    assert seen.screen.composer.text == "written elsewhere"


@contextmanager
def _nothing():  # type: ignore[no-untyped-def]
    yield


@key("text", "esc")
async def _(seen: Seen) -> None:
    await seen.press("m")
    await seen.write("half a thou")
    await seen.press("escape")
    await select(seen, "gift")
    assert "half a thou" not in seen.text
    await seen.press("m")
    assert seen.screen.composer.text == ""
    await seen.press("escape")
    await select(seen, "checkout")
    await seen.shows("> half a thou")
    await seen.press("m")
    assert seen.screen.composer.text == "half a thou"
    assert seen.data.sent == []


def test_an_unsupported_command_is_reported_and_not_sent() -> None:
    data = ScriptedInbox([replace(row, can=replace(ABLE, answer=False, steer=False, submit=False, cancel=False))
                          for row in twelve_rows()])  # fmt: skip

    async def script(seen: Seen) -> None:
        for pressed, words in (
            ("y", "It cannot be answered from here: answer it in"),
            ("s", "It takes no messages while it works"),
            ("f", "It takes no messages from here"),
            ("x", "It cannot be stopped from here"),
        ):
            await seen.press(pressed)
            await seen.shows(words)
        assert data.sent == []

    drive(data, script)


async def fleet_of(seen: Seen) -> None:
    seen.data.fleet_source.views = {"shop": fleet_view()}
    await seen.press("F")
    await seen.shows("greeting")


@key("everywhere", "F")
async def _(seen: Seen) -> None:
    await fleet_of(seen)
    await seen.shows("shop  running")


@key("fleet", "h j k l")
async def _(seen: Seen) -> None:
    await fleet_of(seen)
    await seen.press("j", "l", "k", "h", "down", "right")
    await seen.shows("▶ the readme of the shop")
    await seen.shows("waiting")


@key("fleet", "↵")
async def _(seen: Seen) -> None:
    await fleet_of(seen)
    await seen.press("enter")
    await seen.shows("harness sessions show session0")


@key("fleet", "=")
async def _(seen: Seen) -> None:
    await fleet_of(seen)
    await seen.press("equals_sign")
    await seen.shows("claude and codex have no scored task in common")


@key("fleet", "x")
async def _(seen: Seen) -> None:
    await fleet_of(seen)
    await seen.press("x", "x")
    assert seen.data.fleet_source.stopped == [("shop", False)]


@key("fleet", "X")
async def _(seen: Seen) -> None:
    await fleet_of(seen)
    await seen.press("X", "X")
    assert seen.data.fleet_source.stopped == [("shop", True)]
