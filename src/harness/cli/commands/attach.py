"""Follow a running session in this terminal, answer its questions, and steer it: one of `harness serve`, or of
`harness chat` and `harness run` in another terminal of yours.

In a session of `harness serve`, what you type is a prompt (queued while a run is in progress), or the answer to the
question that was shown. /show shows the whole question, /grants lists what is always allowed and /revoke ID revokes it,
/steer TEXT sends a message to the current run, /cancel stops it, /cancel all also clears the queue, /continue sends the
queue after a stop, /quit leaves without stopping anything.
"""

from __future__ import annotations

import argparse

from harness.cli.console import Console, is_terminal
from harness.errors import UnknownSession, UsageError

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
    if arguments.id and not arguments.url and (code := _attach_here(arguments, console)) is not None:
        return code
    from harness.clients.server_address import require_server

    require_server()
    from harness.cli.chat.served_chat import ServedChat
    from harness.clients.client.client import PlainClient
    from harness.clients.server_address import address_of, newest_session, own_server, token_of

    if arguments.url:
        url, token = address_of(arguments.url), token_of(arguments.token_file)
    else:
        url, token = own_server(arguments.token_file)
    # Asked in any case: a client waits for a server that is not there, as if it were only starting again.
    newest = newest_session(url, token)
    if arguments.id == "last" and not newest:
        raise UnknownSession("there is no session yet", hint="`harness attach` without an id starts one")
    session = newest if arguments.id == "last" else arguments.id
    with PlainClient(url, token=token, session=session) as client:
        if is_terminal(_STDIN) and not arguments.read_only:
            console.say(
                f"Connected to {url}. Type a prompt; /steer TEXT, /cancel, /continue, /show, /grants, /revoke ID, /quit."
            )
        ServedChat(client, console, is_read_only=arguments.read_only).follow()
    return 0


def _attach_here(arguments: argparse.Namespace, console: Console) -> int | None:
    """To a session of another program on this machine; None when it has to be one of the server.

    Raises UsageError for a session that neither takes commands nor could be one of a server.
    """
    from harness.cli import preferences
    from harness.cli.chat.own_chat import follow
    from harness.clients.server_address import address_of
    from harness.clients.sessions.ids import find

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
                "it is running, but its program takes no commands",
                hint=f"`harness sessions show {log_id} --follow` shows it as it goes",
            ) from error
        raise UsageError(
            "it has ended, or its program has", hint=f"`harness chat --resume {log_id}` continues it"
        ) from error
    return None
