"""Which schemas a program's own option is given: those that a provider can hold a model to, in the strict form."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

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
