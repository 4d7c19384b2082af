"""What a conversation changed, over HTTP: listed, shown, reverted, undone and committed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.clients.client import PlainClient
from live_server import TIMEOUT_S, LiveServer, is_done
from test_rest import Described

TEXT = "".join(f"line {number}\n" for number in range(1, 21))


def call(name: str, **asked: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_call", "name": name, "input": asked}]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def project(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(live.folder / "data"))
    folder = live.folder / "project"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    return folder


def finished(live: LiveServer, project: Path) -> str:
    model = live.script(
        call("read", filePath="a.txt"),
        call("edit", filePath="a.txt", oldString="line 3\n", newString="line three\n"),
        call("write", filePath="new.txt", content="one\ntwo\n"),
        "Done.",
    )
    session = live.create(model=model, cwd=str(project), prompt="Count in words", permissionMode="fullAuto")
    with PlainClient(live.url, token=live.access.token, session=session["id"]) as client:
        client.until(is_done, TIMEOUT_S)
    identity: str = session["id"]
    return identity


def changes(http: httpx.Client, log_id: str, **query: Any) -> dict[str, Any]:
    answer = http.get(f"/api/sessions/{log_id}/changes", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_changes_are_listed_shown_and_taken_back(live: LiveServer, project: Path) -> None:
    log_id = finished(live, project)
    with live.http() as http:
        listed = changes(http, log_id)
        assert [
            (file["path"], file["change"], file["added"], file["removed"]) for file in listed["files"]
        ] == [
            ("a.txt", "M", 1, 1),
            ("new.txt", "A", 2, 0),
        ]
        assert (listed["added"], listed["removed"], listed["git"], listed["root"]) == (
            3,
            1,
            None,
            str(project),
        )
        assert listed["proposedMessage"] == "Count in words"
        (turn,) = listed["turns"]
        assert changes(http, log_id, scope=f"turn:{turn['id']}")["files"] == listed["files"]
        place = f"/api/sessions/{log_id}/changes/file"
        whole = http.get(place, params={"path": "a.txt"}).json()
        assert (whole["total"], whole["rows"][0]["kind"]) == (len(whole["rows"]), "place")
        part = http.get(place, params={"path": "a.txt", "from": 2, "lines": 3}).json()
        assert (part["first"], part["rows"]) == (2, whole["rows"][2:5])
        described, one = Described(http), "/api/sessions/{id}"
        described.check("get", f"{one}/changes", http.get(f"/api/sessions/{log_id}/changes"))
        described.check("get", f"{one}/changes/file", http.get(place, params={"path": "a.txt"}))
        text = http.get(f"/api/sessions/{log_id}/file", params={"path": "a.txt", "from": 1, "lines": 2})
        described.check("get", f"{one}/file", text)
        assert (text.json()["lines"], text.json()["total"]) == (["line 2", "line three"], 20)
        outside = http.get(f"/api/sessions/{log_id}/file", params={"path": "../data"})
        assert (outside.status_code, "not in the folder" in outside.text) == (400, True)
        patch = http.get(f"/api/sessions/{log_id}/changes/patch").json()["patch"]
        assert patch.startswith("diff --git a/a.txt b/a.txt\n")

        asked: dict[str, Any] = {"scope": "conversation", "paths": ["a.txt"], "dryRun": True}
        (shown,) = http.post(f"/api/sessions/{log_id}/revert", json=asked).json()["files"]
        assert (shown["action"], shown["undoneLines"]) == ("change", 1)
        assert "three" in (project / "a.txt").read_text()
        asked = {**asked, "dryRun": False}
        assert http.post(f"/api/sessions/{log_id}/revert", json=asked).status_code == 409
        asked["expect"] = {"a.txt": shown["digest"]}
        answer = http.post(f"/api/sessions/{log_id}/revert", json=asked)
        described.check("post", f"{one}/revert", answer)
        done = answer.json()
        assert (project / "a.txt").read_text() == TEXT
        assert changes(http, log_id)["files"][0]["isReverted"]
        undone = http.post(f"/api/sessions/{log_id}/revert/undo", json={"undoId": done["undoId"]})
        assert undone.json() == {"paths": ["a.txt"]}
        assert "three" in (project / "a.txt").read_text()


def test_chosen_files_are_committed(live: LiveServer, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(project, "init", "-q", "-b", "main")
    git(project, "config", "user.name", "A")
    git(project, "config", "user.email", "a@example.org")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    log_id = finished(live, project)
    with live.http() as http:
        head = changes(http, log_id)["git"]["head"]
        assert [file["path"] for file in changes(http, log_id, scope="uncommitted")["files"]] == [
            "a.txt",
            "new.txt",
        ]
        asked = {"paths": ["new.txt"], "message": "Add it", "expectHead": "0" * 40}
        assert http.post(f"/api/sessions/{log_id}/commit", json=asked).status_code == 409
        answer = http.post(f"/api/sessions/{log_id}/commit", json={**asked, "expectHead": head}).json()
        assert (answer["branch"], answer["files"]) == ("main", 1)
        assert git(project, "log", "-1", "--format=%s", "--name-only").split("\n\n") == ["Add it", "new.txt"]
        assert [file["path"] for file in changes(http, log_id, scope="uncommitted")["files"]] == ["a.txt"]


def test_mistakes_are_answered_in_words(live: LiveServer, project: Path) -> None:
    log_id = finished(live, project)
    one = f"/api/sessions/{log_id}"
    with live.http() as http:
        refused = [
            http.get(f"{one}/changes", params={"scope": "nonsense"}),
            http.get(f"{one}/changes", params={"scope": "uncommitted"}),
            http.get(f"{one}/changes", params={"scope": "turn:x"}),
            http.get(f"{one}/changes/file", params={"path": "/etc/passwd"}),
            http.get(f"{one}/changes/file", params={"path": "a\x00b"}),
            http.post(f"{one}/revert", json={"paths": ["../x"]}),
            http.post(f"{one}/revert/undo", json={"undoId": "../../x"}),
            http.post(f"{one}/commit", json={"paths": ["a.txt"], "message": "m", "expectHead": ""}),
        ]
        for answer in refused:
            assert answer.status_code == 400, answer.text
            assert json.loads(answer.text)["error"]["message"]
        assert http.get("/api/sessions/none/changes").status_code == 404


def test_a_turn_is_undone_with_what_its_commands_did(
    live: LiveServer, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_UNDO", "true")
    model = live.script(call("bash", command="rm a.txt && echo x > made"), "Done.")
    session = live.create(model=model, cwd=str(project), prompt="Clean up", permissionMode="fullAuto")
    with PlainClient(live.url, token=live.access.token, session=session["id"]) as client:
        client.until(is_done, TIMEOUT_S)
    one = f"/api/sessions/{session['id']}"
    with live.http() as http:
        [turn] = http.get(f"{one}/undo").json()["turns"]
        assert (turn["number"], turn["files"], turn["state"]) == (1, 2, "undoable")
        plan = http.post(f"{one}/undo", json={"turn": turn["id"]}).json()
        assert [(file["path"], file["act"]) for file in plan["files"]] == [
            ("a.txt", "create"),
            ("made", "remove"),
        ]
        assert not plan["isDone"]
        (project / "made").write_text("mine")
        assert http.post(f"{one}/undo", json={"expect": plan["digest"]}).status_code == 409
        assert not (project / "a.txt").exists()
        (project / "made").write_text("x\n")
        done = http.post(f"{one}/undo", json={"expect": plan["digest"]}).json()
        assert done["isDone"]
        assert (project / "a.txt").read_text() == TEXT
        assert not (project / "made").exists()
        assert http.get(f"{one}/undo").json()["turns"][0]["state"] == "undone"
        assert http.post(f"{one}/undo", json={}).status_code == 409
        again = http.post(f"{one}/redo", json={}).json()
        assert http.post(f"{one}/redo", json={"expect": again["digest"]}).json()["isDone"]
        assert (project / "made").read_text() == "x\n"
        assert http.post(f"{one}/undo", json={"turn": "9"}).status_code == 400
        assert http.post("/api/sessions/nothing/undo", json={}).status_code == 404
