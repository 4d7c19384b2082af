"""Which schemas a program's own option is given: those that a provider can hold a model to, in the strict form."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from harness.agents.registry import load
from harness.contracts.request import Request
from harness.lab import OfflineAgent, parse_script
from harness.session.config import CommandAgent, Mode
from harness.session.outputs import OutputShape, strict_schema
from harness_kit import opened
from lacking import lacking
from running_kit import NO_MODEL, in_loop


class Point(msgspec.Struct):
    x: int
    label: str | None


class Line(msgspec.Struct):
    points: list[Point]


class Loose(msgspec.Struct):
    x: int
    y: int = 0


def test_a_schema_whose_fields_are_all_needed_is_made_strict() -> None:
    strict = strict_schema(OutputShape(Line).schema)
    assert strict is not None
    assert strict["additionalProperties"] is False
    assert strict["$defs"]["Point"]["additionalProperties"] is False


@pytest.mark.parametrize("kind", [Loose, dict[str, int], list[Loose]])
def test_what_strict_schemas_cannot_say_is_left_to_words(kind: object) -> None:
    assert strict_schema(OutputShape(kind).schema) is None


@pytest.mark.parametrize("schema", [{"type": "string", "pattern": "a+"}, True, {"oneOf": []}])
def test_words_that_not_all_providers_know_are_not_sent(schema: object) -> None:
    assert strict_schema(schema) is None


def test_claude_is_started_with_the_schema_and_anew_for_another_one() -> None:
    two_way = load("claude").two_way
    assert two_way is not None
    assert two_way.has_schema_at_start
    request = Request(agent="claude", prompt="go", output_schema={"type": "object"}, permissions="ask")
    args = two_way.command(request, (2, 1, 300)).args
    assert args[args.index("--json-schema") + 1] == '{"type":"object"}'
    bare = two_way.command(replace(request, output_schema=None), (2, 1, 300)).args
    assert "--json-schema" not in bare


@pytest.mark.timeout(180)
@in_loop
async def test_a_real_codex_holds_its_model_to_the_schema(tmp_path: Path) -> None:
    program = shutil.which("codex")
    if program is None:
        pytest.skip(lacking("real agent", "codex"))
    cwd = tmp_path / "project"
    cwd.mkdir()
    answer = '{"points": [{"x": 1, "label": null}]}'
    script = parse_script({"turns": [{"text": "Here it is."}, {"text": answer}]})
    with OfflineAgent(script, "codex", home=str(tmp_path / "home"), cwd=str(cwd)) as offline:
        request = offline.request("", binary=program)
        more = {"env": request.env, "extra_args": request.extra_args, "permissions": request.permissions}
        agent = CommandAgent(name="codex", binary=program, **more)
        modes = [Mode(id="build", agent=agent, default_model_id=request.model)]
        async with opened(modes=modes, cwd=str(cwd), initial_state=NO_MODEL) as (harness, _record):
            outcome = await harness.send_message(content="Go.", output=Line)
            assert outcome.output == Line(points=[Point(x=1, label=None)])
            formats = [one.body["text"]["format"] for one in offline.server.requests if one.turn is not None]
            assert [(one["type"], one["strict"]) for one in formats] == [("json_schema", True)] * 2
            assert formats[0]["schema"]["additionalProperties"] is False


@pytest.mark.timeout(180)
@pytest.mark.parametrize("permissions", ["agent-default", "ask"])
@in_loop
async def test_a_real_claude_holds_its_model_to_the_schema(permissions: str, tmp_path: Path) -> None:
    """By an option of its process: it asks again by itself, and the next message without a schema has none."""
    program = shutil.which("claude")
    if program is None:
        pytest.skip(lacking("real agent", "claude"))
    cwd = tmp_path / "project"
    cwd.mkdir()
    wrong, right = {"points": [{"x": "one"}]}, {"points": [{"x": 1, "label": None}]}
    turns = [{"tool": "StructuredOutput", "input": each} for each in (wrong, right)]
    script = parse_script({"turns": [*turns, {"text": "Done."}, {"text": "In words."}]})
    with OfflineAgent(script, "claude", home=str(tmp_path / "home"), cwd=str(cwd)) as offline:
        request = offline.request("", binary=program)
        more = {"env": request.env, "extra_args": request.extra_args, "permissions": permissions}
        agent = CommandAgent(name="claude", binary=program, **more)
        modes = [Mode(id="build", agent=agent, default_model_id=request.model)]
        async with opened(modes=modes, cwd=str(cwd), initial_state=NO_MODEL) as (harness, _record):
            outcome = await harness.send_message(content="Go.", output=Line)
            assert outcome.output == Line(points=[Point(x=1, label=None)])
            later = await harness.send_message(content="And in words?")
            assert later.text == "In words."
            tools = [
                {tool["name"] for tool in one.body.get("tools", ())}
                for one in offline.server.requests
                if one.turn is not None
            ]
            assert ["StructuredOutput" in names for names in tools] == [True, True, False]
