"""Follow a session of `harness serve` in this terminal, answer what it asks, and go on with it.

What you type is a prompt (while a run goes on it waits for its turn), or the answer to a question. /steer TEXT says
something to the run that goes on, /cancel stops it, /quit leaves it alone.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.interfaces.cli.console import Console, is_terminal

if TYPE_CHECKING:
    from harness.commands import Command
    from harness.interfaces.client.plain import PlainClient

SUMMARY = "follow a session of `harness serve`, and answer it"
_STDIN = 0
_YES = {"y": False, "yes": False, "a": True, "always": True}
"""What lets a call happen → whether from now on always."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", nargs="?", default="", help="of the session, or `last` (default: a new one)"
    )
    parser.add_argument(
        "--url", default="", metavar="URL", help="of the server (default: the one of this machine)"
    )
    help_text = "where the server's token is (default: where `harness serve` keeps it)"
    parser.add_argument("--token-file", default="", metavar="FILE", help=help_text)
    parser.add_argument("--read-only", action="store_true", help="only look, until the run has ended")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.errors import UnknownSession
    from harness.interfaces.cli.extras import require_server

    require_server()
    from harness.interfaces.cli.server_address import address_of, newest_session, token_of
    from harness.interfaces.client.plain import PlainClient

    url, token = address_of(arguments.url), token_of(arguments.token_file)
    # Asked in any case: a client waits for a server that is not there, as if it were only starting again.
    newest = newest_session(url, token)
    if arguments.id == "last" and not newest:
        raise UnknownSession("there is no session yet", hint="`harness attach` begins one")
    session = newest if arguments.id == "last" else arguments.id
    with PlainClient(url, token=token, session=session) as client:
        if is_terminal(_STDIN) and not arguments.read_only:
            console.say(f"Connected to {url}. Type a prompt; /steer TEXT, /cancel, /quit.")
        _Sitting(client, console, is_only_looking=arguments.read_only).follow()
    return 0


class _Sitting:
    def __init__(self, client: PlainClient, console: Console, *, is_only_looking: bool) -> None:
        from harness.interfaces.client.transcript import Transcript

        self._client = client
        self._console = console
        self._is_only_looking = is_only_looking
        self._transcript = Transcript()
        self._asked: set[str] = set()
        self._told_errors = 0
        self._has_left = threading.Event()
        self._has_nothing_to_say = threading.Event()

    def follow(self) -> None:
        from harness.interfaces.cli.output import write_text

        if not self._is_only_looking:
            threading.Thread(target=self._listen, daemon=True).start()
        for state in self._states():
            if news := self._transcript.news(state):
                write_text(news)
            self._tell_questions(state)
            errors = self._client.errors
            for error in errors[self._told_errors :]:
                self._console.say(f"refused: {error}")
            self._told_errors = len(errors)

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

    def _tell_questions(self, state: dict[str, Any]) -> None:
        from harness.interfaces.client.transcript import title_of
        from harness.rendering.escapes import neutralised

        for relay in state["relays"]:
            if relay["status"] != "pending" or relay["id"] in self._asked:
                continue
            self._asked.add(relay["id"])
            if relay["kind"] == "permission":
                self._console.say(
                    f"? may it: {title_of(relay['toolName'], relay['input'])}  [y]es, [a]lways, or why not"
                )
            else:
                choices = f" ({', '.join(relay['options'])})" if relay["options"] else ""
                self._console.say(f"? {neutralised(relay['question'])}{choices}")

    def _listen(self) -> None:
        import sys

        for line in sys.stdin:
            text = line.strip()
            if text == "/quit":
                self._has_left.set()
                return
            if text:
                self._client.send(self._meaning(text))
        if self._client.state["status"] == "running":
            self._client.until(lambda state: state["status"] != "running")
        self._has_nothing_to_say.set()

    def _meaning(self, text: str) -> Command:
        from harness.commands import Answer, Approve, Cancel, Deny, Steer, Submit

        if text == "/cancel":
            return Cancel()
        if text.startswith("/steer "):
            return Steer(message=text.removeprefix("/steer ").strip())
        relay = next((one for one in self._client.state["relays"] if one["status"] == "pending"), None)
        if relay is None:
            return Submit(prompt=text)
        if relay["kind"] != "permission":
            return Answer(relay_id=relay["id"], answer=text)
        if text.lower() in _YES:
            return Approve(relay_id=relay["id"], always=_YES[text.lower()])
        return Deny(relay_id=relay["id"], reason="" if text.lower() in ("n", "no") else text)
