"""Commands in the background: started, looked at, talked to, stopped, and never left behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.request import Limits, Request
from harness.contracts.tool import ToolFailure, ToolOutput
from harness.errors import UsageError
from harness.events import Event, Relay, Result, ToolEnd
from harness.log.stores.memory import MemoryStore
from harness.native.loop.tool_calls import Resources
from harness.native.tools.bash import BashTool
from harness.native.tools.bash_output import MOST_AT_ONCE, BackgroundCommands, BashOutputTool
from harness.process.child import ChildTimeouts
from harness.runs.run import start
from harness.sandbox.ladder import find_sandbox
from harness.sandbox.rungs import Rung
from harness.workspace import async_process
from lacking import lacking
from python_programs import PYTHON
from tool_kit import Bench

SERVER = """\
import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print("serving on port", server.server_port, flush=True)
server.serve_forever()
"""
CLIENT = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{}/a.txt').read())"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


class CommandKit:
    """The two tools, in one run."""

    def __init__(self, bench: Bench, confinement: Rung | None = None) -> None:
        self.bench = bench
        self.resources = Resources()
        self._bash = BashTool(bench.workspace, bench.outputs, confinement)
        self._look = BashOutputTool()

    async def bash(self, command: str, **more: Any) -> ToolOutput:
        context = self.bench.context(on_resource=self.resources.get)
        return await self._bash.run({"command": command, **more}, context)

    async def begin(self, command: str) -> ToolOutput:
        return await self.bash(command, background=True)

    async def look(self, id: str = "b1", **more: Any) -> ToolOutput:
        return await self._look.run({"id": id, **more}, self.bench.context(on_resource=self.resources.get))


def at(kit: CommandKit, work: Callable[[CommandKit], Awaitable[None]]) -> None:
    """Do it, and end the run."""

    async def main() -> None:
        try:
            await work(kit)
        finally:
            await kit.resources.close()

    asyncio.run(main())


def test_a_server_is_started_talked_to_and_stopped(bench: Bench) -> None:
    bench.write("server.py", SERVER)
    bench.write("a.txt", "hello")

    async def work(kit: CommandKit) -> None:
        begun = await kit.begin(f"echo $$ > pid; {PYTHON} server.py")
        text = begun.text
        while (found := re.search(r"serving on port (\d+)", text)) is None:
            text += (await kit.look(wait=30)).text
        assert begun.success
        assert begun.exit_code is None
        assert "b1 is running in the background" in begun.text
        answer = await kit.bash(f'{PYTHON} -c "{CLIENT.format(found[1])}"')
        assert answer.text == "stdout:\nb'hello'\nexit code: 0"
        seen = ""
        while "GET /a.txt" not in seen:
            seen += (await kit.look(wait=30)).text
        assert "serving on port" not in seen, "what was seen is not shown again"
        assert seen.endswith("b1 is still running")
        stopped = await kit.look(stop=True)
        assert "b1 was stopped, exit code: " in stopped.text
        assert not is_alive(int(bench.text("pid")))
        refused = await kit.bash(f'{PYTHON} -c "{CLIENT.format(found[1])}"')
        assert "Connection refused" in refused.text
        assert "b1 has ended" in (await kit.look()).text

    at(CommandKit(bench), work)


def test_what_fails_at_once_is_reported_at_once(bench: Bench) -> None:
    async def work(kit: CommandKit) -> None:
        output = await kit.begin("echo no such thing >&2; exit 3")
        assert output.text == "stderr:\nno such thing\nexit code: 3"
        assert (output.exit_code, output.success) == (3, False)
        assert (await kit.look()).text == "b1 has ended, exit code: 3"

    at(CommandKit(bench), work)


def test_the_end_of_a_command_is_waited_for(bench: Bench) -> None:
    async def work(kit: CommandKit) -> None:
        await kit.begin("echo begun; while [ ! -e go ]; do sleep 0.01; done; exit 7")
        assert (await kit.look()).text == "b1 is still running"
        waiting = asyncio.create_task(kit.look(wait=60))
        bench.write("go", "")
        assert (await waiting).text == "b1 has ended, exit code: 7"

    at(CommandKit(bench), work)


def test_one_that_heeds_no_signal_is_stopped_with_all_it_started(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_process, "_TIMEOUTS", ChildTimeouts(interrupt_s=0.2, terminate_s=0.2))

    async def work(kit: CommandKit) -> None:
        await kit.begin(
            "setsid sleep 600 & echo $! > pid; trap '' TERM INT; echo ready; sleep 600; sleep 600"
        )
        assert "b1 was stopped, exit code: 137" in (await kit.look(stop=True)).text
        assert not is_alive(int(bench.text("pid")))

    at(CommandKit(bench), work)


def test_only_so_many_run_at_once_and_the_next_is_refused_in_words(bench: Bench) -> None:
    async def work(kit: CommandKit) -> None:
        calls = (kit.begin("echo ready; exec sleep 600") for _ in range(MOST_AT_ONCE))
        await asyncio.gather(*calls)
        with pytest.raises(ToolFailure, match=r"8 commands run in the background.*stop one of b1, b2"):
            await kit.begin("echo one too many > file")
        assert not (bench.root / "file").exists()
        await kit.look("b3", stop=True)
        assert "b9 is running" in (await kit.begin("echo ready; exec sleep 600")).text
        with pytest.raises(ToolFailure, match="no background command b77"):
            await kit.look("b77")

    at(CommandKit(bench), work)


def test_much_output_is_cut_in_its_middle_and_all_of_it_stored(bench: Bench) -> None:
    async def work(kit: CommandKit) -> None:
        await kit.begin(
            "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo first; yes | head -n 200000; echo last"
        )
        bench.write("go", "")
        commands = kit.resources.get(BackgroundCommands)
        await commands.get("b1").wait_for_end()
        text = (await kit.look()).text
        assert text.startswith("stdout:\nfirst\ny\n")
        assert "bytes left out" in text
        assert len(text) < 35_000
        assert f"all of it is in {bench.outputs.path}/" in text

    at(CommandKit(bench), work)
    (kept,) = Path(bench.outputs.path).iterdir()
    assert kept.stat().st_size == 400_000 + len("begun\nfirst\nlast\n")


def test_without_a_run_that_would_end_it_nothing_is_started(bench: Bench) -> None:
    bash = BashTool(bench.workspace, bench.outputs)
    assert "there is no run" in bench.refused(bash, command="touch file", background=True)
    kit = CommandKit(bench)
    kit.resources.kill()
    with pytest.raises(ToolFailure, match="the run has ended"):
        asyncio.run(kit.begin("touch file"))
    assert not (bench.root / "file").exists()


def test_a_shell_that_does_not_start_is_an_error_in_words(bench: Bench) -> None:
    async def work(kit: CommandKit) -> None:
        with pytest.raises(ToolFailure):
            await kit.begin("echo \0")

    at(CommandKit(bench), work)


def test_under_a_sandbox_it_is_confined_as_any_command(bench: Bench) -> None:
    try:
        confinement = find_sandbox(os.environ)
    except UsageError as error:
        pytest.skip(lacking("wall", str(error)))
    outside = Path("/var/tmp") / f"harness-escape-{bench.root.parent.name}"
    (bench.root / "sub").mkdir()

    async def work(kit: CommandKit) -> None:
        hook = "sub/new/.git/hooks/pre-commit"
        repository = f"git init -q sub/new; mkdir -p sub/new/.git/hooks; echo ls > {hook}; chmod +x {hook}"
        command = f"echo in > sub/inside; echo out > {outside}; {repository}; echo ready; exec sleep 600"
        output = await kit.begin(command)
        text = output.text
        while "ready" not in text:
            text += (await kit.look(wait=30)).text
        assert "b1 is" in text
        assert bench.text("sub/inside") == "in\n"
        assert not outside.exists()
        stopped = await kit.look(stop=True)
        assert not stopped.success
        assert "sub/new/.git" in stopped.text
        assert (bench.root / "sub/new/.git.refused").exists()

    at(CommandKit(bench, confinement), work)


# in runs


def call(tool: str, /, **input: Any) -> dict[str, Any]:
    return {"events": [{"type": "tool_call", "name": tool, "input": input}]}


def script(bench: Bench, *calls: dict[str, Any]) -> str:
    path = bench.outside / "script.json"
    done = {"events": [{"type": "text", "content": "Done."}]}
    path.write_text(json.dumps({"responses": [*calls, done]}))
    return f"scripted/{path}"


BEGIN = call(
    "bash", command="echo $$ > pid; trap '' INT TERM; echo ready; sleep 600; sleep 600", background=True
)


def request(bench: Bench, model: str, **more: Any) -> Request:
    limits = Limits(timeout_s=50)
    return Request(agent="native", prompt="go", cwd=str(bench.root), model=model, limits=limits, **more)


def test_with_the_run_it_ends_and_only_its_start_is_asked_about(bench: Bench) -> None:
    model = script(bench, BEGIN, call("bash_output", id="b1"), call("bash_output", id="b1", wait=0.1))
    run = start(request(bench, model, permissions="agent-default"), store=MemoryStore())
    events: list[Event] = []
    for event in run:
        events.append(event)
        if isinstance(event, Relay):
            run.reply(event.id, approved=True)
    assert [event.tool_name for event in events if isinstance(event, Relay)] == ["bash"]
    ends = [event for event in events if isinstance(event, ToolEnd)]
    assert [end.success for end in ends] == [True, True, True]
    assert ends[2].output == "b1 is still running"
    assert isinstance(events[-1], Result)
    assert not is_alive(int(bench.text("pid")))


def test_a_run_that_is_stopped_ends_it_too(bench: Bench) -> None:
    run = start(request(bench, script(bench, BEGIN, call("bash", command="sleep 600"))), store=MemoryStore())
    for event in run:
        if isinstance(event, ToolEnd) and event.success:
            run.cancel()
    assert run.wait().outcome == "interrupted"
    assert not is_alive(int(bench.text("pid")))


def test_it_ends_with_the_sub_agent_that_started_it(bench: Bench) -> None:
    path = bench.outside / "script.json"
    check = "if kill -0 $(cat pid); then echo alive; else echo gone; fi"
    done = {"events": [{"type": "text", "content": "Done."}]}
    lane = {"marker": "START", "responses": [BEGIN, done]}
    responses = [
        call("agent", task="START it"),
        call("bash", command=check),
        call("bash_output", id="b1"),
        done,
    ]
    path.write_text(json.dumps({"responses": responses, "lanes": [lane]}))
    events = list(start(request(bench, f"scripted/{path}"), store=MemoryStore()))
    outputs = [event.output or "" for event in events if isinstance(event, ToolEnd)]
    assert any("gone" in text for text in outputs)
    assert "there is no background command b1" in outputs[-1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_harness_itself_may_be_killed_and_nothing_is_left(bench: Bench, number: int) -> None:
    model = script(bench, BEGIN, call("bash", command="echo now > waiting; sleep 600"))
    argv = ["run", "--agent", "native", "--model", model, "--cwd", str(bench.root), "--prompt", "go"]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until((bench.root / "waiting").exists)
        pid = int(bench.text("pid"))
        assert is_alive(pid)
        process.send_signal(number)
        process.wait(60)
        wait_until(lambda: not is_alive(pid))
    finally:
        process.kill()
        process.wait()
