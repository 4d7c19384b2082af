"""`harness acp`: an editor uses an agent, loses its process, and another one continues."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Any

import acp.schema
import pytest

import acp
import stored_homes
from acp_editor import Editor, Refused, allow_once, environment_of, never
from fake_collector import FakeCollector
from python_programs import PYTHON

SCRIPT = """
pause_ms = 2
turns = [
  [ { text = "I write.", pieces = 3 }, { tool = "bash", input = { command = "echo hi > made.txt" } }, { usage = { input = 100, output = 5 } } ],
  [ { text = "It is there.", pieces = 2 } ],
  [ { text = "Again.", pieces = 2 }, { tool = "bash", input = { command = "sleep 30" } } ],
  [ { text = "No, then." } ],
]
"""
TWO_CALLS = """
turns = [
  [ { text = "I write." }, { tool = "bash", input = { command = "echo hi > made.txt" } } ],
  [ { text = "It is there." } ],
  [ { text = "Fourth." }, { tool = "bash", input = { command = "echo fourth > fourth.txt" } } ],
  [ { text = "Fourth done." } ],
]
"""
ASKING = """
turns = [
  [ { tool = "ask_user", input = { question = "Which colour?", options = [ { label = "red" }, { label = "blue" } ] } } ],
  [ { text = "So be it." } ],
]
"""


class Desk:
    """A home, a folder to work in, and editors there."""

    def __init__(self, home: Path) -> None:
        self.home, self.work = home, home / "work"
        self.work.mkdir()
        self.environment = environment_of(home)
        self.script = home / "script.toml"
        self.script.write_text(SCRIPT)

    @property
    def options(self) -> tuple[str, ...]:
        return ("--agent", "native", "--model", f"scripted/{self.script}")

    def editor(self, **options: Any) -> Editor:
        return Editor(self.environment, *self.options, **options)

    def place(self, **more: Any) -> dict[str, Any]:
        return {"cwd": str(self.work), "mcpServers": [], **more}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def words(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def load(editor: Editor, desk: Desk, session: str) -> None:
    if editor.version == 1:
        editor.call("session/load", **desk.place(sessionId=session))
    else:
        editor.call("session/resume", **desk.place(sessionId=session, replayFrom={"type": "start"}))


def is_idle(editor: Editor) -> bool:
    states = [one for one in editor.updates if one["sessionUpdate"] == "state_update"]
    return bool(states) and states[-1]["state"] == "idle"


@pytest.mark.parametrize("version", [1, 2])
def test_a_turn_with_a_question_and_one_that_is_stopped(desk: Desk, version: int) -> None:
    with desk.editor(version=version) as editor:
        assert editor.greeting["protocolVersion"] == version
        session = editor.call("session/new", **desk.place())["sessionId"]
        done = editor.call("session/prompt", sessionId=session, prompt=words("write"))
        if version == 1:
            assert done == {"stopReason": "end_turn"}
        editor.until(lambda: version == 1 or is_idle(editor))
        assert (desk.work / "made.txt").exists()
        assert editor.text() == "I write.It is there."
        (asked,) = editor.asked
        kinds = {one["kind"] for one in asked["params"]["options"]}
        assert {"allow_once", "reject_once"} <= kinds
        assert editor.count("user_message_chunk") == 0  # it knows what it has sent
        assert editor.count("usage_update") == 1
        waiting = editor.begin("session/prompt", sessionId=session, prompt=words("sleep"))
        editor.until(
            lambda: any(
                "sleep" in str(one.get("rawInput")) and one.get("status") == "in_progress"
                for one in editor.updates
            )
        )
        editor.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
        if version == 1:
            assert editor.answer(waiting) == {"stopReason": "cancelled"}
        else:
            editor.until(lambda: is_idle(editor) and editor.updates[-1].get("stopReason") == "cancelled")
        (row,) = editor.call("session/list")["sessions"]
        assert (row["sessionId"], row["cwd"], row["title"]) == (session, str(desk.work), "write")
        assert editor.close() == 0


class ClaudeDesk(Desk):
    """With a program that speaks as Claude Code does."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        fake = Path(__file__).parents[1] / "session" / "fake_claude.py"
        program = home / "claude"
        program.write_text(
            f'#!/bin/sh\nFAKE_VERSION=2.1.325 exec {PYTHON} -I -S {shlex.quote(str(fake))} "$@"\n'
        )
        program.chmod(0o755)
        path = f"{home}:{self.environment['PATH']}"
        self.environment |= {"PATH": path, "FAKE_NOTES": str(home / "notes")}

    @property
    def options(self) -> tuple[str, ...]:
        return ("--agent", "claude")


