"""Where a conversation is to work, over HTTP: projects, folders, files, templates, worktrees."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from live_server import LiveServer
from test_rest import Described, finished


class Checked:
    """Requests whose answers are checked against `/openapi.json`."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._described = Described(http)

    def __call__(self, method: str, path: str, /, **query: str) -> httpx.Response:
        answer = self._http.request(method, path, params=query)
        self._described.check(method.lower(), path, answer)
        return answer

    def send(self, method: str, path: str, body: dict[str, object]) -> httpx.Response:
        answer = self._http.request(method, path, json=body)
        self._described.check(method.lower(), path, answer)
        return answer


def git(folder: Path, *arguments: str) -> None:
    words = ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
    subprocess.run(words, cwd=folder, capture_output=True, check=True)


@pytest.fixture
def project(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(live.folder / "data"))
    folder = live.folder / "project"
    folder.mkdir()
    (folder / "total.py").write_text("a = 1\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_run_gets_a_worktree_of_its_own(live: LiveServer, project: Path) -> None:
    log_id = live.create(model=live.script("Done."), cwd=str(project))["id"]
    with live.http() as http:
        ask = Checked(http)
        listed = {one["folder"]: one for one in ask("GET", "/api/projects").json()["projects"]}
        own = listed[str(project)]
        assert (own["name"], own["branch"], own["isRepository"]) == ("project", "main", True)
        (project / "new.txt").write_text("new")
        assert ask("GET", "/api/projects/one", folder=str(project)).json()["changed"] == 1
        page = ask("GET", "/api/folders", path=str(project.parent)).json()
        assert page["roots"], "folders that are not below this one can be reached"
        folders = page["folders"]
        assert {"name": "project", "path": str(project), "isProject": True} in folders
        assert ask("GET", "/api/files", session=log_id, query="tot").json() == {"files": ["total.py"]}
        commands = ask("GET", "/api/commands", session=log_id).json()["commands"]
        assert "explain" in [command["name"] for command in commands]
        made = ask.send("POST", "/api/worktrees", {"folder": str(project), "branch": "gift-cards"})
        assert (made.status_code, made.json()["base"]) == (201, "main")
        place = Path(made.json()["folder"])
        (place / "total.py").write_text("changed\n")
        refused = ask.send("DELETE", "/api/worktrees", {"folder": str(place)})
        assert refused.status_code == 409
        assert "total.py" in refused.json()["error"]["message"]
        assert ask.send("DELETE", "/api/worktrees", {"folder": str(place), "force": True}).status_code == 204


def test_what_is_outside_is_not_shown(live: LiveServer) -> None:
    with live.http() as http:
        ask = Checked(http)
        assert ask("GET", "/api/folders", path="/proc").status_code == 400
        assert ask("GET", "/api/folders", path="/etc/..").status_code == 400
        assert ask("GET", "/api/files", cwd="/etc", query="pass").status_code == 400
        assert ask("GET", "/api/files", session="none", query="a").status_code == 404
        assert ask("GET", "/api/projects/one", folder="/usr").status_code == 400


def test_usage_has_two_dimensions(live: LiveServer) -> None:
    used = [{"type": "text", "content": "Hi."}, {"type": "usage", "inputTokens": 9, "outputTokens": 3}]
    finished(live, used)
    with live.http() as http:
        ask = Checked(http)
        (row,) = ask("GET", "/api/usage", by="day", split="agent").json()["rows"]
        assert (row["agent"], row["output"]) == ("native", 3)
        (row,) = ask("GET", "/api/usage", by="project").json()["rows"]
        assert row["project"]
        assert ask("GET", "/api/usage", by="day", split="colour").status_code == 400


def test_a_worktree_is_not_made_outside(live: LiveServer) -> None:
    with live.http() as http:
        assert http.post("/api/worktrees", json={"folder": "/usr", "branch": "a"}).status_code == 400


def test_a_first_look_needs_no_key_and_spoils_nothing(live: LiveServer, project: Path) -> None:
    with live.http() as http:
        ask = Checked(http)
        assert "histories" in ask("GET", "/api/histories").json()
        first = ask.send("POST", "/api/demonstration", {}).json()
        assert first["model"] == "scripted/demo"
        assert Path(first["folder"]).is_relative_to(live.folder / "data")
        assert ask.send("POST", "/api/demonstration", {}).json() == first


def test_the_agents_own_commands_come_after_the_templates(live: LiveServer, project: Path) -> None:
    live.create(model=live.script("Done."), cwd=str(project))
    folder = project / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("---\ndescription: Say hello\n---\nHello, $ARGUMENTS\n")
    (folder / "review.md").write_text("Not that of Harness")
    with live.http() as http:
        ask = Checked(http)
        found = ask("GET", "/api/commands", cwd=str(project), agent="claude").json()["commands"]
        greet = {"kind": "command", "name": "greet", "description": "Say hello", "text": ""}
        assert found[-1] == greet
        assert [one["kind"] for one in found if one["name"] == "review"] == ["template"]
        others = ask("GET", "/api/commands", cwd=str(project), agent="no such agent").json()["commands"]
        assert others == [one for one in found if one["kind"] == "template"]


def test_what_a_folder_brings_for_an_agent_is_shown_and_trusted_as_it_was_shown(
    live: LiveServer, project: Path
) -> None:
    live.create(model=live.script("Done."), cwd=str(project))
    settings = project / ".mcp.json"
    settings.write_text('{"mcpServers": {"evil": {"command": "npx", "args": ["evil"]}}}')
    with live.http() as http:
        ask = Checked(http)
        about = {"cwd": str(project), "agent": "claude"}
        shown = ask("GET", "/api/folder-settings", **about).json()
        assert shown["state"] == "new"
        assert shown["sentences"] == [
            "`.mcp.json`: starts `npx evil` (server evil)",
            "what these programs load in turn may change without another question",
        ]
        settings.write_text("{}")
        late = ask.send("POST", "/api/folder-settings", {**about, "digest": shown["digest"]})
        assert late.status_code == 409
        again = ask("GET", "/api/folder-settings", **about).json()
        trusted = ask.send("POST", "/api/folder-settings", {**about, "digest": again["digest"]})
        assert trusted.json()["state"] == "trusted"
        assert (
            ask("GET", "/api/folder-settings", cwd=str(project), agent="native").json()["state"] == "nothing"
        )
        assert http.get("/api/folder-settings", params={"cwd": "/usr", "agent": "claude"}).status_code == 400
