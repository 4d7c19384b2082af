"""`harness erase`: everything that Harness has stored, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from cli_machine import CliMachine
from pty_terminal import PtyTerminal


def _use(cli: CliMachine) -> None:
    cli.install("claude")
    assert cli.call("run", "-a", "claude", "-p", "hello").code == 0
    cli.call("config", "set", "default_permissions", "ask")


def test_everything_of_ours_goes_and_nothing_else(cli: CliMachine) -> None:
    _use(cli)
    theirs = cli.home / ".claude/projects/x/session.jsonl"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}\n")
    shown = cli.call("erase", "--yes")
    assert shown.code == 0, shown.err
    assert not [path for path in cli.home.rglob("harness") if path.is_dir()]
    assert theirs.exists()
    assert "Harness has stored nothing here." in cli.call("erase").err


def test_it_asks_first(cli: CliMachine) -> None:
    _use(cli)
    assert cli.call("erase").code == 2
    with PtyTerminal(cli, "erase") as terminal:
        terminal.until("Delete all of this for good?")
        terminal.type("n\n")
        terminal.until("Nothing was deleted.")
    assert cli.call("sessions", "list").out.count("hello") == 1


def test_a_dry_run_deletes_nothing(cli: CliMachine) -> None:
    _use(cli)
    assert "files" in cli.call("erase", "--dry-run").err
    assert cli.call("sessions", "list").out.count("hello") == 1


def test_a_folder_that_a_setting_names_loses_only_its_sessions(cli: CliMachine) -> None:
    elsewhere = cli.root / "logs"
    cli.call("config", "set", "log.directory", str(elsewhere))
    _use(cli)
    (elsewhere / "mine.txt").write_text("mine")
    assert cli.call("erase", "--yes").code == 0
    assert (elsewhere / "mine.txt").read_text() == "mine"
    assert not [*elsewhere.glob("*.ndjson")]


def test_a_link_is_not_followed(cli: CliMachine) -> None:
    _use(cli)
    data = cli.home / ".local/share/harness"
    shutil.move(data, cli.root / "elsewhere")
    data.symlink_to(cli.root / "elsewhere")
    shown = cli.call("erase", "--yes")
    assert shown.code == 1
    assert "is a link" in shown.err
    assert [*(cli.root / "elsewhere").rglob("*.ndjson")]


def test_a_server_that_would_start_at_the_next_login_is_uninstalled_first(cli: CliMachine) -> None:
    _use(cli)
    unit = cli.home / ".config/systemd/user/harness.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    shown = cli.call("erase", "--yes")
    assert (shown.code, "harness service uninstall" in shown.err) == (2, True)
    assert cli.call("sessions", "list").out.count("hello") == 1


@pytest.mark.parametrize(("answer", "code"), [(b'{"status":"ok"}', 2), (b"[]", 0), (b"hello", 0)])
def test_a_server_that_runs_is_ended_first_wherever_its_token_is(
    cli: CliMachine, answer: bytes, code: int
) -> None:
    """It would write again. What else may listen there by now does not matter."""
    _use(cli)
    with _answering(answer) as port:
        address = cli.home / ".local/share/harness/server/address"
        address.parent.mkdir()
        address.write_text(f"http://127.0.0.1:{port}\n")
        shown = cli.call("erase", "--yes")
    assert (shown.code, "a server runs at" in shown.err) == (code, code == 2)


@contextmanager
def _answering(answer: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
