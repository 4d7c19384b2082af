"""Checkpoints of runs in this process: only around calls that may change a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness import FileStore, Harness, Mode, Scripted, WorkspaceConfig
from harness.clients.changes.undo import open_undo
from harness.contracts.request import Request
from harness.runs.run import start
from harness.undo import recorder
from harness.undo.store import folder_of


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"tool": name, "input": arguments}


async def talk(workspace: Path, *said: object, refused: bool = False) -> str:
    """One message for each answer that ends a turn; the id of the thread."""
    rules = {"categories": {"read": "allow", "execute": "deny" if refused else "allow"}}
    model = Scripted(list(said))
    async with Harness(
        id="app",
        modes=[Mode(id="build", default_model_id="script")],
        storage=FileStore(str(workspace.parent / "logs")),
        workspace=WorkspaceConfig(cwd=str(workspace)),
        resolve_model=lambda _: model,
        initial_state={"permissionRules": rules},
    ) as harness:
        await harness.create_thread()
        for number in range(sum(isinstance(one, str) for one in said)):
            outcome = await harness.send_message(content=f"message {number}")
            assert outcome.success, outcome.error
        return harness.session.thread.require_id()


def test_a_turn_that_only_talks_or_reads_looks_at_no_folder(workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    asyncio.run(talk(workspace, "Hello.", call("read", filePath="a.txt"), "It says one."))
    assert not Path(folder_of(str(workspace))).exists()


def test_a_turn_whose_calls_were_refused_looks_at_no_folder(workspace: Path) -> None:
    asyncio.run(talk(workspace, call("bash", command="rm -f a.txt"), "I may not.", refused=True))
    assert not Path(folder_of(str(workspace))).exists()


def test_what_a_later_call_changed_is_taken_back_with_turns_around_it_that_changed_nothing(
    workspace: Path,
) -> None:
    (workspace / "a.txt").write_text("one\n")
    read, write = call("read", filePath="a.txt"), call("bash", command="echo two > a.txt")
    log_id = asyncio.run(talk(workspace, "Hello.", read, write, "Written.", "Bye."))
    assert (workspace / "a.txt").read_text() == "two\n"
    store = FileStore(str(workspace.parent / "logs"))
    with open_undo(store, log_id) as undo:
        assert [turn.state for turn in undo.turns()] == ["unchanged", "undoable", "unchanged"]
        turns = undo.choose("1..3")
        shown = undo.undo(turns)
        assert undo.undo(turns, expect=shown.digest).is_done
    assert (workspace / "a.txt").read_text() == "one\n"
    store.close()


MANY = 1500


def fill(workspace: Path) -> dict[str, str]:
    texts = {f"{number}.txt": f"{number}\n" * 200 for number in range(MANY)}
    for name, text in texts.items():
        (workspace / name).write_text(text)
    return texts


def assert_all_comes_back(workspace: Path, log_id: str, texts: dict[str, str]) -> None:
    assert (workspace / "0.txt").read_text() != texts["0.txt"]
    store = FileStore(str(workspace.parent / "logs"))
    with open_undo(store, log_id) as undo:
        turns = undo.choose("1")
        shown = undo.undo(turns)
        assert undo.undo(turns, expect=shown.digest).is_done
    assert {path.name: path.read_text() for path in workspace.iterdir()} == texts
    store.close()


SPOILS = {"command": "sed -i s/1/2/ *.txt; rm 1*.txt; echo x > 0.txt"}


def test_the_first_call_that_changes_a_file_waits_until_all_were_seen(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "LONGEST_WAIT_S", 0.0)  # as in a folder, or on a machine, that takes longer
    texts = fill(workspace)
    log_id = asyncio.run(talk(workspace, call("bash", **SPOILS), "Done."))
    assert_all_comes_back(workspace, log_id, texts)


def test_it_waits_in_a_run_too(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "LONGEST_WAIT_S", 0.0)
    texts = fill(workspace)
    script = workspace.parent / "script.toml"
    script.write_text(
        f'turns = [[{{ tool = "bash", input = {{ command = "{SPOILS["command"]}" }} }}], [{{ text = "Done." }}]]'
    )
    store = FileStore(str(workspace.parent / "logs"))
    run = start(
        Request(agent="native", prompt="go", cwd=str(workspace), model=f"scripted/{script}"), store=store
    )
    assert list(run)[-1].type == "Result"
    store.close()
    assert_all_comes_back(workspace, run.id, texts)
