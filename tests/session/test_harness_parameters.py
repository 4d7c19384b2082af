"""Every parameter of the constructor does something: those that no other file here is about."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.request import GatewayOptions
from harness.contracts.tool import Tool, ToolContext
from harness.errors import UsageError
from harness.events import Error
from harness.log.codec import decode
from harness.log.stores.memory import MemoryStore
from harness.native.tools.function_tool import tool
from harness.session.adapters.pubsub import LocalPubSub
from harness.session.adapters.traces import TraceFile
from harness.session.config import CommandAgent, Mode, RequestContext
from harness.session.harness import Harness
from harness.session.services import AvailableModel, ModelAuthStatus
from harness_kit import Model, call, log_of, make, opened, run

PROVED_HERE = {
    "browser",
    "custom_model_catalog_provider",
    "cwd",
    "environ",
    "gateway",
    "gateways",
    "id",
    "id_generator",
    "model_auth_checker",
    "model_use_count_provider",
    "observability",
    "pubsub",
    "redact",
    "resolve_model",
    "tool_category_resolver",
}
PROVED_ELSEWHERE = {
    "mcp_servers": "session_mcp_servers",
    "agent": "harness",
    "default_mode_id": "harness",
    "disable_builtin_tools": "session_core",
    "guards": "guards",
    "heartbeat_handlers": "harness_lifecycle",
    "hooks": "guards",
    "limits": "limits",
    "initial_state": "harness",
    "instructions": "harness",
    "memory": "threads_clone",
    "model_use_count_tracker": "modes",
    "modes": "harness",
    "om_config": "modes",
    "resource_id": "threads",
    "state_schema": "state_of_threads",
    "storage": "threads",
    "subagents": "modes",
    "thread_lock": "locking",
    "tools": "session_core",
    "workspace": "harness_lifecycle",
}


def test_no_parameter_is_forgotten() -> None:
    names = set(inspect.signature(Harness.__init__).parameters) - {"self"}
    assert names == PROVED_HERE | set(PROVED_ELSEWHERE)
    for name, part in PROVED_ELSEWHERE.items():
        file = Path(__file__).parent / f"test_{part}.py"
        assert f"{name}=" in file.read_text() or f'"{name}"' in file.read_text()


def test_the_id_names_the_resource_and_the_logs() -> None:
    async def work() -> None:
        async with opened(id="mine", storage=MemoryStore()) as (harness, _):
            thread = await harness.create_thread()
            assert (harness.id, thread.resource_id) == ("mine", "mine")
            assert harness.store.metadata(thread.id).agent == "mine"

    run(work)


def test_ids_come_from_the_generator_or_are_sorted_by_time() -> None:
    async def work() -> None:
        made: list[str] = []

        def generate() -> str:
            made.append(f"id_{len(made)}")
            return made[-1]

        async with opened(id_generator=generate, storage=MemoryStore()) as (harness, record):
            thread = await harness.create_thread()
            await harness.send_message(content="hi")
            assert thread.id in made
            assert record.named("message_end")[0]["message"]["id"] in made
        async with opened(storage=MemoryStore()) as (harness, _):
            ids = [(await harness.create_thread()).id for _ in range(3)]
            assert len(set(ids)) == 3

    run(work)


def test_models_are_resolved_by_the_application() -> None:
    async def work() -> None:
        asked: list[str] = []
        model = Model()

        def resolve(model_id: str) -> Model:
            asked.append(model_id)
            return model

        async with opened(resolve_model=resolve) as (harness, _):
            await harness.send_message(content="hi")
            await harness.session.model.switch(model_id="other/one")
            await harness.send_message(content="hi")
            assert asked == ["test/model", "other/one"]

    run(work)


class Door:
    """A gateway with one model."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.id = "door"
        self._is_open = is_open
        self.model = Model("Through the door.")

    def should_enable(self) -> bool:
        return self._is_open

    def models(self) -> Sequence[AvailableModel]:
        return [AvailableModel(id="door/one", provider="door", model_name="one", has_api_key=True)]

    def resolve(self, model_id: str) -> Any:
        return self.model if model_id.startswith("door/") else None


def test_models_may_be_reached_through_a_gateway() -> None:
    async def work() -> None:
        door, closed = Door(), Door(is_open=False)
        async with opened(
            gateways=[closed, door], resolve_model=None, initial_state={"currentModelId": "door/one"}
        ) as (harness, record):
            assert harness.services is not None
            assert harness.services.gateways == (door,)
            assert "door/one" in {model.id for model in await harness.list_available_models()}
            await harness.send_message(content="hi")
            assert "Through the door." in str(record.named("message_end")[-1])

    run(work)


