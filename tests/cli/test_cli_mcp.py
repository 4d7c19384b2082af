"""`harness mcp`: the official client of MCP runs agents, answers them, and is held to the limits."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from acp_editor import environment_of
from harness.clients.mcp.tools import TOOLS

mcp = pytest.importorskip("mcp", reason="the extra `mcp` is not installed: pip install mcp")
types = pytest.importorskip("mcp_types", reason="the extra `mcp` is not installed: pip install mcp")
client_module = pytest.importorskip("mcp.client", reason="the extra `mcp` is not installed: pip install mcp")

SCRIPT = """
turns = [
  [ { text = "I write." }, { tool = "bash", input = { command = "echo hi > made.txt" } }, { usage = { input = 100, output = 5 } } ],
  [ { text = "The purple file is there." } ],
]
"""
TASKS = "io.modelcontextprotocol/tasks"
META = "io.modelcontextprotocol/"


class Shop:
    def __init__(self, home: Path) -> None:
        self.work = home / "work"
        self.work.mkdir()
        self.environment = environment_of(home)
        script = home / "script.toml"
        script.write_text(SCRIPT)
        self.command = ["-m", "harness", "mcp", "--agent", "native", "--model", f"scripted/{script}"]

    def client(self, mode: str, **options: Any) -> Any:
        environment = {**self.environment, **options.pop("environment", {})}
        server = mcp.StdioServerParameters(
            command=sys.executable, args=self.command, env=environment, cwd=str(self.work)
        )
        return client_module.Client(server, mode=mode, **options)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 120))


async def allow(_context: Any, asked: Any) -> Any:
    choices = asked.requested_schema["properties"]["answer"]["enum"]
    return types.ElicitResult(action="accept", content={"answer": choices[0]})


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_an_agent_is_run_asks_and_is_found_again(shop: Shop, mode: str) -> None:
    progress: list[str] = []

    async def note(_progress: float, _total: float | None, message: str | None) -> None:
        progress.append(message or "")

    async def work() -> None:
        async with shop.client(mode, elicitation_callback=allow) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names == {
                *("run_agent", "start_agent", "wait_agent", "answer", "hand_over"),
                *("list_sessions", "show_session", "recall"),
            }
            done = await client.call_tool("run_agent", {"prompt": "write"}, progress_callback=note)
            data = done.structured_content
            assert (data["outcome"], data["success"], data["text"]) == (
                "completed",
                True,
                "The purple file is there.",
            )
            assert not done.is_error
            assert (shop.work / "made.txt").exists()
            assert any("echo hi" in one for one in progress)
            rows = (await client.call_tool("list_sessions", {})).structured_content["sessions"]
            assert [row["session"] for row in rows] == [data["session"]]
            shown = await client.call_tool("show_session", {"session": data["session"]})
            assert "purple file" in shown.structured_content["text"]
            found = (await client.call_tool("recall", {"query": "purple"})).structured_content["passages"]
            assert found[0]["session"] == data["session"]
            assert "purple" in found[0]["passage"]

    run(work)


def test_a_client_that_cannot_ask_answers_with_a_tool(shop: Shop) -> None:
    shop.command.append("--let-agents-allow")

    async def work() -> None:
        async with shop.client("legacy") as client:
            waiting = (await client.call_tool("run_agent", {"prompt": "write"})).structured_content
            assert waiting["outcome"] == "waiting"
            assert "echo hi" in waiting["text"]
            option = waiting["question"]["options"][0]["id"]
            always = next(one["id"] for one in waiting["question"]["options"] if "lways" in one["label"])
            refused = await client.call_tool("answer", {"session": waiting["session"], "answer": always})
            assert refused.is_error
            assert "only a person" in refused.content[0].text
            done = await client.call_tool("answer", {"session": waiting["session"], "answer": option})
            assert done.structured_content["outcome"] == "completed"
            started = (await client.call_tool("start_agent", {"prompt": "again"})).structured_content
            assert started["outcome"] in {"running", "waiting"}
            asked = await client.call_tool("wait_agent", {"session": started["session"], "seconds": 20})
            assert asked.structured_content["outcome"] == "waiting"
            refused = await client.call_tool("answer", {"session": started["session"], "answer": "no"})
            assert refused.structured_content["session"] == started["session"]
            unknown = await client.call_tool("wait_agent", {"session": "nope"})
            assert unknown.is_error

    run(work)


def test_an_agent_allows_nothing_in_the_place_of_a_person(shop: Shop) -> None:
    async def work() -> None:
        async with shop.client("legacy") as client:
            waiting = (await client.call_tool("run_agent", {"prompt": "write"})).structured_content
            for answer in ("yes", waiting["question"]["options"][0]["id"]):
                refused = await client.call_tool("answer", {"session": waiting["session"], "answer": answer})
                assert refused.is_error
                assert "only a person can allow this" in refused.content[0].text
            denied = await client.call_tool("answer", {"session": waiting["session"], "answer": "no"})
            assert denied.structured_content["outcome"] == "completed"
        assert not (shop.work / "made.txt").exists()

    run(work)


def test_a_task_reaches_no_further_than_its_server(shop: Shop) -> None:
    elsewhere = shop.work.parent / "elsewhere"
    elsewhere.mkdir()

    async def refusals(session: str, *options: str) -> list[str]:
        shop.command[:] = [*shop.command[:7], *options]
        found = []
        async with shop.client("legacy") as client:
            for given in ({"cwd": str(elsewhere)}, {"session": session}, {"cwd": "/"}):
                done = await client.call_tool("start_agent", {"prompt": "write", **given})
                found.append(done.content[0].text if done.is_error else "")
        return found

    async def work() -> None:
        shop.command += ["--permissions", "full-access"]
        async with shop.client("legacy") as client:
            done = await client.call_tool("run_agent", {"prompt": "write"})
            session = done.structured_content["session"]
        assert (shop.work / "made.txt").exists()
        for options in ([], ["--permissions", "read-only"], ["--permissions", "accept-edits"]):
            folder, more, root = await refusals(session, *options)
            assert "not in" in folder
            assert "may do more" in more
            assert "not in" in root
        folder, more, root = await refusals(
            session, "--permissions", "full-access", "--folder", str(elsewhere)
        )
        assert (folder, more) == ("", "")
        assert "not in" in root

    run(work)


def test_a_task_that_cannot_be_handed_over_ends(shop: Shop) -> None:
    """The program is not here: no run begins that could end."""
    shop.command += ["--permissions", "read-only"]

    async def work() -> None:
        async with shop.client("legacy") as client:
            done = await client.call_tool("run_agent", {"prompt": "write"})
            session = done.structured_content["session"]
            for agent in ("grok", "kimi"):
                given = {"session": session, "agent": agent, "prompt": "go on"}
                refused = await asyncio.wait_for(client.call_tool("hand_over", given), 30)
                assert refused.is_error
                assert "read-only" in refused.content[0].text

    run(work)


def test_a_session_that_is_open_elsewhere_is_left_to_the_person_there(shop: Shop) -> None:
    async def work() -> None:
        async with shop.client("legacy") as holder:
            waiting = (await holder.call_tool("run_agent", {"prompt": "write"})).structured_content
            async with shop.client("legacy") as other:
                refused = await other.call_tool("start_agent", {"prompt": "x", "session": waiting["session"]})
                assert refused.is_error
                assert "open in another program" in refused.content[0].text

    run(work)


def test_all_of_a_question_is_in_the_form(shop: Shop) -> None:
    script = Path(shop.command[-1].removeprefix("scripted/"))
    command = "echo harmless " + "x" * 9000 + "; echo end-of-it"
    script.write_text(f'turns = [ [ {{ tool = "bash", input = {{ command = "{command}" }} }} ] ]\n')

    async def work() -> None:
        async with shop.client("legacy") as client:
            waiting = (await client.call_tool("run_agent", {"prompt": "write"})).structured_content
            assert "echo end-of-it" in waiting["text"]

    run(work)


@pytest.mark.parametrize(
    ("environment", "words"), [({"HARNESS_DEPTH": "3"}, "deep"), ({"HARNESS_BUDGET_USD": "0"}, "budget")]
)
def test_agents_that_call_agents_end(shop: Shop, environment: dict[str, str], words: str) -> None:
    async def work() -> None:
        async with shop.client("auto", environment=environment) as client:
            refused = await client.call_tool("run_agent", {"prompt": "x"})
            assert refused.is_error
            assert words in refused.content[0].text

    run(work)


def test_what_a_model_is_called_is_no_option_of_its_agent(shop: Shop) -> None:
    async def work() -> None:
        async with shop.client("legacy") as client:
            for agent in ("gemini", "native"):
                task = {"prompt": "x", "agent": agent, "model": "--yolo"}
                refused = await client.call_tool("start_agent", task)
                assert refused.is_error
                assert "cannot be '--yolo'" in refused.content[0].text

    run(work)


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "read-only"])
def test_no_command_is_run_that_another_agent_calls_an_agent(shop: Shop, mode: str) -> None:
    made = shop.work / "made.txt"
    shop.command += ["--permissions", mode]

    async def work() -> None:
        async with shop.client("legacy") as client:
            task = {"prompt": "x", "agent": f"acp:touch {made}"}
            refused = await client.call_tool("run_agent", task)
            assert refused.is_error
            begun = await client.call_tool("start_agent", {"prompt": "write", "agent": "native"})
            session = begun.structured_content["session"]
            done = await client.call_tool("wait_agent", {"session": session})
            if done.structured_content["outcome"] == "waiting":
                await client.call_tool("answer", {"session": session, "answer": "no"})
            moved = await client.call_tool("hand_over", {**task, "session": session})
            assert moved.is_error
        assert not made.exists()

    run(work)


def test_a_session_that_is_worked_on_takes_no_second_task_and_no_answer(shop: Shop) -> None:
    """The second one was queued, and was given the answer to the first."""
    script = Path(shop.command[-1].removeprefix("scripted/"))
    script.write_text(
        'turns = [ [ { tool = "bash", input = { command = "sleep 3" } } ], [ { text = "Slept." } ] ]\n'
    )
    shop.command += ["--permissions", "full-access"]

    async def work() -> None:
        async with shop.client("legacy") as client:
            begun = (await client.call_tool("start_agent", {"prompt": "sleep"})).structured_content
            assert begun["outcome"] == "running"
            given = {"session": begun["session"]}
            for tool, more, words in (
                ("run_agent", {"prompt": "and"}, "being worked on"),
                ("hand_over", {"prompt": "and", "agent": "native"}, "being worked on"),
                ("answer", {"answer": "yes"}, "asks nothing"),
            ):
                refused = await client.call_tool(tool, {**given, **more})
                assert refused.is_error
                assert words in refused.content[0].text
            at_once = await client.call_tool("wait_agent", {**given, "seconds": 0})
            assert at_once.structured_content["outcome"] == "running"
            done = await client.call_tool("wait_agent", given)
            assert done.structured_content["text"] == "Slept."

    run(work)


class RawClient:
    """Messages as they are, one a line."""

    def __init__(self, shop: Shop, *wrapper: str) -> None:
        command = [*wrapper, sys.executable, *shop.command]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=shop.environment, cwd=shop.work
        )
        self.count = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        self.send(
            json.dumps({"jsonrpc": "2.0", "id": self.count, "method": method, "params": parameters}).encode()
        )
        while (message := self.read()).get("id") != self.count:
            pass
        return message

    def modern(self, method: str, **parameters: Any) -> dict[str, Any]:
        capabilities = {"extensions": {TASKS: {}}, "elicitation": {}}
        meta = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": capabilities}
        result: dict[str, Any] = self.call(method, **parameters, _meta=meta)["result"]
        return result

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(30) == 0
        self.process.stdout.close()


def test_a_long_run_is_a_task_that_needs_input(shop: Shop) -> None:
    client = RawClient(shop)
    task = client.modern("tools/call", name="run_agent", arguments={"prompt": "write"})
    assert task["resultType"] == "task"
    until_s = time.monotonic() + 60
    while (state := client.modern("tasks/get", taskId=task["taskId"]))["status"] == "working":
        assert time.monotonic() < until_s
        time.sleep(0.05)
    ((relay, form),) = state["inputRequests"].items()
    choice = form["params"]["requestedSchema"]["properties"]["answer"]["enum"][0]
    answers = {relay: {"action": "accept", "content": {"answer": choice}}}
    assert client.modern("tasks/update", taskId=task["taskId"], inputResponses=answers) == {
        "resultType": "complete"
    }
    while (state := client.modern("tasks/get", taskId=task["taskId"]))["status"] == "working":
        assert time.monotonic() < until_s
        time.sleep(0.05)
    assert state["status"] == "completed"
    assert state["result"]["structuredContent"]["outcome"] == "completed"
    client.close()


def test_what_is_wrong_gets_the_error_of_the_protocol(shop: Shop) -> None:
    client = RawClient(shop)
    client.send(b"{not json}")
    assert client.read()["error"]["code"] == -32700
    client.send(b"[]")
    assert client.read()["error"]["code"] == -32600
    meta = {f"{META}protocolVersion": "1999-01-01"}
    wrong = client.call("tools/list", _meta=meta)["error"]
    assert (wrong["code"], wrong["data"]["supported"]) == (-32022, ["2026-07-28"])
    assert client.call("no/such")["error"]["code"] == -32601
    assert client.call("tasks/result")["error"]["code"] == -32601
    assert client.call("tools/call", name="surprise", arguments={})["error"]["code"] == -32602
    assert client.call("tools/call", name="run_agent", arguments={})["error"]["code"] == -32602
    plain = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}
    assert client.call("tasks/get", taskId="x", _meta=plain)["error"]["code"] == -32021
    assert (
        client.call("initialize", protocolVersion="2025-06-18")["result"]["protocolVersion"] == "2025-06-18"
    )
    assert client.call("initialize", protocolVersion="1999")["result"]["protocolVersion"] == "2025-11-25"
    client.close()


def test_the_skill_names_tools_that_exist(shop: Shop) -> None:
    command = [sys.executable, "-m", "harness", "mcp", "--skill"]
    skill = subprocess.run(command, env=shop.environment, capture_output=True, text=True, check=True).stdout
    assert skill.startswith("---\nname: harness\n")
    taught = {"run_agent", "start_agent", "wait_agent", "answer", "hand_over", "recall"}
    assert taught <= {tool["name"] for tool in TOOLS}
    assert all(name in skill for name in taught)


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not show its processes as files"
)
def test_depth_is_seen_in_the_processes_above_too(tmp_path: Path) -> None:
    """An agent that does not pass its environment on cannot begin at zero again."""
    program = tmp_path / "harness"
    program.write_text(
        "import subprocess, sys\n"
        "n = int(sys.argv[2])\n"
        "below = [sys.executable, __file__, 'mcp', str(n - 1)] if n else\\\n"
        "  [sys.executable, '-c', 'from harness.clients.mcp.limits import depth_here; print(depth_here({}))']\n"
        "subprocess.run(below, env={} if n else None)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program), "mcp", "2"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "3"


def let_models_call_each_other(shop: Shop, turns: str, *options: str, settings: str = "") -> None:
    """The agent of each server has this server among its own."""
    script = shop.work.parent / "each.toml"
    script.write_text(turns)
    model = f"scripted/{script}"
    words = ["mcp", "--agent", "native", "--model", model, "--permissions", "full-access"]
    server = {"command": sys.executable, "args": ["-m", "harness", *words]}
    folder = Path(shop.environment["XDG_CONFIG_HOME"]) / "harness"
    folder.mkdir(parents=True)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"harness": server}}))
    (folder / "config.toml").write_text(settings.replace("MODEL", model))
    shop.command = ["-m", "harness", *words, *options]


def costs_of(shop: Shop) -> list[float]:
    """What each session has cost."""
    command = [sys.executable, "-m", "harness", "usage", "--by", "session", "--json"]
    done = subprocess.run(command, env=shop.environment, cwd=shop.work, capture_output=True, check=True)
    return [row["cost_usd"] for row in json.loads(done.stdout)["rows"]]


def test_agents_that_call_each_other_end_by_the_limit(shop: Shop) -> None:
    """Each one's model only wants another one to do it."""
    let_models_call_each_other(
        shop,
        'turns = [ [ { tool = "harness__run_agent", input = { prompt = "You do it." } } ], [ { text = "Done." } ] ]\n',
    )

    async def work() -> None:
        async with shop.client("auto") as client:
            done = await client.call_tool("run_agent", {"prompt": "Do it."})
            assert done.structured_content["outcome"] == "completed"
            listed = await client.call_tool("list_sessions", {})
            sessions = [one["session"] for one in listed.structured_content["sessions"]]
            texts = [
                (await client.call_tool("show_session", {"session": one})).structured_content["text"]
                for one in sessions
            ]
            assert len(texts) == 3
            assert sum("3 deep already, which is the limit" in text for text in texts) == 1

    run(work)


