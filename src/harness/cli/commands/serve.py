"""A page for the browser and a server for programs, on this machine: watch sessions, start agents, answer and steer them.

It prints a link that works once. Only you can use it: it listens on loopback and requires a token. With --link,
--logout or --new-token it starts nothing and acts on the running server.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from harness.cli.console import Console
from harness.cli.gateway_options import add_gateway, hosts_of
from harness.cli.output import write_text
from harness.cli.parser import completes, port
from harness.cli.tracing import add_collector, traced
from harness.clients.server_address import (
    add_listening,
    add_token,
    browsers_path,
    checked_host,
    forget_address,
    leave_address,
    new_link,
    own_server,
    require_server,
    token_of_environment,
    token_path,
)
from harness.contracts.request import OWN_AGENT
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.clients.conversations.backend import Setup
    from harness.config import Settings
    from harness.log.store import Store
    from harness.server.app import Plan

SUMMARY = "a page for the browser, and a server for programs"
USUAL_PORT = 4780
ENDPOINTS = ("acp", "agui", "openai")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--port",
        type=port,
        default=USUAL_PORT,
        metavar="N",
        help=f"0 for any free one (default: {USUAL_PORT})",
    )
    completes(
        add("-a", "--agent", default="", metavar="NAME", help="agent of new conversations"),
        "agents",
    )
    add("-m", "--model", default="", metavar="NAME", help="model of new conversations")
    add_gateway(add)
    add(
        "--store",
        default="",
        metavar="WHERE",
        help="where conversations are stored: a folder, or postgresql://USER@HOST/DATABASE, which several servers "
        "can share (default: where `harness run` records)",
    )
    add("-d", "--cwd", default="", metavar="DIR", help="where they work (default: here)")
    add(
        "--notify",
        action="append",
        default=[],
        metavar="URL",
        help="notify this address when a session needs you or ends: a signed webhook, or ntfy+https://HOST/TOPIC for a "
        "push (may be repeated)",
    )
    add(
        "--endpoint",
        action="append",
        default=[],
        choices=ENDPOINTS,
        help="also speak another protocol: acp at /acp, agui at /agui, openai at /v1 (may be repeated)",
    )
    add_collector(parser)
    add_token(parser)
    add_listening(parser)
    instead = parser.add_mutually_exclusive_group()
    for option, help_text in (
        ("--link", "print another link for the running server"),
        ("--logout", "log out all browsers"),
        ("--new-token", "replace the token for programs"),
    ):
        instead.add_argument(option, action="store_true", help=help_text)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences

    require_server()
    if arguments.link or arguments.logout or arguments.new_token:
        return _do_instead(arguments, console)
    host = checked_host(arguments)
    settings = preferences.load(console, has_verbose=arguments.verbose)
    return _serve(arguments, host, settings, console)


def _do_instead(arguments: argparse.Namespace, console: Console) -> int:
    from harness.server.access.browser_keys import BrowserKeys
    from harness.server.access.credentials import write_token

    if arguments.link:
        write_text(f"{new_link(*own_server(arguments.token_file))}\n")
    elif arguments.logout:
        BrowserKeys(browsers_path()).log_out()
        console.say("All browsers are logged out. `harness serve --link` prints a link to log in.")
    else:
        path = arguments.token_file or token_path()
        write_token(os.path.abspath(path))
        console.say(f"The token in {path} was replaced: the old one no longer works.")
    return 0


def _serve(arguments: argparse.Namespace, host: str, settings: Settings, console: Console) -> int:
    from harness.cli import preferences
    from harness.cli.interruption import raise_on_interrupt
    from harness.cli.log_notes import LogNotes
    from harness.clients.conversations.presets import MODES
    from harness.clients.conversations.shared_backend import open_backend
    from harness.server.access.host_names import names_of
    from harness.server.access.responses import Failures
    from harness.server.app import Plan, ServerApp, open_access
    from harness.server.machine.notifier import target_of
    from harness.server.serving import Serving, bind

    token = token_of_environment()
    store = _store(arguments.store) if arguments.store else preferences.open_store(settings)
    store = _with_histories(store, arguments, settings)
    default = _default(arguments, settings)
    names_of(arguments.port, arguments.allow_remote, arguments.public_url)  # before anything is opened
    access = open_access(arguments.token_file, token)
    listening = bind(host, arguments.port)
    plan = Plan(
        store=store,
        backend=lambda: open_backend(store, default),
        access=access,
        settings=settings,
        default=default,
        names=names_of(listening.getsockname()[1], arguments.allow_remote, arguments.public_url),
        modes=MODES,
        report=console.debug if console.is_verbose else None,
        failures=Failures(console.say, is_verbose=console.is_verbose),
        notify=[target_of(url) for url in (*arguments.notify, *(settings.value("notify.urls") or ()))],
        fleets=_fleet_database(arguments.store),
        endpoints=_endpoints(arguments, settings),
    )
    raise_on_interrupt()
    serving = Serving(
        ServerApp(plan).guarded(),
        listening,
        lambda: _announce(arguments, plan, console, has_token=bool(token)),
    )
    try:
        with LogNotes(console), traced(settings, console.warning, arguments.otlp):
            serving.run()
    finally:
        listening.close()
        forget_address(plan.names.local_url)
    return 0


def _endpoints(arguments: argparse.Namespace, settings: Settings) -> list[str]:
    """Those of the options and of the settings. Raises UsageError for one that does not exist."""
    names = [*arguments.endpoint, *(settings.value("serve.endpoints") or ())]
    if unknown := [name for name in names if name not in ENDPOINTS]:
        raise UsageError(
            f"serve.endpoints: there is no endpoint {unknown[0]!r}", hint=f"there are: {', '.join(ENDPOINTS)}"
        )
    return names


def _fleet_database(store: str) -> str:
    """Where fleets are, if not in the data directory: as for `harness fleet`, or where the sessions are."""
    from harness.fleet.fleet import STORE_VARIABLE

    return os.environ.get(STORE_VARIABLE, "") or (store if "://" in store else "")


def _announce(arguments: argparse.Namespace, plan: Plan, console: Console, *, has_token: bool) -> None:
    from harness.server.access.credentials import LINK_S, is_open_to_others

    leave_address(plan.names.local_url)
    write_text(f"{plan.new_link}\n")
    file = arguments.token_file or token_path()
    where = "that of the environment" if has_token else f"in {file}"
    console.say(
        f"Open this link; it works once, within {LINK_S // 60} minutes (`harness serve --link` prints another). "
        f"The token for programs is {where}."
    )
    if not has_token and arguments.token_file and is_open_to_others(file):
        console.warning(
            f"other users of this machine can read the token in {file}: restrict it with chmod 600"
        )
    names = [*arguments.allow_remote, *([arguments.public_url] if arguments.public_url else [])]
    if names:
        console.warning(
            f"other machines can reach this server as {', '.join(names)}: anyone with the token can run commands as you"
        )
    if plan.names.path:
        # Browsers keep what a page stores by host name, not by path.
        console.warning(
            "the page is below a path: every other page under the same host name can use its login, so all of them must be yours"
        )
    console.say("Ctrl-C stops the server and everything it runs.")


def _store(where: str) -> Store:
    """Raises HarnessError also when it cannot be reached: better now than at the first request."""
    from harness.log.store import Query
    from harness.log.stores.files import FileStore
    from harness.log.stores.open_store import open_store

    store = open_store(where)
    if not isinstance(store, FileStore):  # of a folder, that would take reading all that is new there
        store.find(Query(limit=1))
    return store


def _with_histories(store: Store, arguments: argparse.Namespace, settings: Settings) -> Store:
    """The store with the sessions that agents have stored themselves; not where other machines may see them, unless that
    is set, and not for a shared store.
    """
    from harness.log.stores.files import FileStore
    from harness.server.machine.histories import Histories
    from harness.server.machine.machine_store import MachineStore

    value = settings.value("histories.serve")
    is_remote = bool(arguments.allow_remote or arguments.public_url)
    if not isinstance(store, FileStore) or value == "never" or (value == "local" and is_remote):
        return store
    return MachineStore(store.directory, Histories())


def _default(arguments: argparse.Namespace, settings: Settings) -> Setup:
    from harness.cli.run_request import agent_of
    from harness.clients.conversations.backend import Setup
    from harness.clients.conversations.presets import checked_directory

    try:
        agent = agent_of(arguments.agent, settings).name
    except UsageError:
        if arguments.agent:
            raise
        agent = OWN_AGENT  # nothing was chosen: the one that is always there
    return Setup(
        agent=agent,
        model=arguments.model,
        cwd=checked_directory(arguments.cwd or os.getcwd()),
        gateway=arguments.gateway,
        sealed=arguments.sealed,
        allow_hosts=hosts_of(arguments),
    )
