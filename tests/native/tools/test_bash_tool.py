"""Commands: what is shown, what is kept, and that nothing of them stays behind."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pytest

from harness.events.operation import Command, Read
from harness.native.tools.bash import BashTool
from harness.native.tools.read import ReadTool
from harness.workspace.commands import HeadAndTail, OutputFolder
from tool_kit import Bench


@pytest.fixture
def bash(bench: Bench) -> BashTool:
    return BashTool(bench.workspace, bench.outputs)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_both_outputs_and_the_exit_code_are_reported(bench: Bench, bash: BashTool) -> None:
    output = bench.call(bash, command="echo out; echo err >&2; exit 3")
    assert output.text == "stdout:\nout\nstderr:\nerr\nexit code: 3"
    assert (output.exit_code, output.success) == (3, False)
    assert bench.call(bash, command="true").text == "exit code: 0"


def test_a_command_begins_in_the_workspace_with_an_empty_input(bench: Bench, bash: BashTool) -> None:
    assert bench.call(bash, command="pwd; cat").text == f"stdout:\n{bench.root}\nexit code: 0"


def test_only_the_given_environment_reaches_a_command(
    bench: Bench, bash: BashTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret-value")
    bench.env["ASKED_FOR"] = "yes"
    text = bench.call(bash, command="env").text
    assert "ASKED_FOR=yes" in text
    assert "secret" not in text


def test_before_it_runs_it_is_a_command_and_afterwards_what_it_did(bench: Bench, bash: BashTool) -> None:
    bench.write("a.txt", "x\n")
    asked = {"command": "cat a.txt"}
    assert bash.operations(asked) == [Command(command="cat a.txt", cwd=str(bench.root))]
    assert bench.call(bash, **asked).operations == [Read(path=f"{bench.root}/a.txt")]
    assert bench.call(bash, command="make").operations == [Command(command="make", cwd=str(bench.root))]


def test_always_means_this_command_alone(bash: BashTool) -> None:
    permission = bash.permission({"command": "ls *.py", "timeout": 3})
    assert permission.params == {"command": r"ls \*.py"}


def test_output_is_shown_while_it_comes(bench: Bench, bash: BashTool) -> None:
    seen: list[bool] = []
    go = bench.root / "go"

    def progress(text: str, _stream: str = "") -> None:
        seen.append(go.exists())
        if "first" in text:
            go.touch()

    async def main() -> str:
        context = bench.context()
        context.progress = progress
        command = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second"
        return (await bash.run({"command": command, "timeout": 20}, context)).text

    assert asyncio.run(main()) == "stdout:\nfirst\nsecond\nexit code: 0"
    assert seen[0] is False


def test_a_command_that_never_ends_is_ended_with_all_it_started(bench: Bench, bash: BashTool) -> None:
    began = time.monotonic()
    output = bench.call(
        bash,
        command="setsid sleep 600 & echo $! > pid; echo partial; trap '' TERM INT; sleep 600",
        timeout=0.5,
    )
    assert time.monotonic() - began < 10
    assert "stdout:\npartial\ntimeout: it was ended after 0.5 s" in output.text
    assert (output.exit_code, output.success) == (-1, False)
    assert not is_alive(int(bench.text("pid")))


def test_what_stays_in_the_background_ends_with_the_command(bench: Bench, bash: BashTool) -> None:
    output = bench.call(bash, command="sleep 600 & echo $! > pid")
    assert "1 processes were still running, and were ended" in output.text
    assert output.exit_code == 0
    assert not is_alive(int(bench.text("pid")))


def test_a_cancelled_call_leaves_nothing_running(bench: Bench, bash: BashTool) -> None:
    async def main() -> None:
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()
        context = bench.context()
        context.progress = lambda _text, _stream="": loop.call_soon_threadsafe(ready.set)
        task = asyncio.create_task(bash.run({"command": "echo $$ > pid; echo ready; sleep 600"}, context))
        await ready.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not is_alive(int(bench.text("pid")))


def test_a_call_that_is_cancelled_at_once_starts_nothing_that_stays(bench: Bench, bash: BashTool) -> None:
    async def main() -> None:
        task = asyncio.create_task(bash.run({"command": "echo $$ > pid; sleep 600"}, bench.context()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    written = bench.root / "pid"
    assert not written.exists() or not written.read_text() or not is_alive(int(written.read_text()))


def test_a_signal_is_reported_as_shells_do(bench: Bench, bash: BashTool) -> None:
    assert bench.call(bash, command="kill -9 $$").exit_code == 137


def test_fifty_megabytes_are_cut_and_all_of_them_stored(bench: Bench) -> None:
    bash = BashTool(bench.workspace, bench.outputs)
    bench.workspace.allow_reading(bench.outputs.path)
    command = "echo begin; head -c 52428800 /dev/zero | tr '\\0' x; echo; echo end"
    output = bench.call(bash, command=command, timeout=60)
    assert output.text.startswith("stdout:\nbegin\nxxx")
    assert "bytes left out" in output.text
    assert "xxx\nend\n" in output.text
    assert len(output.text) < 31_000
    assert sum(map(len, bench.progress)) < 70_000
    found = re.search(r"all of it is in (\S+): read or grep that", output.text)
    assert found is not None
    assert Path(found[1]).stat().st_size == 50 * 1024 * 1024 + len("begin\n\nend\n")
    assert Path(found[1]).stat().st_mode & 0o777 == 0o600
    assert "begin" in bench.call(ReadTool(bench.workspace), filePath=found[1]).text


def test_secrets_are_masked_in_what_is_stored(bench: Bench, tmp_path: Path) -> None:
    secret = "s3cr3t-Zq8vK1pL0xW9"
    outputs = OutputFolder(str(tmp_path / "kept"), {"MY_TOKEN": secret})
    output = bench.call(BashTool(bench.workspace, outputs), command=f"yes {secret} | head -n 9000")
    (kept,) = (tmp_path / "kept").iterdir()
    assert secret in output.text  # the model works with what is there
    assert secret not in kept.read_text()
    assert "MY_TOKEN" in kept.read_text()


def test_stored_outputs_are_removed_after_some_days_and_nothing_else(bench: Bench) -> None:
    outputs = Path(os.environ["HOME"]) / ".local/share/harness/outputs"
    folders = [outputs / "0123456789abcdef", outputs / "of somebody else", outputs / "fedcba9876543210"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "x.txt").touch()
    for folder in folders[:2]:
        os.utime(folder, (0, 0))
    kept = OutputFolder().new("label/with strange:signs", 10)
    kept.feed(b"x" * 11)
    kept.close()
    assert [folder.exists() for folder in folders] == [False, True, True]
    assert Path(kept.path).parent.parent == outputs
    assert os.path.basename(kept.path).startswith("label-with-strange-signs-")


def test_a_disk_that_refuses_only_costs_the_file(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    bash = BashTool(bench.workspace, OutputFolder(str(tmp_path / "taken" / "below")))
    output = bench.call(bash, command="yes | head -n 50000")
    assert output.exit_code == 0
    assert "all of it" not in output.text


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 25, 1000])
@pytest.mark.parametrize("piece", [1, 3, 7, 1000])
def test_beginning_and_end_of_an_output_are_remembered(size: int, piece: int) -> None:
    data = bytes(65 + number % 26 for number in range(size))
    output = HeadAndTail(10)
    for start in range(0, size, piece):
        output.feed(data[start : start + piece])
    if size <= 10:
        assert output.text() == data.decode()
    else:
        head, tail = data[:5].decode(), data[-5:].decode()
        assert output.text() == f"{head}\n… [{size - 10} bytes left out] …\n{tail}"


def test_binary_output_is_made_readable(bench: Bench, bash: BashTool) -> None:
    assert "\ufffd" in bench.call(bash, command=r"printf '\377\376\0abc'").text


@pytest.mark.parametrize("command", ["", "\0", "\ud800"])
def test_what_cannot_be_run_is_refused_in_words(bench: Bench, bash: BashTool, command: str) -> None:
    assert bench.refused(bash, command=command)


def test_several_commands_run_at_the_same_time(bench: Bench, bash: BashTool) -> None:
    """More of them than a pool of threads would take on this machine."""

    async def main() -> list[int | None]:
        wait = "touch $$.here; while [ $(ls *.here | wc -l) -lt 12 ]; do sleep 0.02; done"
        calls = [bash.run({"command": wait, "timeout": 30}, bench.context()) for _ in range(12)]
        return [output.exit_code for output in await asyncio.gather(*calls)]

    assert asyncio.run(main()) == [0] * 12
