"""Follow a running session in this terminal, answer its questions, and steer it: one of `harness serve`, or of
`harness chat` and `harness run` in another terminal of yours.

In a session of `harness serve` what you type is a prompt (queued while a run is in progress), or the answer to the question that was shown.
/show shows the whole question, /grants lists what is always allowed and /revoke ID revokes it, /steer TEXT sends a
message to the current run, /cancel stops it, /cancel all also clears the queue, /continue sends the queue after a
stop, /quit leaves without stopping anything.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.interfaces.cli.console import Console, is_terminal

if TYPE_CHECKING:
    from harness.interfaces.cli.approval import Asking
    from harness.interfaces.client.client import PlainClient
    from harness.interfaces.commands import Command

SUMMARY = "follow a running session, answer and steer it"
_STDIN = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", nargs="?", default="", help="of the session, or `last` (default: a new one)"
    )
    parser.add_argument(
        "--url", default="", metavar="URL", help="of the server (default: the one of this machine)"
    )
    help_text = "where the server's token is (default: where `harness serve` keeps it)"
    parser.add_argument("--token-file", default="", metavar="FILE", help=help_text)
    parser.add_argument("--read-only", action="store_true", help="only watch, until the run has ended")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.errors import UnknownSession

    if arguments.id and not arguments.url and (code := _attach_here(arguments, console)) is not None:
        return code
    from harness.interfaces.server_address import require_server

    require_server()
    from harness.interfaces.client.client import PlainClient
    from harness.interfaces.server_address import address_of, newest_session, own_server, token_of

    if arguments.url:
        url, token = address_of(arguments.url), token_of(arguments.token_file)
    else:
        url, token = own_server(arguments.token_file)
    # Asked in any case: a client waits for a server that is not there, as if it were only starting again.
    newest = newest_session(url, token)
    if arguments.id == "last" and not newest:
        raise UnknownSession("there is no session yet", hint="`harness attach` begins one")
    session = newest if arguments.id == "last" else arguments.id
    with PlainClient(url, token=token, session=session) as client:
        if is_terminal(_STDIN) and not arguments.read_only:
            console.say(
                f"Connected to {url}. Type a prompt; /steer TEXT, /cancel, /continue, /show, /grants, /revoke ID, /quit."
            )
        _Sitting(client, console, is_only_looking=arguments.read_only).follow()
    return 0


def _attach_here(arguments: argparse.Namespace, console: Console) -> int | None:
    """To a session of another program on this machine; None when it has to be one of the server.

    Raises UsageError for a session that neither takes commands nor could be one of a server.
    """
    from harness.errors import UnknownSession, UsageError
    from harness.interfaces.cli import preferences
    from harness.interfaces.cli.chat.attached_chat import follow
    from harness.interfaces.server_address import address_of
    from harness.interfaces.sessions.ids import find

    store = preferences.open_store(preferences.load(console, has_verbose=arguments.verbose))
    try:
        log_id = find(store, arguments.id)
    except UnknownSession:
        return None
    code = follow(store, log_id, arguments)
    if code is not None:
        return code
    try:
        address_of("")
    except UsageError as error:
        if store.is_live(log_id):
            raise UsageError(
                "it is running, but takes no commands from here",
                hint=f"`harness sessions show {log_id} --follow` shows it as it goes",
            ) from error
        raise UsageError(
            "it has ended, or its program has", hint=f"`harness chat --resume {log_id}` continues it"
        ) from error
    return None


class _Sitting:
    def __init__(self, client: PlainClient, console: Console, *, is_only_looking: bool) -> None:
        from harness.interfaces.client.transcript import TerminalTranscript

        self._client = client
        self._console = console
        self._is_only_looking = is_only_looking
        self._transcript = TerminalTranscript()
        self._shown: Asking | None = None
        """The question that was shown last: what is typed is the answer to it, and to no other."""
        self._grants: dict[str, str] = {}
        """What is always allowed, by id, as it was shown."""
        self._printed_errors = 0
        self._has_left = threading.Event()
        self._has_nothing_to_say = threading.Event()

    def follow(self) -> None:
        from harness.interfaces.cli.output import write_text

        if not self._is_only_looking:
            threading.Thread(target=self._listen, daemon=True).start()
        for state in self._states():
            if news := self._transcript.news(state):
                write_text(news)
            self._print_changed_grants(state)
            self._print_questions(state)
            errors = self._client.errors
            for error in errors[self._printed_errors :]:
                self._console.say(f"refused: {error}")
            self._printed_errors = len(errors)

    def _states(self) -> Iterator[dict[str, Any]]:
        """Until there is nothing more to see, or to say. Who has nothing to say still sees what is there."""
        last: object = None
        while not self._has_left.is_set():
            try:
                seen = last
                state = self._client.until(lambda state, seen=seen: state is not seen, 0.2)  # type: ignore[misc]
            except TimeoutError:
                if self._has_nothing_to_say.is_set():
                    return
                continue
            last = state
            yield state
            if self._is_only_looking and state["runs"] and not state["isLive"]:
                return

    def _print_questions(self, state: dict[str, Any]) -> None:
        """One after the other."""
        from harness.interfaces.cli.approval import Asking

        waiting = [relay for relay in state["relays"] if relay["status"] == "pending"]
        if self._shown is not None and any(relay["id"] == self._shown.id for relay in waiting):
            return
        self._shown = Asking(waiting[0], state["cwd"]) if waiting else None
        if self._shown is not None:
            more = f"  ({len(waiting) - 1} more waiting)" if len(waiting) > 1 else ""
            self._console.say(f"{self._shown.text()}{more}")

    def _listen(self) -> None:
        import sys

        for line in sys.stdin:
            text = line.strip()
            if text == "/quit":
                self._has_left.set()
                return
            command = self._meaning(text) if text else None
            if command is not None:
                self._client.send(command)
        if self._client.state["status"] == "running":
            self._client.until(lambda state: state["status"] != "running")
        self._has_nothing_to_say.set()

    def _meaning(self, text: str) -> Command | None:
        """None when there is nothing to send."""
        from harness.interfaces.cli.approval import SHOW, is_yes_or_no
        from harness.interfaces.commands import Cancel, Continue, Revoke, Steer, Submit

        if text in ("/cancel", "/cancel all"):
            return Cancel(queue="keep" if text == "/cancel" else "clear")
        if text == "/continue":
            return Continue()
        if text.startswith("/steer "):
            return Steer(message=text.removeprefix("/steer ").strip())
        if text.startswith("/revoke "):
            wanted = text.removeprefix("/revoke ").strip()
            return Revoke(grant_id="" if wanted == "all" else wanted)
        asking = self._shown
        if text == "/grants":
            self._print_grants()
        elif text == SHOW and asking is not None:
            self._console.say(asking.text(is_whole=True))
        elif asking is not None:
            return self._answer(asking, text)
        elif text == SHOW or is_yes_or_no(text):
            self._console.say("nothing is waiting for an answer")
        else:
            return Submit(prompt=text)
        return None

    def _answer(self, asking: Asking, text: str) -> Command | None:
        from harness.interfaces.cli.approval import answering_command

        reply = asking.take(text)
        if reply is None:
            self._console.say(asking.text())
            return None
        return answering_command(asking.relay, reply)

    def _print_changed_grants(self, state: dict[str, Any]) -> None:
        from harness.views.formatting.escapes import neutralised

        now = {grant["id"]: neutralised(grant["label"]) for grant in state["grants"]}
        before, self._grants = self._grants, now
        for id, label in now.items():
            if id not in before:
                self._console.say(f"always allowed: {label}")
        for id, label in before.items():
            if id not in now:
                self._console.say(f"no longer always allowed: {label}")

    def _print_grants(self) -> None:
        for id, label in self._grants.items():
            self._console.say(f"{id}  {label}")
        self._console.say(
            "/revoke ID, or /revoke all" if self._grants else "nothing is always allowed in this session"
        )
