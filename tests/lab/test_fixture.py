"""Fixtures: every agent's tools for every intent, and settings that stay in a throw-away home."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.agents import registry
from harness.contracts.fixture import AgentFixture, ToolTemplate
from harness.contracts.script import (
    INTENTS,
    AgentIntent,
    Alternatives,
    AskIntent,
    EditIntent,
    FetchIntent,
    Intent,
    ListIntent,
    McpIntent,
    PatchIntent,
    PlanIntent,
    ReadIntent,
    RunIntent,
    SearchIntent,
    SkillIntent,
    TodoIntent,
    WriteIntent,
    intent_name,
)
from harness.errors import UsageError
from harness.lab import LabContext, ScriptRun, fixture_names, load_fixture, parse_script, set_up
from harness.models.wires.wire import AnswerCall, AnswerText, ModelRequest, WireAnswer, all_wires
from lab_client import ROUTES

SAMPLES: tuple[Intent, ...] = (
    ReadIntent(path="src/a.py"),
    ReadIntent(path="src/a.py", lines=(10, 20)),
    WriteIntent(path="new.txt", content="one\ntwo\n"),
    EditIntent(path="src/a.py", old="a\nb", new="c"),
    PatchIntent(patch="*** Begin Patch\n*** End Patch\n"),
    RunIntent(command="echo 'hi'"),
    SearchIntent(query="it's", path="src"),
    ListIntent(path="a b"),
    TodoIntent(items=("First", "It's second")),
    SkillIntent(name="greet"),
    AgentIntent(prompt="Count."),
    McpIntent(server="demo", tool="echo", input={"text": "hi"}),
    FetchIntent(url="/lab/page"),
    AskIntent(question="Which one?", options=("It's A", "B")),
    PlanIntent(plan="1. Do it."),
)
FIXTURES = fixture_names()
VERSIONS = {"claude": [(1, 0, 60), (2, 0, 60)], "codex": [(0, 50, 0), (0, 98, 0), (0, 130, 0)]}
CASES = [(name, version) for name in FIXTURES for version in [(), *VERSIONS.get(name, [])]]


def context(folder: Path, version: tuple[int, ...] = (), **more: Any) -> LabContext:
    return LabContext(
        url="http://127.0.0.1:5", home=str(folder / "home"), cwd="/project", version=version, **more
    )


def test_there_is_a_fixture_for_at_least_the_well_known_agents() -> None:
    known = {"claude", "cline", "codex", "copilot", "gemini", "goose", "kilo", "opencode", "pi", "qwen"}
    assert known <= set(FIXTURES)


@pytest.mark.parametrize("name", FIXTURES)
def test_a_fixture_belongs_to_an_agent_and_knows_every_intent(name: str) -> None:
    fixture = load_fixture(name)
    assert name in registry.names()
    assert fixture.wire in all_wires()
    assert fixture.wire in ROUTES
    assert {*fixture.calls, *fixture.lacks} == set(INTENTS)
    assert not set(fixture.calls) & set(fixture.lacks)
    assert all(fixture.lacks.values())
    assert set(fixture.since) <= set(fixture.calls)


@pytest.mark.parametrize(("name", "version"), CASES)
def test_every_intent_becomes_a_call(name: str, version: tuple[int, ...], tmp_path: Path) -> None:
    fixture = load_fixture(name)
    for intent in SAMPLES:
        if intent_name(intent) in fixture.calls:
            steps = fixture.render(intent, context(tmp_path, version))
            offered = [call for one in steps.calls for call in one.calls]
            for call in (*offered, *steps.then):
                assert call.tool
                assert json.loads(json.dumps(call.input)) == call.input


@pytest.mark.parametrize(("name", "version"), CASES)
def test_setting_up_writes_only_into_the_home(name: str, version: tuple[int, ...], tmp_path: Path) -> None:
    here = context(tmp_path, version, mcp_servers={"demo": ("python3", "a b.py", 'q"uote')})
    config = set_up(load_fixture(name), here)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert config.env["HOME"] == here.home
    assert all(value.startswith(here.home) for key, value in config.env.items() if key.startswith("XDG_"))
    assert "127.0.0.1" in config.env["NO_PROXY"]
    written = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    texts = [path.read_text() for path in written]
    for path, text in zip(written, texts, strict=True):
        (tomllib.loads if path.suffix == ".toml" else json.loads)(text)
    everything = "\n".join([*texts, *config.env.values(), *config.args])
    assert here.url in everything
    assert "a b.py" in everything or "mcp" in load_fixture(name).lacks
    assert "lab-key" in everything


def test_an_agent_without_a_fixture_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="there is no fixture for 'nobody'"):
        load_fixture("nobody")


def calls_of(
    name: str, folder: Path, *turns: Any, lanes: dict[str, Any] | None = None, asked: ModelRequest
) -> WireAnswer:
    script = parse_script({"turns": list(turns), "lanes": lanes or {}})
    return ScriptRun(script, load_fixture(name), context(folder)).reply(asked, 1).answer


def asked(answers: int = 0, opening: str = "Go.", results: tuple[str, ...] = ()) -> ModelRequest:
    return ModelRequest(
        model="m",
        system="",
        opening=opening,
        answers=answers,
        results=results,
        tools={"shell": {}},
        is_streamed=True,
    )


def test_what_an_agent_lacks_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="`agent` is a call by intent that this agent lacks: it has no sub-agents"
    ):
        calls_of("pi", tmp_path, {"call": "agent", "prompt": "x"}, asked=asked())


def test_codex_waits_for_each_sub_agent_in_a_turn_of_its_own(tmp_path: Path) -> None:
    turns = (
        [{"call": "agent", "prompt": "A"}, {"call": "agent", "prompt": "B"}],
        {"text": "Both are back."},
    )
    spawned = calls_of("codex", tmp_path, *turns, asked=asked())
    assert [(part.name, part.input) for part in spawned.parts if isinstance(part, AnswerCall)] == [
        ("spawn_agent", {"message": "A"}),
        ("spawn_agent", {"message": "B"}),
    ]
    results = ('{"agent_id":"id-a"}', '{"agent_id":"id-b"}')
    waited = calls_of("codex", tmp_path, *turns, asked=asked(1, results=results))
    targets = [
        part.input["targets"]
        for part in waited.parts
        if isinstance(part, AnswerCall) and isinstance(part.input, dict)
    ]
    assert targets == [["id-a"], ["id-b"]]
    assert calls_of("codex", tmp_path, *turns, asked=asked(2)).parts == (AnswerText("Both are back."),)


def test_a_sub_agent_of_gemini_ends_with_a_call(tmp_path: Path) -> None:
    lanes = {
        "child": {"marker": "COUNT", "turns": [{"call": "run", "command": "ls"}, {"text": "Two."}]},
        "other": {"marker": "OTHER", "turns": [{"text": "Plain."}]},
    }
    turns = ({"call": "agent", "prompt": "COUNT files"}, {"text": "Done."})
    ended = calls_of("gemini", tmp_path, *turns, lanes=lanes, asked=asked(1, "COUNT files"))
    (call,) = ended.parts
    assert isinstance(call, AnswerCall)
    assert (call.name, call.input) == ("complete_task", {"result": {"response": "Two."}})
    assert calls_of("gemini", tmp_path, *turns, lanes=lanes, asked=asked(0, "OTHER")).parts == (
        AnswerText("Plain."),
    )
    assert calls_of("gemini", tmp_path, *turns, lanes=lanes, asked=asked(1)).parts == (AnswerText("Done."),)


def test_with_a_fixture_a_request_without_tools_is_a_side_request(tmp_path: Path) -> None:
    run = ScriptRun(parse_script({"turns": [{"text": "one"}]}), load_fixture("opencode"), context(tmp_path))
    toolless = ModelRequest(model="m", system="", opening="Title?", answers=0)
    assert run.reply(toolless, 1).conversation == "side"
    assert run.reply(asked(), 2).conversation == "main"


def test_a_template_keeps_the_type_of_a_field_and_leaves_out_what_there_is_none_of() -> None:
    template = ToolTemplate(
        "{a}__{b}", {"whole": "{n}", "part": "n={n}", "none": "{none}", "json": '{"x":1}'}
    )
    call = template.fill({"a": "x", "b": "y", "n": 3, "none": None})
    assert (call.tool, call.input) == ("x__y", {"whole": 3, "part": "n=3", "json": '{"x":1}'})
    with pytest.raises(KeyError):
        template.fill({})


def test_what_a_script_says_is_never_taken_for_a_field(tmp_path: Path) -> None:
    write = {"call": "write", "path": "a", "content": "{path} {{x}}"}
    (call,) = calls_of("qwen", tmp_path, write, asked=asked()).parts
    assert isinstance(call, AnswerCall)
    assert isinstance(call.input, dict)
    assert call.input["content"] == "{path} {{x}}"


@pytest.mark.parametrize(
    ("version", "tools"),
    [((), ["new"]), ((1, 9), ["old"]), ((2, 0), ["new"]), ((3, 0), ["new"])],
)
def test_a_form_of_a_call_may_be_for_some_versions_only(
    version: tuple[int, ...], tools: list[str], tmp_path: Path
) -> None:
    forms = (ToolTemplate("new", {}, since=(2, 0)), ToolTemplate("old", {}, until=(2, 0)))
    fixture = AgentFixture(wire="chat", calls={"run": forms})
    (offer,) = fixture.render(RunIntent(command="ls"), context(tmp_path, version)).calls
    assert isinstance(offer, Alternatives)
    assert [call.tool for call in offer.calls] == tools
