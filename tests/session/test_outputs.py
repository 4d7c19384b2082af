"""Answers of a type: decoded, checked, asked for again, for our agent and for agent programs."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest

from harness import BackingAgent, CommandAgent, Mode, Output
from harness.contracts.model import Ask, UserTurn
from harness.errors import UsageError
from harness.events import Error, Event
from harness.models.scripted import Scripted
from harness.session.outputs import OutputShape
from harness_kit import Model, call, log_of, opened, run
from python_programs import python_program


class Finding(msgspec.Struct):
    path: str
    line: int


class Review(msgspec.Struct):
    findings: list[Finding]
    verdict: str = "ok"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    name: str


GOOD = '{"findings": [{"path": "a.py", "line": 3}]}'
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_an_answer_becomes_the_type_that_was_asked_for() -> None:
    async def main() -> None:
        async with opened(Model(GOOD)) as (harness, _):
            outcome = await harness.send_message(content="review", output=Review)
            assert outcome.success
            assert outcome.output == Review(findings=[Finding(path="a.py", line=3)])

    run(main)


def test_a_wrong_answer_is_sent_back_with_the_reason() -> None:
    async def main() -> None:
        model = Model("Looks good.", '{"findings": 3}', f"Here:\n```json\n{GOOD}\n```")
        async with opened(model) as (harness, _):
            outcome = await harness.send_message(content="review", output=Review)
            assert outcome.output is not None
            assert outcome.output.findings[0].line == 3
            assert outcome.turns == 3
            assert "Expected `array`, got `int` - at `$.findings`" in str(model.asked[-1][0])

    run(main)


def test_answers_that_never_fit_fail_the_run() -> None:
    async def main() -> None:
        async with opened(Model(default="Looks good.")) as (harness, _):
            outcome = await harness.send_message(content="review", output=Output(type=Review, retries=1))
            assert (outcome.outcome, outcome.code, outcome.turns) == ("failed", "output_invalid", 2)
            assert "no JSON" in outcome.error
            assert outcome.output is None
            codes = [event.code for event in log_of(harness) if isinstance(event, Error)]
            assert codes == ["output_invalid"]
            assert (await harness.send_message(content="and now?")).success

    run(main)


def test_a_check_of_the_application_counts_as_much_as_the_type() -> None:
    def check(review: Review) -> str | None:
        return "there must be a finding" if not review.findings else None

    async def main() -> None:
        model = Model('{"findings": []}', GOOD)
        async with opened(model) as (harness, _):
            outcome = await harness.send_message(content="go", output=Output(type=Review, check=check))
            assert outcome.output is not None
            assert "there must be a finding" in str(model.asked[-1][0])

    run(main)


def test_a_check_that_raises_is_an_answer_that_does_not_fit() -> None:
    async def main() -> None:
        output = Output(type=Review, retries=0, check=lambda _review: str(1 // 0))
        async with opened(Model(GOOD)) as (harness, _):
            outcome = await harness.send_message(content="go", output=output)
            assert outcome.code == "output_invalid"
            assert "ZeroDivisionError" in outcome.error

    run(main)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Point, '{"x": 1}', Point(1)),
        (Row, '{"name": "a"}', {"name": "a"}),
        (list[int], '{"result": [1, 2]}', [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (SCHEMA, '{"n": 3}', {"n": 3}),
    ],
)
def test_types_that_can_be_asked_for(kind: Any, text: str, value: Any) -> None:
    shape = OutputShape(kind)
    assert shape.schema["type"] == "object"
    assert "$ref" not in shape.schema
    assert shape.read(text) == value


def test_pydantic_models_can_be_asked_for() -> None:
    pydantic = pytest.importorskip("pydantic", reason="needs pydantic: pip install pydantic")
    model = pydantic.create_model("Answer", name=(str, ...), count=(int, 1))
    shape = OutputShape(model)
    assert shape.read('{"name": "x"}').count == 1
    with pytest.raises(ValueError, match="name"):
        shape.read("{}")


@pytest.mark.parametrize("kind", [3, "text", object(), lambda: None, {"type": 3}])
def test_what_cannot_be_asked_for_is_a_mistake_of_the_caller(kind: Any) -> None:
    async def main() -> None:
        async with opened() as (harness, _):
            with pytest.raises(UsageError, match="output"):
                await harness.send_message(content="go", output=kind)
            with pytest.raises(UsageError, match="output"):
                harness.session.stream(content="go", output=kind)

    run(main)


class Recording(Scripted):
    """A scripted model that takes no schema beside tools, as some APIs."""

    takes_schema_beside_tools = False
    asked: list[Ask]

    def answer(self, ask: Ask) -> AsyncIterator[Event]:  # type: ignore[override]
        self.asked = [*getattr(self, "asked", []), ask]
        return super().answer(ask)


def test_a_tool_takes_the_result_where_the_api_has_no_schema_beside_tools() -> None:
    async def main() -> None:
        wrong = call("final_answer", findings="none")
        right = call("final_answer", id="c2", findings=[{"path": "a.py", "line": 3}])
        model = Recording([wrong, right, "never asked"])
        async with opened(agent=BackingAgent(model=model)) as (harness, _):
            outcome = await harness.send_message(content="go", output=Review)
            assert outcome.success
            assert outcome.output is not None
            assert outcome.turns == 2
            assert all(ask.schema is None for ask in model.asked)
            assert "final_answer" in [tool.name for tool in model.asked[0].tools]
            await harness.send_message(content="and now?")
            assert "final_answer" not in [tool.name for tool in model.asked[-1].tools]

    run(main)


def test_the_schema_goes_to_the_api_where_it_takes_one() -> None:
    async def main() -> None:
        model = Recording([GOOD])
        model.takes_schema_beside_tools = True
        async with opened(agent=BackingAgent(model=model)) as (harness, _):
            await harness.send_message(content="go", output=Review)
            [ask] = model.asked
            assert ask.schema is not None
            assert ask.schema["type"] == "object"
            assert [turn.text for turn in ask.turns if isinstance(turn, UserTurn)] == ["go"]

    run(main)


PROGRAM = """import json, os, sys
prompt = sys.stdin.read() or sys.argv[-1]
counter = os.environ["COUNTER"]
count = len(open(counter).read().splitlines()) if os.path.exists(counter) else 0
open(counter, "a").write(json.dumps(prompt) + "\\n")
text = "I am done." if count == 0 else '{"findings": []}'
for record in (
    {"type": "system", "subtype": "init", "session_id": "s1", "model": "m", "tools": []},
    {"type": "assistant", "session_id": "s1", "message": {"id": "m1", "role": "assistant", "content": [{"type": "text", "text": text}]}},
    {"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": "s1", "num_turns": 1, "total_cost_usd": 0.5},
):
    print(json.dumps(record), flush=True)
"""


def test_a_program_is_asked_again_until_its_answer_fits(tmp_path: Path) -> None:
    program, counter = python_program(tmp_path / "cursor-agent", PROGRAM), tmp_path / "prompts"

    async def main() -> None:
        agent = CommandAgent(
            name="cursor", binary=str(program), env={"COUNTER": str(counter)}, permissions="full-access"
        )
        async with opened(modes=[Mode(id="m", agent=agent)], cwd=str(tmp_path)) as (harness, _):
            outcome = await harness.send_message(content="review", output=Review)
            assert outcome.success, outcome
            assert outcome.output == Review(findings=[])
            first, second = counter.read_text().splitlines()
            assert "JSON Schema" in first
            assert "does not fit" in second

    run(main)