@pytest.mark.parametrize("is_of_the_task", [False, True], ids=["of the server", "of the task"])
def test_agents_that_call_each_other_end_by_one_budget(shop: Shop, *, is_of_the_task: bool) -> None:
    """Each call of a model costs a dollar, and each one's model asks three others: without a limit all cost $52."""
    ask = '[ { tool = "harness__run_agent", input = { prompt = "You do it." } }, { usage = { input = 1000000 } } ]'
    let_models_call_each_other(
        shop,
        f"turns = [ {ask}, {ask}, {ask}, [ {{ text = 'Done.' }}, {{ usage = {{ input = 1000000 }} }} ] ]\n",
        *(() if is_of_the_task else ("--max-budget-usd", "6")),
        settings='[prices."MODEL"]\ninput = 1.0\noutput = 0.0\n',
    )

    async def work() -> None:
        async with shop.client("auto") as client:
            about = {"max_budget_usd": 6} if is_of_the_task else {}
            done = await client.call_tool("run_agent", {"prompt": "Do it.", **about})
            assert done.structured_content["outcome"] == "interrupted"
            assert "budget of $6.00 was used up" in done.structured_content["text"]

    run(work)
    agents = 3  # below each other; a call that one of them has begun may end
    assert 6 <= sum(costs_of(shop)) <= 6 + agents
    assert not list(Path(shop.environment["XDG_DATA_HOME"]).glob("harness/task-budgets/*"))
