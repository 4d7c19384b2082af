"""Checkpoints of runs in this process: only around calls that may change a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from harness import FileStore, Harness, Mode, Scripted, WorkspaceConfig
from harness.clients.changes.undo import open_undo
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
