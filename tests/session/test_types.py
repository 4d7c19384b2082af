"""What programs are written against is typed: events narrow, the state has the type of its schema."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import msgspec

from harness.folds.session.events import EVENTS
from harness_kit import opened, run

NARROWS = """
    import msgspec

    from harness import Harness, Mode, Question, SessionEvent, TextPart


    class Settings(msgspec.Struct):
        turns: int = 0


    def show(event: SessionEvent) -> str:
        if event.type == "text":
            return event.text
        if event.type == "tool_approval_required":
            event.approve() if event.tool_name == "read" else event.decline("no")
        elif event.type == "message_end":
            return "".join(part.text for part in event.message.content if part.type == "text")
        return event.type


    def words(event: SessionEvent) -> str:
        match event:
            case TextPart(text=text):
                return text
            case _:
                return ""


    async def main() -> None:
        harness = Harness(id="h", modes=[Mode(id="m")], state_schema=Settings)
        turns: int = harness.state.value.turns
        changed = await harness.session.state.change(turns=turns + 1)
        questions: list[Question] = harness.questions()
        for question in questions:
            if question.type == "tool_suspended":
                question.answer(question.choices[0])
        async for event in harness.watch("t"):
            show(event)
        print(changed.turns)


    def plain() -> Harness:
        harness = Harness(id="h", modes=[Mode(id="m")])
        harness.subscribe(lambda event: print(event.type))
        return harness
"""


def test_events_state_and_questions_are_typed(tmp_path: Path) -> None:
    from mypy import api

    (tmp_path / "program.py").write_text(dedent(NARROWS))
    problems, _, _ = api.run([str(tmp_path), "--strict", "--no-error-summary"])
    assert problems == ""


def test_every_event_names_its_type_as_on_the_wire() -> None:
    assert {name: kind.type for name, kind in EVENTS.items()} == {name: name for name in EVENTS}


class Settings(msgspec.Struct):
    turns: int = 0
    tags: list[str] = []


def test_the_state_is_an_object_of_its_schema() -> None:
    async def main() -> None:
        async with opened(state_schema=Settings, initial_state={"tags": ["a"]}) as (harness, _):
            assert harness.state.value == Settings(tags=["a"])
            assert await harness.state.change(turns=2) == Settings(turns=2, tags=["a"])
            harness.state.value.tags.append("b")
            assert harness.state.value.tags == ["a"]

    run(main)
