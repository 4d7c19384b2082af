"""What a harness is made of is checked when it is made; the default mode, the first model, who works with which words."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from harness.contracts.request import Limits
from harness.errors import UsageError
from harness.folds.session.events import ErrorEvent
from harness.log.stores.files import FileStore
from harness.session.config import BackingAgent, CommandAgent, HeartbeatHandler, Mode, Subagent
from harness.session.guards import Guards, Hooks
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness_kit import Model, call, make, opened, run


def build(*modes: Mode, **options: Any) -> Harness:
    return Harness(id="h", modes=modes, environ={}, **options)


@pytest.mark.parametrize(
    ("modes", "options", "message"),
    [
        ([], {}, "Harness requires at least one agent mode"),
        (
            [Mode(id="a"), Mode(id="b"), Mode(id="a")],
            {},
            'Duplicate mode id "a" found when creating the Harness',
        ),
        (
            [Mode(id="a", tools=(), additional_tools=())],
            {},
            'Mode "a" cannot set both "tools" and "additionalTools" - choose replace OR augment',
        ),
        ([Mode(id="a", transitions_to="a")], {}, 'Mode "a" transitionsTo cannot reference itself'),
        (
            [Mode(id="a", transitions_to="c"), Mode(id="b")],
            {},
            'Mode "a" transitionsTo references unknown mode "c"',
        ),
        ([Mode(id="a")], {"default_mode_id": "z"}, "Default mode not found: z"),
        (
            [Mode(id="a")],
            {
                "subagents": [
                    Subagent(id="s", name="S", description="d"),
                    Subagent(id="s", name="T", description="d"),
                ]
            },
            'Duplicate subagent id "s" found when creating the Harness',
        ),
        ([Mode(id="a")], {"disable_builtin_tools": ["ask_user", "nap"]}, "unknown built-in tools: nap"),
    ],
)
def test_what_cannot_be_is_refused_at_once(modes: list[Mode], options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        build(*modes, **options)
    assert caught.value.message == message


def test_an_initial_state_that_does_not_fit_the_schema_is_refused() -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}}
    with pytest.raises(UsageError, match="Invalid state update: count"):
        build(Mode(id="a"), state_schema=schema, initial_state={"count": "many"})
    with pytest.raises(UsageError, match="a state schema cannot be a int"):
        build(Mode(id="a"), state_schema=3)


@pytest.mark.parametrize(
    ("modes", "default_mode_id", "expected"),
    [
        ([Mode(id="a"), Mode(id="b")], "", "a"),
        ([Mode(id="a"), Mode(id="b", default=True)], "", "b"),
        ([Mode(id="a"), Mode(id="b", metadata={"default": True})], "", "b"),
        ([Mode(id="a"), Mode(id="b", metadata={"default": "yes"})], "", "a"),
        ([Mode(id="a", default=True), Mode(id="b", metadata={"default": True})], "", "a"),
        ([Mode(id="a"), Mode(id="b", default=True)], "a", "a"),
    ],
)
def test_the_default_mode(modes: list[Mode], default_mode_id: str, expected: str) -> None:
    harness = build(*modes, default_mode_id=default_mode_id)
    assert harness.session.mode.get() == expected
    assert harness.session.mode.resolve() is harness.mode(expected)
    assert [mode.id for mode in harness.list_modes()] == [mode.id for mode in modes]


@pytest.mark.parametrize(
    ("state", "mode_model", "expected", "name"),
    [
        ({"currentModelId": "x/one"}, "y/two", "x/one", "one"),
        ({}, "y/two", "y/two", "two"),
        ({}, "", "", "unknown"),
        ({"currentModelId": "local"}, "", "local", "local"),
    ],
)
def test_the_first_model(state: dict[str, Any], mode_model: str, expected: str, name: str) -> None:
    session = build(Mode(id="a", default_model_id=mode_model), initial_state=state).session
    assert session.model.get() == expected
    assert session.model.has_selection() == bool(expected)
    assert session.model.display_name() == name


def test_an_unknown_mode_is_named() -> None:
    async def work() -> None:
        async with opened() as (harness, record):
            with pytest.raises(UsageError, match="Mode not found: nowhere"):
                await harness.session.mode.switch(mode_id="nowhere")
            with pytest.raises(UsageError, match="Mode not found: nowhere"):
                await harness.session.model.switch(model_id="m", mode_id="nowhere")
            assert harness.session.mode.get() == "build"
            assert record.types == []

    run(work)


def test_the_instructions_of_agent_harness_and_mode_are_reported_in_this_order() -> None:
    async def work() -> None:
        model = Model()
        modes = [Mode(id="plan", instructions="Plan only."), Mode(id="build")]
        shared = BackingAgent(instructions="You are careful.")
        async with opened(model, modes=modes, agent=shared, instructions="Be brief.") as (harness, _):
            await harness.send_message(content="one")
            await harness.session.mode.switch(mode_id="build")
            await harness.send_message(content="two")
            assert model.system(0) == "You are careful.\nBe brief.\nPlan only."
            assert model.system(1) == "You are careful.\nBe brief."
            assert harness.internals.agent is shared
            assert shared == BackingAgent(instructions="You are careful.")

    run(work)


def test_a_mode_of_its_own_agent_uses_that_one_and_not_the_shared() -> None:
    async def work() -> None:
        model = Model()
        own = BackingAgent(name="own", instructions="I am my own.")
        modes = [Mode(id="a"), Mode(id="b", agent=own)]
        async with opened(model, modes=modes, agent=BackingAgent(instructions="Shared.")) as (harness, _):
            assert harness.session.agent == BackingAgent(instructions="Shared.")
            await harness.session.mode.switch(mode_id="b")
            assert harness.session.agent is own
            await harness.send_message(content="hi")
            assert model.system() == "I am my own."

    run(work)


def test_without_an_agent_one_is_made_from_the_mode_and_needs_a_model() -> None:
    async def work() -> None:
        modes = [Mode(id="a", instructions="Mode.")]
        harness = make(Model(), modes=modes, instructions="Harness.", initial_state={"currentModelId": ""})
        await harness.init()
        problems: list[str] = []
        harness.subscribe(
            lambda event: problems.append(str(event.error)) if isinstance(event, ErrorEvent) else None
        )
        await harness.send_message(content="hi")
        assert len(problems) == 1
        assert problems[0].startswith("Mode a requires a defaultModelId when no backing agent is configured")
        assert not harness.session.run.is_running()
        await harness.session.model.switch(model_id="test/model")
        await harness.send_message(content="again")
        assert harness.session.display_state.get().current_message is not None
        await harness.destroy()

    run(work)


def test_the_current_agent_has_everything_that_it_works_by() -> None:
    def own() -> str:
        """Of the agent."""
        return "own"

    def shared() -> str:
        """Of the harness."""
        return "shared"

    async def work() -> None:
        model = Model()
        given = BackingAgent(name="coder", instructions="Agent.", tools=[own], max_steps=7)
        modes = [Mode(id="plan", instructions="Mode."), Mode(id="build", tools=[])]
        rules = {"permissionRules": {"tools": {"submit_plan": "deny"}}}
        async with opened(
            model, modes=modes, agent=given, instructions="Harness.", tools=[shared], initial_state=rules
        ) as (harness, _):
            agent = harness.get_current_agent()
            assert isinstance(agent, BackingAgent)
            assert (agent.name, agent.max_steps) == ("coder", 7)
            assert agent.instructions == "Agent.\nHarness.\nMode."
            await harness.send_message(content="hi")
            assert [one.spec.name for one in agent.tools] == model.tool_names()
            assert {"own", "shared", "ask_user"} < set(model.tool_names())
            assert "submit_plan" not in model.tool_names()
            await harness.session.mode.switch(mode_id="build")
            agent = harness.get_current_agent()
            assert isinstance(agent, BackingAgent)
            assert "own" not in [one.spec.name for one in agent.tools]
            assert given == BackingAgent(name="coder", instructions="Agent.", tools=[own], max_steps=7)

    run(work)


def test_an_agent_may_be_named() -> None:
    assert build(Mode(id="a", agent="native")).session.agent == BackingAgent()
    assert build(Mode(id="a", agent="claude")).get_current_agent() == CommandAgent(name="claude")
    assert build(Mode(id="a"), agent="codex").get_current_agent() == CommandAgent(name="codex")


def test_two_modes_with_one_program_keep_what_each_of_them_says() -> None:
    careful, free = (
        CommandAgent(name="claude", permissions="read-only"),
        CommandAgent(name="claude", permissions="full-access"),
    )

    async def work() -> None:
        modes = [Mode(id="plan", agent=careful), Mode(id="build", agent=free)]
        async with opened(modes=modes) as (harness, _):
            planning = harness.session.internals.driver
            await harness.session.mode.switch(mode_id="build")
            assert harness.session.internals.driver is not planning
            assert harness.session.internals.driver._agent is free  # type: ignore[attr-defined]
            await harness.session.mode.switch(mode_id="plan")
            assert harness.session.internals.driver is planning

    run(work)


def test_the_tools_of_a_mode_stand_in_place_of_the_agents_or_beside_them() -> None:
    def own() -> str:
        """Of the agent."""
        return "own"

    def other() -> str:
        """Of the mode."""
        return "other"

    async def work() -> None:
        model = Model()
        modes = [
            Mode(id="plain"),
            Mode(id="replaced", tools=[other]),
            Mode(id="added", additional_tools={"named": other}),
            Mode(id="few", additional_tools=[other], available_tools=("other",)),
        ]
        async with opened(model, modes=modes, agent=BackingAgent(tools=[own])) as (harness, _):
            for mode, expected in (
                ("plain", {"own"}),
                ("replaced", {"other"}),
                ("added", {"own", "named"}),
                ("few", {"other"}),
            ):
                await harness.session.mode.switch(mode_id=mode)
                await harness.send_message(content="hi")
                assert set(model.tool_names()) & {"own", "other", "named"} == expected
            assert model.tool_names() == ["other"]

    run(work)


def test_a_backing_agent_has_its_own_model_and_number_of_steps() -> None:
    async def work() -> None:
        own = Model(call("task_check"), call("task_check", id="c2"), "Summary.")
        agent = BackingAgent(model=own, max_steps=2)
        async with opened(Model("never"), agent=agent) as (harness, record):
            await harness.send_message(content="hi")
            assert len(own.asked) == 3
            assert record.types.count("tool_start") == 2

    run(work)


async def _later(_value: Any) -> None:
    return None


WRONG: dict[str, list[Any]] = {
    "id": ["", None, 5],
    "modes": [[{"id": "a"}], "build", Mode(id="a"), 5, [Mode]],
    "resource_id": [5, None],
    "storage": ["./data", 5, FileStore, {}],
    "state_schema": [5, "x", {"type": "nothing"}],
    "initial_state": [5, "x", [1]],
    "memory": [True, "x", Memory],
    "agent": [5, ["claude"], {}],
    "default_mode_id": [5, None],
    "instructions": [None, ["x"]],
    "tools": ["x", 5, ["bash"], {"a": 5}, [None]],
    "mcp_servers": [5, [5], {5: {}}, {"a": {}}, {"a": 5}],
    "workspace": ["/x", 5, {"cwd": "/x"}],
    "browser": ["x", 5],
    "heartbeat_handlers": [
        5,
        "x",
        [{}],
        HeartbeatHandler(id="a", interval_ms=1, handler=print),
        [HeartbeatHandler(id="a", interval_ms=0, handler=print)],
        [HeartbeatHandler(id="a", interval_ms=1, handler="x")],  # type: ignore[arg-type]
    ],
    "id_generator": ["x", _later],
    "model_auth_checker": ["x"],
    "model_use_count_provider": [5],
    "model_use_count_tracker": [5],
    "custom_model_catalog_provider": [[]],
    "subagents": [
        [{"id": "a"}],
        5,
        [Subagent(id="", name="S", description="d")],
        [Subagent(id="s", name="S", description=5)],  # type: ignore[arg-type]
        [Subagent(id="s", name="S", description="d", tools="x")],
        [Subagent(id="s", name="S", description="d", max_steps="many")],  # type: ignore[arg-type]
        [Subagent(id="s", name="S", description="d", allowed_harness_tools="bash")],  # type: ignore[arg-type]
    ],
    "gateways": ["x", [5], 5],
    "gateway": ["x", True, {}],
    "resolve_model": ["gpt", _later],
    "om_config": [{"default_observer_model_id": "x"}, 5],
    "disable_builtin_tools": ["ask_user", [5], 5],
    "pubsub": [5],
    "thread_lock": [5, "x"],
    "observability": [5],
    "limits": [5, "x", {"max_turns": 5}, Limits(max_turns=0), Limits(timeout_s="x")],  # type: ignore[arg-type]
    "guards": [5, print, [print], {"call": [print]}, Guards(call=print), Guards(call=["x"])],  # type: ignore[arg-type,list-item]
    "hooks": [5, print, {"on_end": print}, Hooks(on_end="x")],  # type: ignore[arg-type]
    "cwd": [5, None],
    "redact": ["yes", None],
    "environ": [5, "x"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]])
def test_an_argument_of_the_wrong_kind_is_named_when_the_harness_is_made(name: str, value: Any) -> None:
    options: dict[str, Any] = {"id": "h", "modes": [Mode(id="a")], name: value}
    with pytest.raises(UsageError) as caught:
        Harness(**options)
    assert caught.value.hint
    assert name.rstrip("s").split("_")[-1] in str(caught.value).lower()


@pytest.mark.parametrize(
    "mode",
    [
        Mode(id=""),
        Mode(id=5),  # type: ignore[arg-type]
        Mode(id="a", instructions=None),  # type: ignore[arg-type]
        Mode(id="a", agent=5),  # type: ignore[arg-type]
        Mode(id="a", tools="bash"),
        Mode(id="a", additional_tools=5),  # type: ignore[arg-type]
        Mode(id="a", available_tools="bash"),  # type: ignore[arg-type]
        Mode(id="a", metadata=5),  # type: ignore[arg-type]
        Mode(id="a", agent=BackingAgent(max_steps="x")),  # type: ignore[arg-type]
        Mode(id="a", agent=CommandAgent(name=5)),  # type: ignore[arg-type]
    ],
)
def test_a_mode_with_a_field_of_the_wrong_kind_is_named(mode: Mode) -> None:
    with pytest.raises(UsageError, match=r"cannot be|empty"):
        build(mode)


def test_every_parameter_has_a_case_above() -> None:
    assert set(inspect.signature(Harness.__init__).parameters) - {"self", "tool_category_resolver"} == set(
        WRONG
    )


def test_lists_may_be_given_as_any_iterable() -> None:
    harness = Harness(
        id="h",
        modes=(mode for mode in [Mode(id="a"), Mode(id="b")]),  # type: ignore[arg-type]
        subagents=(one for one in [Subagent(id="s", name="S", description="d")]),
        disable_builtin_tools=iter(["ask_user"]),
    )
    assert [mode.id for mode in harness.list_modes()] == ["a", "b"]
    assert list(harness.internals.definitions) == ["s"]
    assert harness.internals.disabled_tools == {"ask_user"}