def test_the_catalogue_has_models_of_the_application_their_use_and_their_keys() -> None:
    async def work() -> None:
        asked: list[str] = []
        own: list[Any] = [
            {"id": "mine/a", "provider": "mine", "modelName": "a", "hasApiKey": True},
            {"id": "mine/b", "provider": "mine", "modelName": "b", "apiKeyEnvVar": "MINE_KEY"},
            {"id": "mine/b", "provider": "mine", "modelName": "later", "apiKeyEnvVar": "MINE_KEY"},
            {"id": "", "provider": "mine", "modelName": "nameless"},
        ]

        async def catalogue() -> list[Any]:
            asked.append("catalogue")
            return own

        def has_key(provider: str) -> bool | None:
            return {"open": True, "closed": False}.get(provider)

        async with opened(
            custom_model_catalog_provider=catalogue,
            model_use_count_provider=lambda: {"mine/a": 7},
            model_auth_checker=has_key,
        ) as (harness, _):
            models = {model.id: model for model in await harness.list_available_models()}
            assert models["mine/a"].use_count == 7
            assert models["mine/a"].has_api_key
            assert models["mine/b"].model_name == "later"
            assert "" not in models
            await harness.list_available_models()
            assert asked == ["catalogue"]
            harness.invalidate_available_models_cache()
            await harness.list_available_models()
            assert asked == ["catalogue"] * 2
            session = harness.session
            for model_id, expected in (
                ("mine/a", ModelAuthStatus(has_auth=True)),
                ("mine/b", ModelAuthStatus(has_auth=False, api_key_env_var="MINE_KEY")),
                ("open/x", ModelAuthStatus(has_auth=True)),
                ("closed/x", ModelAuthStatus(has_auth=False)),
                ("nobody/x", ModelAuthStatus(has_auth=True)),
            ):
                await session.model.switch(model_id=model_id)
                assert await harness.get_current_model_auth_status() == expected

    run(work)


def test_a_catalogue_that_fails_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        def broken() -> list[Any]:
            raise RuntimeError("no catalogue")

        async with opened(custom_model_catalog_provider=broken, gateways=[Door()]) as (harness, _):
            assert "door/one" in {model.id for model in await harness.list_available_models()}
            assert "no catalogue" in caplog.text

    run(work)


def test_keys_are_looked_for_in_the_environment_that_is_given() -> None:
    async def work() -> None:
        harness = Harness(
            id="h", modes=[Mode(id="a")], environ={"ANTHROPIC_API_KEY": "sk-ant-api03-" + "x" * 20}
        )
        models = {model.provider: model for model in await harness.list_available_models()}
        assert models["anthropic"].has_api_key
        bare = Harness(id="h", modes=[Mode(id="a")], environ={})
        others = {model.provider: model for model in await bare.list_available_models()}
        assert not others["anthropic"].has_api_key
        await bare.session.model.switch(model_id=others["anthropic"].id)
        status = await bare.get_current_model_auth_status()
        assert status == ModelAuthStatus(has_auth=False, api_key_env_var="ANTHROPIC_API_KEY")

    run(work)


@pytest.mark.parametrize("redact", [True, False])
def test_secrets_are_not_in_the_log_unless_one_wants_them(redact: bool) -> None:
    async def work() -> None:
        secret = "very-secret-value-1234567890"
        model = Model()
        harness = Harness(
            id="h",
            modes=[Mode(id="a")],
            storage=MemoryStore(),
            environ={"MY_SECRET_TOKEN": secret},
            redact=redact,
            resolve_model=lambda _id: model,
            initial_state={"currentModelId": "m"},
        )
        await harness.create_thread()
        await harness.session.state.set({"note": f"it is {secret}"})
        await harness.send_message(content=f"my token is {secret}")
        assert secret in model.received()[0]
        text = b"".join(_encoded(event) for event in log_of(harness))
        assert (secret.encode() in text) is not redact
        await harness.destroy()

    run(work)


def _encoded(event: Any) -> bytes:
    from harness.log.codec import encode

    return encode(event)


def test_tools_work_in_the_given_directory(tmp_path: Path) -> None:
    async def work() -> None:
        places: list[str] = []

        def where(context: ToolContext) -> str:
            """Where am I?"""
            places.append(context.cwd)
            return context.cwd

        model = Model(call("where"), "one", call("where", id="c2"), "two")
        other = tmp_path / "other"
        other.mkdir()
        async with opened(
            model, tools=[where], cwd=str(tmp_path), initial_state={"yolo": True}, storage=MemoryStore()
        ) as (harness, _):
            await harness.send_message(content="go")
            session = harness.create_session(scope="elsewhere", cwd=str(other))
            await session.send_message(content="go")
            assert places == [str(tmp_path), str(other)]
            assert harness.store.metadata(session.thread.require_id()).cwd == str(other)

    run(work)


