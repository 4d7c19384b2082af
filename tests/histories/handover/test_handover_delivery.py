"""What a hand-over makes, notes and removes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from handed_conversations import AT_MS, made_up, writers
from harness.contracts.history import Home
from harness.contracts.writer import HandoverWriter, NewFile
from harness.errors import UsageError
from harness.histories.handover.delivery import HandoverFailed, HandoverFolder, Target

CLAUDE = next(writer for writer in writers() if writer.agent == "claude")
OPENCODE = next(writer for writer in writers() if writer.agent == "opencode")


def _target(root: Path, binary: str = "") -> Target:
    home = Home(str(root), {"PATH": os.environ["PATH"]})
    return Target(at_ms=AT_MS, source="otter:s-1", cwd=str(root), home=home, binary=binary, version="2.1.325")


@pytest.fixture
def folder(tmp_path: Path) -> HandoverFolder:
    return HandoverFolder(str(tmp_path / "hand-overs"))


def _left(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]


def test_a_session_is_made_noted_and_removed(folder: HandoverFolder, tmp_path: Path) -> None:
    made = folder.deliver(CLAUDE, made_up(), _target(tmp_path))
    [manifest] = folder.all()
    assert (manifest.agent, manifest.session_id, manifest.source) == ("claude", made.session_id, "otter:s-1")
    assert [file.path for file in manifest.files] == [made.file]
    assert stat.S_IMODE(os.stat(made.file).st_mode) == 0o600
    assert not [name for name in _left(tmp_path) if name.endswith(".new")]
    assert folder.remove(folder.find(made.session_id[:8]), is_forced=False) == []
    assert _left(tmp_path) == []


def test_a_session_that_was_continued_is_only_removed_by_force(
    folder: HandoverFolder, tmp_path: Path
) -> None:
    made = folder.deliver(CLAUDE, made_up(), _target(tmp_path))
    with open(made.file, "ab") as file:
        file.write(b"{}\n")
    [manifest] = folder.all()
    assert folder.remove(manifest, is_forced=False) == [made.file]
    assert os.path.exists(made.file)
    folder.remove(manifest, is_forced=True)
    assert _left(tmp_path) == []


def _broken(writer: HandoverWriter, data: bytes) -> HandoverWriter:
    def files(conversation: object, place: object) -> list[NewFile]:
        [made] = writer.files(conversation, place)  # type: ignore[arg-type]
        return [NewFile(made.path, data)]

    return replace(writer, files=files)


@pytest.mark.parametrize("data", [b"", b"garbage\n", b'{"type":"user"}\n'])
def test_what_does_not_read_back_is_removed_again(
    folder: HandoverFolder, tmp_path: Path, data: bytes
) -> None:
    with pytest.raises(HandoverFailed, match="reads back differently"):
        folder.deliver(_broken(CLAUDE, data), made_up(), _target(tmp_path))
    assert _left(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_an_error_with_its_name(
    folder: HandoverFolder, tmp_path: Path
) -> None:
    (tmp_path / ".claude").write_text("a file")
    with pytest.raises(HandoverFailed, match=r"\.claude"):
        folder.deliver(CLAUDE, made_up(), _target(tmp_path))
    assert _left(tmp_path) == [".claude"]


def test_a_link_in_the_place_of_the_session_is_not_followed(folder: HandoverFolder, tmp_path: Path) -> None:
    writer = replace(CLAUDE, new_id=lambda _ids, _at_ms: "known")
    place = tmp_path / ".claude/projects" / str(tmp_path).replace("/", "-").replace("_", "-")
    place.mkdir(parents=True)
    (place / "known.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(HandoverFailed, match="exists"):
        folder.deliver(writer, made_up(), _target(tmp_path))
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize(("body", "said"), [("echo no; exit 3", "no"), ("exit 0", "has no session")])
def test_an_import_that_fails_says_so(folder: HandoverFolder, tmp_path: Path, body: str, said: str) -> None:
    program = tmp_path / "opencode"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    with pytest.raises(HandoverFailed, match=said):
        folder.deliver(OPENCODE, made_up(), _target(tmp_path, str(program)))
    assert _left(tmp_path) == ["opencode"]


def test_a_manifest_of_another_name_and_garbage_are_not_taken(folder: HandoverFolder, tmp_path: Path) -> None:
    for name, text in (("a", "garbage"), ("b", '{"id":"../x"}'), ("..", "")):
        path = tmp_path / "hand-overs" / name / "manifest.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert folder.all() == []
    with pytest.raises(UsageError, match="there is no hand-over"):
        folder.find("a")