def asked_by_a_program(desk: Desk) -> tuple[Editor, str]:
    first = desk.editor(permits=never)
    session = first.call("session/new", **desk.place())["sessionId"]
    first.begin("session/prompt", sessionId=session, prompt=words("run"))
    first.until(lambda: first.asked)
    return first, session


def test_a_program_that_asks_outlives_its_editor_and_another_one_answers(tmp_path: Path) -> None:
    desk = ClaudeDesk(tmp_path)
    first, session = asked_by_a_program(desk)
    with first, desk.editor() as second:
        assert first.process.stdin is not None
        first.process.stdin.close()  # the editor is gone
        load(second, desk, session)
        second.until(lambda: second.asked)
        second.until(lambda: "completed" in str(second.updates))
        assert first.close() == 0
        assert second.call("session/prompt", sessionId=session, prompt=words("hi")) == {
            "stopReason": "end_turn"
        }


def test_where_the_program_has_died_nobody_is_asked_for_nothing(tmp_path: Path) -> None:
    desk = ClaudeDesk(tmp_path)
    first, session = asked_by_a_program(desk)
    first.kill()
    with desk.editor() as second:
        load(second, desk, session)
        assert "ended before there was an answer" in second.text()
        assert "Send a message to continue" in second.text()
        assert second.call("session/prompt", sessionId=session, prompt=words("hi")) == {
            "stopReason": "end_turn"
        }
        assert not second.asked


def test_a_run_that_failed_says_why(tmp_path: Path) -> None:
    desk = ClaudeDesk(tmp_path)
    with desk.editor() as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]
        with pytest.raises(Refused, match="Not logged in"):
            editor.call("session/prompt", sessionId=session, prompt=words("expired"))


@pytest.mark.parametrize("version", [1, 2])
def test_a_second_editor_answers_and_a_third_continues_after_a_kill(desk: Desk, version: int) -> None:
    desk.script.write_text(TWO_CALLS)
    with desk.editor(version=version) as first:
        session = first.call("session/new", **desk.place())["sessionId"]
        first.permits = never
        waiting = first.begin("session/prompt", sessionId=session, prompt=words("write"))
        first.until(lambda: first.asked)
        with desk.editor(version=version) as second:
            load(second, desk, session)
            second.until(lambda: second.asked)
            assert second.text("user_message_chunk") == "write"
            second.until(lambda: "It is there." in second.text())
        first.until(lambda: first.withdrawn == [first.asked[0]["id"]])
        if version == 1:
            assert first.answer(waiting) == {"stopReason": "end_turn"}
        assert (desk.work / "made.txt").exists()
        first.until(lambda: version == 1 or is_idle(first))
        first.begin("session/prompt", sessionId=session, prompt=words("fourth"))
        first.until(lambda: len(first.asked) == 2)
        first.kill()
    with desk.editor(version=version) as third:
        load(third, desk, session)
        third.until(lambda: "Fourth done." in third.text())
        assert (desk.work / "fourth.txt").exists()
        assert third.call("session/close", sessionId=session) == {}
        assert third.call("session/delete", sessionId=session) == {}
        assert third.call("session/list")["sessions"] == []


def test_a_question_is_a_form_or_a_message_that_the_next_prompt_answers(desk: Desk) -> None:
    desk.script.write_text(ASKING)
    answers = {"action": "accept", "content": {"answer": "blue"}}
    forms = {"elicitation": {"form": {}}}
    with desk.editor(capabilities=forms, permits=lambda _parameters: answers) as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]
        assert (
            editor.call("session/prompt", sessionId=session, prompt=words("ask"))["stopReason"] == "end_turn"
        )
        (asked,) = editor.asked
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["requestedSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]
        assert editor.text() == "So be it."
    with desk.editor() as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]
        waiting = editor.begin("session/prompt", sessionId=session, prompt=words("ask"))
        editor.until(lambda: "Which colour?" in editor.text())
        editor.call("session/prompt", sessionId=session, prompt=words("red"))
        assert editor.answer(waiting)["stopReason"] == "end_turn"


