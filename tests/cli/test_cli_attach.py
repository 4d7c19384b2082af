"""`harness attach` to a session of another terminal: what it can do there, and which processes may connect."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli_machine import CliMachine, wait_until
from harness.clients.commands import Approve, Cancel, Command, Steer
from harness.clients.conversations.backend import ConversationStatus
from harness.clients.conversations.local_socket import LocalSocketClient, LocalSocketServer
from harness.errors import UsageError
from pty_terminal import TIMEOUT_S, PtyTerminal
from test_cli_chat import ASKED, GREETING, WAIT, bash, chat, events

MAKE = bash("head -c0 /dev/null > made")


class Session:
    """What a socket belongs to."""

    def __init__(self) -> None:
        self.done: list[Command] = []
        self.status = ConversationStatus(is_running=True, can_steer=True)

    def carry_out(self, command: Command) -> None:
        if isinstance(command, Cancel):
            raise UsageError("not now", hint="later")
        self.done.append(command)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "harness" / "live"


@contextmanager
def opened(session: Session, log_id: str = "s1") -> Iterator[LocalSocketServer]:
    channel = LocalSocketServer(log_id, session.carry_out, lambda: session.status)
    try:
        yield channel
    finally:
        channel.close()


def test_commands_and_changes_go_through(folder: Path) -> None:
    session, changed = Session(), threading.Event()
    with opened(session) as channel:
        assert channel.is_open
        client = LocalSocketClient("s1", changed.set)
        client.send(Steer(message="also this"))
        assert session.done == [Steer(message="also this")]
        assert client.status.can_steer
        with pytest.raises(UsageError, match="not now"):
            client.send(Cancel())
        session.status = ConversationStatus(is_waiting=True)
        channel.notify()
        wait_until(lambda: client.status.is_waiting)
    wait_until(lambda: not client.is_open)
    with pytest.raises(UsageError, match="the session has ended"):
        client.send(Steer(message="x"))
    client.close()
    assert list(folder.iterdir()) == []
    with pytest.raises(OSError, match=r".*"):
        LocalSocketClient("s1", changed.set)


def test_each_thread_gets_the_answer_to_its_own_command(folder: Path) -> None:
    session = Session()
    refused: list[bool] = []
    with opened(session):
        client = LocalSocketClient("s1", lambda: None)

        def send(count: int) -> None:
            command: Command = Cancel() if count % 2 else Steer(message=str(count))
            try:
                client.send(command)
            except UsageError:
                refused.append(isinstance(command, Cancel))

        threads = [threading.Thread(target=send, args=(count,)) for count in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
    assert refused == [True] * 20


def test_a_late_answer_is_not_taken_for_that_of_the_next_command(folder: Path) -> None:
    session, proceed = Session(), threading.Event()

    def slow(command: Command) -> None:
        proceed.wait()
        session.carry_out(command)

    channel = LocalSocketServer("s1", slow, lambda: session.status)
    client = LocalSocketClient("s1", lambda: None, timeout_s=0.05)
    with pytest.raises(UsageError, match="it does not answer"):
        client.send(Cancel())
    proceed.set()
    with pytest.raises(UsageError, match="the session has ended"):
        client.send(Steer(message="x"))
    channel.close()


def test_a_folder_that_others_can_enter_is_not_used(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    with opened(Session()) as channel:
        assert not channel.is_open
    assert list(folder.iterdir()) == []


def test_a_folder_that_leads_elsewhere_is_not_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with opened(Session()) as channel:
        assert not channel.is_open


@pytest.mark.needs_linux_calls("which processes are below this one is read from /proc")
def test_what_this_process_has_started_is_not_let_in(folder: Path) -> None:
    session = Session()
    code = (
        "from harness.clients.conversations.local_socket import LocalSocketClient\n"
        "from harness.clients.commands import Approve\n"
        "try: LocalSocketClient('s1', lambda: None).send(Approve(relay_id='r'))\n"
        "except Exception as error: print('refused:', error)"
    )
    with opened(session):
        answer = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        client = LocalSocketClient("s1", print)
        client.send(Approve(relay_id="by a person"))
        client.close()
    assert "refused: the session has ended" in answer.stdout
    assert session.done == [Approve(relay_id="by a person")]


def test_what_a_killed_program_left_is_removed(folder: Path) -> None:
    import socket

    folder.mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(folder / "s1.sock"))
    with pytest.raises(ConnectionRefusedError):
        LocalSocketClient("s1", print)
    assert list(folder.iterdir()) == []


def test_garbage_changes_nothing(folder: Path) -> None:
    import socket

    session = Session()
    with opened(session):
        for line in (b"\n", b"{}\n", b"\xff\xfe\n", b'{"type":"commands","commands":[{"type":"nope"}]}\n'):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
                other.settimeout(TIMEOUT_S)
                other.connect(str(folder / "s1.sock"))
                other.sendall(line)
                with other.makefile("rb") as answers:
                    assert "errors" not in json.loads(answers.readline())
                    assert json.loads(answers.readline())["errors"]
        client = LocalSocketClient("s1", print)
        client.send(Steer(message="still there"))
        client.close()
    assert session.done == [Steer(message="still there")]


@pytest.mark.parametrize("has_short_path", [True, False])
def test_a_long_folder_name_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_short_path: bool
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / ("x" * 120)))
    if not has_short_path:  # as where there is no /proc
        monkeypatch.setattr("harness.system.contract.system.descriptor_path", lambda _descriptor: "")
    session = Session()
    with opened(session):
        client = LocalSocketClient("s1", print)
        client.send(Steer(message="hello"))
        client.close()
    assert session.done == [Steer(message="hello")]


def test_a_run_without_a_terminal_is_answered_from_another_one(cli: CliMachine) -> None:
    _, *options = chat(cli, MAKE, "Done.")
    run = cli.spawn("run", *options, "-p", "go", "--on-ask", "wait")
    assert run.stderr is not None
    line = run.stderr.readline().decode()
    found = re.fullmatch(r"questions wait for an answer: harness attach (\S+)\n", line)
    assert found, line
    with PtyTerminal(cli, "attach", found[1]) as terminal:
        terminal.until("/quit leaves")
        terminal.until(ASKED)
        terminal.type("y\r")
        terminal.until("completed")
        assert terminal.wait() == 0
    assert run.wait(TIMEOUT_S) == 0
    assert (cli.project / "made").exists()
    after = cli.call("attach", found[1])
    assert after.code == 2
    assert f"`harness chat --resume {found[1]}` continues it" in after.err


def test_a_chat_is_followed_steered_and_answered_from_another_terminal(cli: CliMachine) -> None:
    with PtyTerminal(cli, *chat(cli, MAKE, WAIT, "Done.")) as first:
        first.until(GREETING)
        first.type("go\r")
        first.until(ASKED)
        with PtyTerminal(cli, "attach", "last") as other:
            other.until("❯ go")
            other.until(ASKED)
            other.type("y\r")
            first.until("› yes")
            other.until(ASKED)
            first.until(ASKED)
            first.type("y\r")
            other.until("$ while")
            other.type("and this\r")
            other.until("· sent to Harness agent")
            (cli.project / "go").touch()
            other.until("Done.")
            first.until("Done.")
            other.type("/quit\r")
            assert other.wait() == 0
        first.until("❯ ")
        first.type("/quit\r")
        assert first.wait() == 0
    texts = [event["text"] for event in events(cli, "Message") if event["role"] == "user"]
    assert texts == ["go", "and this"]
    assert [one["approved"] for one in events(cli, "RelayReply")] == [True, True]
