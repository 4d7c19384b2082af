"""How often a session writes the metadata of its thread: each time costs as much as the rest of a short message."""

from __future__ import annotations

import asyncio
from pathlib import Path

from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.session.open_thread import create_thread
from harness_kit import Model, call, opened, run, used
from running_kit import Gate, waiting


class Counting(FileStore):
    """Keeps what was written."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.written: list[tuple[str, str, str, int]] = []
        self.has_written = asyncio.Event()

    def save_metadata(self, metadata: Metadata) -> None:
        super().save_metadata(metadata)
        usage = metadata.settings.get("tokenUsage") or {}
        self.written.append(
            (metadata.activity, metadata.outcome, metadata.prompt, usage.get("promptTokens", 0))
        )
        self.has_written.set()


def test_a_message_that_is_answered_at_once_writes_it_once(tmp_path: Path) -> None:
    async def main() -> None:
        store = Counting(str(tmp_path))
        model = Model(
            used("One.", inputTokens=7, outputTokens=1), used("Two.", inputTokens=9, outputTokens=1)
        )
        async with opened(model, storage=store) as (harness, _):
            thread = await harness.create_thread()
            for words, after in (("first", 7), ("second", 16)):
                store.written.clear()
                changed_ms = store.metadata(thread.id).updated_ms
                await harness.send_message(content=words)
                assert store.written == [("", "completed", "first", after)]
                assert store.metadata(thread.id).updated_ms >= changed_ms
                assert store.metadata(thread.id).success

    run(main)


def test_a_run_that_takes_longer_is_written_as_running_and_when_it_ends(tmp_path: Path) -> None:
    async def main() -> None:
        store = Counting(str(tmp_path))
        gate = Gate()
        model, yolo = Model(call("work"), "Done."), {"yolo": True}
        async with opened(model, storage=store, tools=[waiting(gate)], initial_state=yolo) as (harness, _):
            thread = await harness.create_thread()
            store.written.clear()
            store.has_written.clear()
            sending = asyncio.create_task(harness.send_message(content="go"))
            async with asyncio.timeout(60):
                await store.has_written.wait()
            assert store.metadata(thread.id).activity == "running"
            gate.open()
            await sending
            assert [activity for activity, *_ in store.written] == ["running", ""]

    run(main)


def test_a_thread_that_is_left_while_it_runs_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        store = FileStore(str(tmp_path))
        thread = create_thread(store, Metadata(session_id="log", kind="thread"))
        thread.metadata.activity = "running"
        thread.save_soon()
        thread.save_soon()
        assert store.metadata("log").activity == ""
        thread.close()
        assert store.metadata("log").activity == "running"
        store.close()

    run(main)


def test_opening_a_thread_gives_it_nothing_of_the_one_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(Model("A.", "B."), storage=FileStore(str(tmp_path))) as (harness, _):
            one = await harness.create_thread()
            two = await harness.create_thread()
            await harness.send_message(content="to the second")
            await harness.switch_thread(thread_id=one.id)
            assert harness.store.metadata(one.id).prompt == ""
            assert harness.store.metadata(one.id).updated_ms == one.updated_at
            assert harness.store.metadata(two.id).prompt == "to the second"

    run(main)


def test_a_secret_is_masked_whenever_it_comes_in(tmp_path: Path) -> None:
    secret = "hunter2-hunter2-hunter2"
    store = FileStore(str(tmp_path))
    metadata = Metadata(session_id="log", name="plain", settings={"a": 1})
    thread = create_thread(store, metadata, {"TOKEN": secret})
    assert thread.save()
    assert thread.save()
    thread.metadata.settings["later"] = {"deep": [f"it is {secret}"]}
    assert thread.save()
    thread.metadata.name = secret
    assert thread.save()
    assert thread.save()
    text = (tmp_path / "log.meta.json").read_text()
    assert secret not in text
    assert "plain" not in text
    assert "later" in text
    thread.metadata.settings["odd"] = f"\ud800{secret}"  # no JSON, and masked all the same
    for _ in range(2):
        assert thread.save()
        assert secret not in (tmp_path / "log.meta.json").read_text()
    thread.close()
    store.close()