def test_mode_model_agent_title_and_fork(desk: Desk) -> None:
    with desk.editor() as editor:
        opened = editor.call("session/new", **desk.place())
        session = opened["sessionId"]
        assert {one["id"] for one in opened["configOptions"]} >= {"mode", "permissions", "model", "agent"}
        editor.call("session/set_mode", sessionId=session, modeId="plan")
        editor.until(lambda: editor.count("current_mode_update"))
        changed = editor.call(
            "session/set_config_option", sessionId=session, configId="permissions", value="fullAuto"
        )
        current = {one["id"]: one["currentValue"] for one in changed["configOptions"]}
        assert (current["mode"], current["permissions"]) == ("plan", "fullAuto")
        editor.call("session/set_config_option", sessionId=session, configId="mode", value="build")
        assert editor.call("session/prompt", sessionId=session, prompt=words("/title Painting"))
        editor.until(lambda: editor.count("session_info_update"))
        editor.call("session/prompt", sessionId=session, prompt=words("write"))
        assert not editor.asked  # full access
        branch = editor.call("session/fork", **desk.place(sessionId=session))["sessionId"]
        assert {one["sessionId"] for one in editor.call("session/list")["sessions"]} == {session, branch}
        with pytest.raises(Refused, match="surprise"):
            editor.call("session/set_config_option", sessionId=session, configId="surprise", value="x")


@pytest.mark.parametrize("version", [1, 2])
def test_commands_of_the_users_own_are_slash_commands(desk: Desk, version: int) -> None:
    folder = desk.home / "config" / "harness" / "commands"
    folder.mkdir(parents=True)
    (folder / "review.md").write_text("---\ndescription: Look at the change\n---\nReview $ARGUMENTS.")
    with desk.editor(version=version) as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]

        def told() -> dict[str, str]:
            lists = [one["availableCommands"] for one in editor.updates if "availableCommands" in one]
            return {one["name"]: one["description"] for one in lists[-1]} if lists else {}

        editor.until(told)
        assert told()["review"] == "Look at the change"
        assert {"agent", "model", "title"} <= told().keys()
        assert "compact" not in told()
        editor.call("session/prompt", sessionId=session, prompt=words("/review it"))
        editor.until(lambda: "It is there." in editor.text())
        (log,) = (desk.home / "data" / "harness" / "sessions").glob("*.ndjson")
        assert "Review it." in log.read_text()


def test_what_is_wrong_gets_the_error_of_the_protocol_and_nothing_is_lost(desk: Desk) -> None:
    with desk.editor() as editor:
        session = editor.call("session/new", **desk.place())["sessionId"]
        for method, parameters, code in (
            ("session/load", desk.place(sessionId="nope"), -32002),
            ("session/load", desk.place(sessionId="../../etc/passwd"), -32002),
            ("session/load", desk.place(sessionId="claude:../x"), -32002),
            ("session/prompt", {"sessionId": "nope", "prompt": words("x")}, -32002),
            ("session/prompt", {"sessionId": session, "prompt": "x"}, -32602),
            ("session/prompt", {"sessionId": session, "prompt": []}, -32602),
            ("session/prompt", {"sessionId": session, "prompt": [{"type": "video"}]}, -32602),
            ("session/prompt", {"sessionId": session, "prompt": words("x" * (9 * 1024 * 1024))}, -32602),
            ("session/new", {"cwd": "here", "mcpServers": []}, -32602),
            ("session/new", {"cwd": "/does/not/exist", "mcpServers": []}, -32602),
            ("session/delete", {"sessionId": "nope"}, -32002),
            ("session/list", {"cursor": "x"}, -32602),
            ("foo/bar", {}, -32601),
        ):
            with pytest.raises(Refused) as refused:
                editor.call(method, **parameters)
            assert refused.value.code == code, method
        editor.send_bytes(b"{not json}\n[]\n")
        editor.send_bytes(
            b'{"jsonrpc":"2.0","id":900,"method":"x","params":{"a":"' + b"y" * (70 * 1024 * 1024) + b'"}}\n'
        )
        editor.permits = never
        waiting = editor.begin("session/prompt", sessionId=session, prompt=words("write"))
        editor.until(lambda: editor.asked)
        editor.send({"jsonrpc": "2.0", "id": waiting, "method": "session/list", "params": {}})
        with pytest.raises(Refused, match="this id"):
            editor.answer(waiting)
        with pytest.raises(Refused, match="being answered"):
            editor.call("session/prompt", sessionId=session, prompt=words("another"))
        editor.send({"jsonrpc": "2.0", "id": "h99", "result": {}})
        editor.send(
            {"jsonrpc": "2.0", "id": editor.asked[0]["id"], "result": allow_once(editor.asked[0]["params"])}
        )
        assert editor.answer(waiting) == {"stopReason": "end_turn"}
        assert b"-32700" in editor.errors
        assert editor.errors.count(b"-32600") == 2


