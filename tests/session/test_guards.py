"""Guards stop, replace or pass what goes in and out; hooks observe and change; both are in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import (
    GuardContext,
    Guards,
    HookedCall,
    Hooks,
    Limits,
    Mode,
    Replace,
    RunOutcome,
    Stop,
    ToolOutput,
    WorkspaceConfig,
)
from harness.errors import UsageError
from harness.events import Warning
from harness.session import guards as guards_module
from harness_kit import Model, call, log_of, opened, run
from running_kit import fake_claude

YOLO = {"yolo": True}


async def note(text: str) -> str:
    "Note it."
    return f"noted {text}"


def warnings_of(harness: Any) -> list[str]:
    return [event.code for event in log_of(harness) if isinstance(event, Warning)]


def test_an_input_guard_blocks_or_replaces_the_message() -> None:
    def no_keys(guarded: GuardContext) -> Stop | Replace | None:
        if "sk-" in guarded.text:
            return Stop("a key")
        return Replace(guarded.text.replace("Bob", "B.")) if "Bob" in guarded.text else None

    async def main() -> None:
        model = Model()
        async with opened(model, guards=Guards(input=[no_keys])) as (harness, _):
            blocked = await harness.send_message(content="use sk-123")
            assert (blocked.outcome, blocked.error, blocked.code) == ("blocked", "a key", "blocked")
            assert model.asked == []
            assert (await harness.send_message(content="ask Bob")).success
            assert model.received() == ["ask B."]
            await harness.steer(content="sk-456")
            assert len(model.asked) == 1
            assert warnings_of(harness) == ["guard_stopped", "guard_replaced", "guard_stopped"]
            assert "sk-123" not in str(log_of(harness))

    run(main)


def test_an_output_guard_blocks_or_replaces_the_answer() -> None:
    async def no_pii(guarded: GuardContext) -> Stop | Replace | None:
        if "secret" in guarded.text:
            return Stop("too much")
        return Replace("…") if "name" in guarded.text else None

    async def main() -> None:
        model = Model("a secret", "a name", "fine")
        async with opened(model, guards=Guards(output=[no_pii])) as (harness, _):
            assert (await harness.send_message(content="1")).outcome == "blocked"
            assert (await harness.send_message(content="2")).text == "…"
            assert (await harness.send_message(content="3")).text == "fine"

    run(main)


def test_a_call_guard_sees_what_is_written_before_anybody_is_asked(tmp_path: Path) -> None:
    def only_in_src(guarded: GuardContext) -> Stop | None:
        return Stop("only below src") if any("src" not in path for path in guarded.writes) else None

    async def main() -> None:
        model = Model(
            call("write", filePath="other.py", content="x"),
            call("write", id="c2", filePath="src/a.py", content="x"),
        )
        workspace = WorkspaceConfig(cwd=str(tmp_path))
        guards = Guards(call=[only_in_src])
        async with opened(model, workspace=workspace, guards=guards, initial_state=YOLO) as (harness, record):
            (tmp_path / "src").mkdir()
            await harness.send_message(content="go")
            assert "only below src" in model.results(1)[0]
            assert not (tmp_path / "other.py").exists()
            assert (tmp_path / "src/a.py").exists()
            assert not record.named("tool_approval_required")

    run(main)


def test_replaced_arguments_are_what_a_person_is_asked_about_and_what_runs() -> None:
    async def main() -> None:
        guards = Guards(call=[lambda guarded: Replace({"text": guarded.arguments["text"].upper()})])
        async with opened(Model(call("note", text="a"), "Done."), tools=[note], guards=guards) as (
            harness,
            record,
        ):
            async with harness.stream(content="go") as stream:
                async for event in stream:
                    if event.type == "tool_approval_required":
                        assert event.args == {"text": "A"}
                        event.approve()
            assert record.named("tool_end")[0]["result"] == "noted A"

    run(main)


def test_a_result_guard_withholds_or_cuts_what_a_call_gave() -> None:
    def cut(guarded: GuardContext) -> Stop | Replace:
        return Stop("private") if guarded.arguments["text"] == "b" else Replace("cut")

    async def main() -> None:
        model = Model(call("note", text="a"), call("note", id="c2", text="b"))
        async with opened(model, tools=[note], guards=Guards(result=[cut]), initial_state=YOLO) as (
            harness,
            _,
        ):
            await harness.send_message(content="go")
            assert model.results()[0] == "cut"
            assert "private" in model.results()[1]
            assert "noted" not in str(log_of(harness))

    run(main)


def test_a_guard_that_raises_or_hangs_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards_module, "LONGEST_S", 0.05)

    async def hangs(guarded: GuardContext) -> None:
        await asyncio.Event().wait()

    def raises(guarded: GuardContext) -> None:
        raise RuntimeError("broken")

    async def main() -> None:
        for guard, word in ((hangs, "longer than"), (raises, "broken")):
            async with opened(guards=Guards(input=[guard])) as (harness, _):
                outcome = await harness.send_message(content="go")
                assert outcome.outcome == "blocked"
                assert word in outcome.error

    run(main)


@pytest.mark.parametrize("place", ["input", "output"])
@pytest.mark.parametrize("how", ["abort", "close", "timeout", "cancel"])
def test_a_guard_that_hangs_holds_up_nobody(place: str, how: str) -> None:
    """It is stopped with the session, and has no longer than the run; what it looked at goes nowhere."""
    asked, ended = asyncio.Event(), list[str]()

    async def hangs(guarded: GuardContext) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(guarded.where)

    async def main() -> None:
        asked.clear()
        model = Model("secret")
        limits = Limits(timeout_s=0.2 if how == "timeout" else 60)
        async with opened(model, guards=Guards(**{place: [hangs]}), limits=limits) as (harness, _):
            sending = asyncio.create_task(harness.send_message(content="go"))
            await asked.wait()
            if how == "abort":
                harness.abort()
            elif how == "close":
                await harness.destroy()
            elif how == "cancel":
                sending.cancel()
            async with asyncio.timeout(20):
                [outcome] = await asyncio.gather(sending, return_exceptions=True)
            assert ended == [place]
            assert len(model.asked) == (1 if place == "output" else 0)
            if how == "cancel":
                assert isinstance(outcome, asyncio.CancelledError)
                return
            assert isinstance(outcome, RunOutcome)
            assert outcome.outcome == ("blocked" if how == "timeout" else "interrupted")
            assert (outcome.text, outcome.error != "") == ("", True)

    run(main)


def test_guards_stop_the_calls_of_a_program(tmp_path: Path) -> None:
    async def main() -> None:
        agent = fake_claude(tmp_path, version="2.1.325", permissions="ask")
        guards = Guards(call=[lambda guarded: Stop("no make") if "make" in guarded.command else None])
        async with opened(modes=[Mode(id="m", agent=agent)], cwd=str(tmp_path), guards=guards) as (
            harness,
            record,
        ):
            outcome = await harness.send_message(content="run")
            assert outcome.success, outcome
            assert not record.named("tool_approval_required")
            assert warnings_of(harness) == ["guard_stopped"]

    run(main)


def test_hooks_see_and_change_a_run() -> None:
    seen: list[str] = []

    def rewrite(use: HookedCall) -> Mapping[str, Any]:
        return {"text": f"{use.arguments['text']}!"}

    async def shorten(use: HookedCall) -> ToolOutput:
        assert use.output is not None
        return ToolOutput(text=use.output.text[:7])

    def ended(outcome: RunOutcome) -> None:
        seen.append(outcome.outcome)

    async def main() -> None:
        model = Model(call("note", text="a"), "Done.")
        hooks = Hooks(before_call=rewrite, after_call=shorten, after_model=seen.append, on_end=ended)
        async with opened(model, tools=[note], hooks=hooks, initial_state=YOLO) as (harness, record):
            await harness.send_message(content="go")
            assert record.named("tool_start")[0]["args"] == {"text": "a!"}
            assert model.results() == ["noted a"]
            await asyncio.sleep(0)
            assert seen[-2:] == ["Done.", "completed"]

    run(main)


def test_a_hook_before_the_model_chooses_what_it_sees() -> None:
    async def main() -> None:
        model = Model()
        hooks = Hooks(before_model=lambda step: [entry.turn for entry in step.entries][-1:])
        async with opened(model, hooks=hooks) as (harness, _):
            await harness.send_message(content="one")
            await harness.send_message(content="two")
            assert model.received() == ["two"]

    run(main)


def test_a_closed_session_leaves_no_hook_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes a moment has it; one that hangs went on for half a minute after everything was closed."""

    async def main() -> None:
        told: list[str] = []

        async def tell(outcome: RunOutcome[Any]) -> None:
            await asyncio.sleep(0)
            told.append(outcome.text)

        async def hang(_text: str) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(guards_module, "CLOSING_S", 0.05)
        async with opened(Model("Done."), hooks=Hooks(on_end=tell, after_model=hang)) as (harness, _):
            await harness.send_message(content="go")
        assert told == ["Done."]
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main)


def test_a_hook_that_raises_changes_nothing() -> None:
    async def main() -> None:
        def broken(_given: object) -> None:
            raise RuntimeError("broken")

        hooks = Hooks(
            before_call=broken, after_call=broken, after_model=broken, on_end=broken, before_model=broken
        )
        async with opened(
            Model(call("note", text="a"), "Done."), tools=[note], hooks=hooks, initial_state=YOLO
        ) as (
            harness,
            record,
        ):
            assert (await harness.send_message(content="go")).text == "Done."
            assert record.named("tool_end")[0]["result"] == "noted a"
            assert set(warnings_of(harness)) == {"hook_failed"}

    run(main)


@pytest.mark.parametrize(
    "options",
    [{"guards": [print]}, {"hooks": print}, {"guards": Guards(call="no")}, {"hooks": Hooks(on_end=3)}],  # type: ignore[arg-type]
)
def test_what_cannot_be_called_is_refused(options: dict[str, Any]) -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match=r"guards|hooks"):
            async with opened(**options):
                pass

    run(main)
