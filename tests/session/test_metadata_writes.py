"""How often a session writes the metadata of its thread: each time costs as much as the rest of a short message."""

from __future__ import annotations

from pathlib import Path

from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.session.open_thread import create_thread
from harness_kit import Model, opened, run, used


class Counting(FileStore):
    """Keeps what was written."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.written: list[tuple[str, str, str, int]] = []

    def save_metadata(self, metadata: Metadata) -> None:
        super().save_metadata(metadata)
        usage = metadata.settings.get("tokenUsage") or {}
        self.written.append(
            (metadata.activity, metadata.outcome, metadata.prompt, usage.get("promptTokens", 0))
        )


def test_a_message_writes_it_at_its_beginning_and_at_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        store = Counting(str(tmp_path))
        model = Model(
            used("One.", inputTokens=7, outputTokens=1), used("Two.", inputTokens=9, outputTokens=1)
        )
        async with opened(model, storage=store) as (harness, _):
            thread = await harness.create_thread()
            for words, before, after in (
                ("first", ("", "", 0), 7),
                ("second", ("completed", "first", 7), 16),
            ):
                store.written.clear()
                changed_ms = store.metadata(thread.id).updated_ms
                await harness.send_message(content=words)
                outcome, prompt, tokens = before
                assert store.written == [
                    ("running", outcome, prompt, tokens),
                    ("", "completed", "first", after),
                ]
                assert store.metadata(thread.id).updated_ms >= changed_ms
                assert store.metadata(thread.id).success

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