def test_a_browser_brings_its_tools_and_is_closed() -> None:
    class Browser:
        def __init__(self) -> None:
            self.is_closed = False

        def tools(self) -> Sequence[Tool]:
            def open_page(url: str) -> str:
                """Open a page."""
                return url

            return [tool(open_page)]

        async def close(self) -> None:
            self.is_closed = True

    async def work() -> None:
        browser, model = Browser(), Model()

        async def factory(_context: RequestContext) -> Browser:
            return browser

        for given in (browser, lambda _context: browser, factory):
            browser.is_closed = False
            async with opened(model, browser=given) as (harness, _):
                await harness.send_message(content="hi")
                assert "open_page" in model.tool_names()
                assert harness.internals.browser is browser
                harness.set_browser(None)
                await harness.send_message(content="hi")
                assert "open_page" not in model.tool_names()
                harness.set_browser(browser)
            assert browser.is_closed

    run(work)


def test_categories_come_from_the_resolver() -> None:
    own = make()
    assert own.get_tool_category("bash") == "execute"
    assert own.get_tool_category("anything") is None
    emitted = make(tool_category_resolver=lambda name: "edit" if name == "anything" else None)
    assert emitted.get_tool_category("anything") == "edit"
    assert emitted.get_tool_category("bash") is None
    assert emitted.session.permissions.category("anything") == "edit"


def test_what_happens_in_threads_is_published() -> None:
    async def work() -> None:
        pubsub, received = LocalPubSub(), list[bytes]()
        async with opened(pubsub=pubsub, id="h") as (harness, _):
            thread = await harness.create_thread()
            pubsub.subscribe(f"h/{thread.id}", received.append)
            await harness.send_message(content="hi")
            events = [decode(line) for line in received]
            assert [event.seq for event in events] == list(range(events[0].seq, events[-1].seq + 1))
            assert events == log_of(harness)[events[0].seq :]

    run(work)


def test_who_cannot_publish_prevents_no_delivery(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(LocalPubSub):
        def publish(self, topic: str, message: bytes) -> None:
            raise RuntimeError("no network")

    async def work() -> None:
        async with opened(pubsub=Broken()) as (harness, record):
            await harness.send_message(content="hi")
            assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}
            assert "no network" in caplog.text

    run(work)


def test_a_run_is_a_span(tmp_path: Path) -> None:
    async def work() -> None:
        path = tmp_path / "spans.jsonl"
        async with opened(observability=TraceFile(str(path))) as (harness, _):
            await harness.send_message(content="hi")
            trace_id = harness.session.run.get_trace_id()
            lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
            (span,) = [line["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in lines]
            assert (span["name"], span["traceId"]) == ("invoke_agent native", trace_id)

    run(work)


def test_what_is_said_and_which_model_is_chosen_must_be_of_the_right_kind() -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, record):
            await harness.create_thread()
            record.clear()
            for wrong in (None, 5, b"x", ["x"]):
                for say in (harness.send_message, harness.steer, harness.follow_up):
                    with pytest.raises(UsageError, match="content cannot be"):
                        await say(content=wrong)  # type: ignore[arg-type]
                with pytest.raises(UsageError, match="model_id cannot be"):
                    await harness.session.model.switch(model_id=wrong)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="scope cannot be 'nope'"):
                await harness.session.model.switch(model_id="test/other", scope="nope")  # type: ignore[arg-type]
            assert record.types == []
            assert harness.session.model.get() == "test/model"

    run(work)


def test_a_mistake_names_the_argument_and_what_it_may_be() -> None:
    modes = [Mode(id="a")]
    mistakes: dict[str, tuple[Any, str]] = {
        "modes": (["build"], "modes cannot be ['build']"),
        "agent": (
            CommandAgent(name="claude", permissions="readonly"),
            "CommandAgent 'claude': permissions cannot be 'readonly'",
        ),
    }
    for name, (value, message) in mistakes.items():
        with pytest.raises(UsageError) as raised:
            Harness(**{"id": "h", "modes": modes, name: value})
        assert raised.value.message == message
    not_a_function: Any = "print"
    with pytest.raises(UsageError, match="listener cannot be 'print'"):
        Harness(id="h", modes=modes).subscribe(not_a_function)


def test_a_name_is_not_taken_for_a_file() -> None:
    async def work() -> None:
        harness = Harness(id="h", modes=[Mode(id="a")])
        not_files: Any = ["notes.txt"]
        with pytest.raises(UsageError, match=r"files cannot be \['notes"):
            await harness.send_message(content="Read it.", files=not_files)

    run(work)


def test_a_gateway_is_put_before_programs_and_one_that_cannot_have_it_is_refused() -> None:
    async def work() -> None:
        cursor = CommandAgent(name="cursor", permissions="full-access")
        async with opened(agent=cursor, gateway=GatewayOptions(), storage=MemoryStore()) as (harness, _):
            await harness.send_message(content="hi")
            [error] = [event for event in log_of(harness) if isinstance(event, Error)]
            assert "cannot be pointed at a gateway" in error.message

    run(work)
