"""What listeners receive of the calls of a running session: where output comes from, pictures, approvals, stopped sub-agents."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.model import Attachment
from harness.contracts.tool import ToolOutput
from harness.folds.session.encoding import to_wire
from harness.log.stores.memory import MemoryStore
from harness.native.tools.function_tool import tool
from harness.session.config import Subagent
from harness.session.workspaces import WorkspaceConfig
from harness_kit import Model, Record, StoreMaker, call, opened, storage
from running_kit import YOLO, Gate, in_loop, started, waiting

__all__ = ["storage"]

PICTURE = b64encode(b"\x89PNG picture").decode()
PAPER = b64encode(b"%PDF-1.4 paper").decode()


@in_loop
async def test_output_is_reported_with_the_stream_that_it_was_written_to(tmp_path: Path) -> None:
    command = "printf one; sleep 0.2; printf two >&2; sleep 0.2; printf three"
    async with opened(
        Model(call("bash", command=command)),
        workspace=WorkspaceConfig(cwd=str(tmp_path)),
        initial_state=YOLO,
        storage=MemoryStore(),
    ) as (harness, record):
        await harness.send_message(content="go")
        emitted = [(data["stream"], data["output"]) for data in record.named("shell_output")]
        assert emitted == [("stdout", "one"), ("stderr", "two"), ("stdout", "three")]


async def draw() -> ToolOutput:
    """Draw."""
    files = (
        Attachment(media_type="image/png", data=PICTURE),
        Attachment(media_type="application/pdf", data=PAPER, name="a.pdf"),
    )
    return ToolOutput(text="drawn", attachments=files)


IMAGE = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
FILE = {"type": "file", "data": PAPER, "mediaType": "application/pdf", "filename": "a.pdf"}


@in_loop
async def test_pictures_and_files_of_a_tool_are_events_and_parts_of_its_message() -> None:
    store = MemoryStore()
    options: dict[str, Any] = {"tools": [tool(draw)], "initial_state": YOLO, "storage": store}
    async with opened(Model(call("draw")), **options) as (harness, record):
        await harness.send_message(content="go")
        assert record.named("image", "file") == [IMAGE, FILE]
        order = [name for name in record.types if name in ("tool_result", "tool_end", "image", "file")]
        assert order == ["tool_result", "tool_end", "image", "file"]
        live = record.named("message_end")[-1]["message"]
        kinds = [part["type"] for part in live["content"]]
        assert kinds == ["tool_call", "tool_result", "image", "file", "text"]
        listed = [to_wire(one) for one in harness.session.thread.list_active_messages()]
        assert listed[-1] == live
    async with opened(Model(), **options) as (harness, _):
        await harness.select_or_create_thread()
        assert [to_wire(one) for one in harness.session.thread.list_active_messages()] == listed


@in_loop
async def test_files_of_the_user_are_events_of_their_own_within_the_message() -> None:
    async with opened(storage=MemoryStore()) as (harness, record):
        await harness.send_message(
            content="look",
            files=[
                {"data": PICTURE, "mediaType": "image/png"},
                {"data": PAPER, "mediaType": "application/pdf", "filename": "a.pdf"},
            ],
        )
        assert record.named("image", "file") == [IMAGE, FILE]
        start = record.types.index("message_start")
        assert record.types[start : start + 4] == ["message_start", "image", "file", "message_end"]


def _asked(record: Record) -> list[str]:
    names = ("tool_input_end", "tool_start", "message_update", "tool_approval_required", "tool_end")
    return [name for name in record.types if name in names]


@pytest.mark.parametrize("decision", ["approve", "decline"])
def test_a_call_that_waits_for_leave_has_a_row_with_its_arguments(decision: str) -> None:
    @in_loop
    async def work() -> None:
        async def note(text: str) -> str:
            """Note it."""
            return text

        async with opened(Model(call("note", text="x")), tools=[note], storage=MemoryStore()) as (
            harness,
            record,
        ):
            sending = started(harness.send_message(content="go"))
            asked = await record.until_emitted("tool_approval_required")
            assert _asked(record)[-3:] == ["tool_start", "message_update", "tool_approval_required"]
            started_with = record.named("tool_start")[0]
            assert {**asked, "type": ""}.items() >= {**started_with, "type": ""}.items()
            shown = to_wire(harness.session.display_state.get())
            row = shown["activeTools"][asked["toolCallId"]]
            assert (row["status"], row["args"]) == ("running", {"text": "x"})
            assert shown["currentMessage"]["content"][-1]["type"] == "tool_call"
            assert harness.session.respond_to_tool_approval(decision=decision)  # type: ignore[arg-type]
            await sending
            assert len(record.named("tool_start")) == len(record.named("tool_end")) == 1
            assert len(record.named("tool_call")) == 1

    work()


def test_a_call_that_waits_has_its_row_after_a_restart_and_is_reported_once(storage: StoreMaker) -> None:
    @in_loop
    async def work() -> None:
        async def note(text: str) -> str:
            """Note it."""
            return text

        async with opened(Model(call("note", text="x")), tools=[note], storage=storage.open()) as (
            harness,
            record,
        ):
            started(harness.send_message(content="go"))
            asked = await record.until_emitted("tool_approval_required")
        async with opened(Model(), tools=[note], storage=storage.open()) as (harness, record):
            await harness.select_or_create_thread()
            (pending,) = harness.session.approval.all()
            assert to_wire(pending) == asked
            waiting_message = to_wire(harness.session.thread.list_active_messages()[-1])
            assert [part["type"] for part in waiting_message["content"]] == ["tool_call"]
            assert harness.session.respond_to_tool_approval(
                decision="approve", tool_call_id=pending.tool_call_id
            )
            await harness.session.wait_until_idle()
            parts = [
                part["type"]
                for message in harness.session.thread.list_active_messages()
                for part in to_wire(message)["content"]
            ]
            assert parts == ["text", "tool_call", "tool_result", "text"]

    work()


EXPLORE = Subagent(id="explore", name="Explore", description="Look around.")


@in_loop
async def test_a_sub_agent_at_its_limit_is_no_error_in_either_event() -> None:
    async def look() -> str:
        """Look."""
        return "nothing"

    model = Model(
        call("subagent", agentType="explore", task="look"), call("look", id="c2"), call("look", id="c3")
    )
    definition = Subagent(
        id="explore", name="Explore", description="Look around.", max_steps=1, tools=[tool(look)]
    )
    async with opened(model, subagents=[definition], initial_state=YOLO) as (harness, record):
        await harness.send_message(content="go")
        (end,), (result,) = record.named("subagent_end"), record.named("tool_end")
        assert (end["isError"], result["isError"]) == (False, False)


@in_loop
async def test_a_sub_agent_that_is_stopped_says_so_and_is_no_error() -> None:
    gate = Gate()
    model = Model(call("subagent", agentType="explore", task="look"), call("work", id="c2"))
    definition = Subagent(id="explore", name="Explore", description="Look.", tools=[waiting(gate)])
    async with opened(model, subagents=[definition], initial_state=YOLO) as (harness, record):
        sending = started(harness.send_message(content="go"))
        await gate.come()
        harness.abort()
        await sending
        (end,) = record.named("subagent_end")
        assert not end["isError"]
        assert end["result"].startswith("[Aborted by user]")


@in_loop
async def test_the_whole_state_is_reported_while_no_thread_is_open() -> None:
    async with opened(initial_state={"a": 1, "b": 2}, storage=MemoryStore()) as (harness, record):
        await harness.session.state.set({"c": 3})
        state = {"currentModelId": "test/model", "a": 1, "b": 2, "c": 3}
        assert record.named("state_changed")[-1]["state"] == state
        await harness.create_thread()
        await harness.set_resource_id(resource_id="other")
        await harness.session.state.set({"d": 4})
        assert record.named("state_changed")[-1]["state"] == {**state, "d": 4}
        await asyncio.sleep(0)