def test_before_it_is_initialized_nothing_is_answered(desk: Desk) -> None:
    with desk.editor() as editor:
        editor.send(
            {"jsonrpc": "2.0", "id": 77, "method": "initialize", "params": {"protocolVersion": "one"}}
        )
        editor.until(lambda: b"-32602" in editor.errors)


def test_a_session_of_an_agents_own_history_is_listed_and_loaded(desk: Desk) -> None:
    case = stored_homes.cases("claude")[0]
    case.unpack(desk.home)
    with desk.editor() as editor:
        rows = editor.call("session/list")["sessions"]
        theirs = [one for one in rows if one["sessionId"].startswith("claude:")]
        assert theirs
        editor.call("session/load", cwd=str(desk.work), sessionId=theirs[0]["sessionId"], mcpServers=[])
        assert editor.count("user_message_chunk")
        with pytest.raises(Refused, match="changes nothing"):
            editor.call("session/delete", sessionId=theirs[0]["sessionId"])


class OfficialClient:
    def __init__(self) -> None:
        self.updates: list[str] = []
        self.asked = 0

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_more: Any) -> Any:
        self.asked += 1
        chosen = next(one.option_id for one in options if one.kind == "allow_once")
        outcome = acp.schema.AllowedOutcome(option_id=chosen, outcome="selected")
        return acp.schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        self.updates.append(update.session_update)

    def on_connect(self, connection: Any) -> None:
        """Nothing is to be done."""


def test_the_official_client_drives_it(desk: Desk) -> None:
    async def drive() -> None:
        client = OfficialClient()
        command = (sys.executable, "-m", "harness", "acp", *desk.options)
        spawned = acp.spawn_agent_process(client, *command, env=desk.environment, cwd=desk.work)
        async with spawned as (connection, _process):
            greeting = await connection.initialize(protocol_version=1)
            assert greeting.agent_info.name == "harness"
            new = await connection.new_session(cwd=str(desk.work), mcp_servers=[])
            done = await connection.prompt(prompt=[acp.text_block("write")], session_id=new.session_id)
            assert done.stop_reason == "end_turn"
            assert client.asked == 1
            assert {"agent_message_chunk", "tool_call", "tool_call_update"} <= {*client.updates}
            listed = await connection.list_sessions()
            assert [one.session_id for one in listed.sessions] == [new.session_id]

    asyncio.run(drive())


def test_the_next_prompt_may_follow_at_once(desk: Desk) -> None:
    turn = '[ { tool = "bash", input = { command = "date >> made.txt" } } ], [ { text = "Yes." } ]'
    desk.script.write_text(f"turns = [ {', '.join([turn] * 4)} ]")
    desk.environment["HARNESS_UNDO"] = "true"  # there is still work to do after the last word of a run

    async def drive() -> None:
        command = (sys.executable, "-m", "harness", "acp", *desk.options)
        spawned = acp.spawn_agent_process(OfficialClient(), *command, env=desk.environment, cwd=desk.work)
        async with spawned as (connection, _process):
            await connection.initialize(protocol_version=1)
            session = (await connection.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            for _ in range(4):
                done = await connection.prompt(prompt=[acp.text_block("write")], session_id=session)
                assert done.stop_reason == "end_turn"

    asyncio.run(drive())


def test_what_an_editor_has_done_is_sent_to_the_collector_of_the_settings(desk: Desk) -> None:
    collector = FakeCollector()
    folder = desk.home / "config" / "harness"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[otlp]\nurl = "{collector.url}"\n')
    try:
        with desk.editor(permits=allow_once) as editor:
            session = editor.call("session/new", **desk.place())["sessionId"]
            editor.call("session/prompt", sessionId=session, prompt=words("write"))
            assert editor.close() == 0
        names = {span.name for span in collector.spans()}
        assert {"invoke_agent native", "execute_tool bash"} <= names
        assert "gen_ai.client.token.usage" in collector.points()
    finally:
        collector.server.shutdown()
        collector.server.server_close()
