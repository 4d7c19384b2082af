"""Recorded sessions: every run is a session, stored as files that can be shown, verified and deleted.

Sessions that agents have stored themselves are listed and shown too; they are read where they are, and never changed.
ID is a session's id, the beginning of one, `last`, or the agent's own id of a session (`AGENT:ID` if it is not unique).
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from harness.cli import playback, session_delete, session_diff, session_keep, session_options
from harness.cli.console import Console, is_terminal, screen_width
from harness.cli.output import STDOUT, write_json, write_text
from harness.cli.parser import add_actions, completes, count, count_or_zero, positive
from harness.clients.sessions.filters import is_filtered, is_meant
from harness.errors import StoreError, UsageError
from harness.events import Unknown
from harness.log.store import Query, read_batches
from harness.system.plain_text import plain_text

if TYPE_CHECKING:
    from harness.config import Settings
    from harness.events import Event
    from harness.folds.inbox.row import InboxRow
    from harness.histories.catalogue_rows import CataloguedSession
    from harness.histories.stored_log import StoredLog
    from harness.log.store import Metadata
    from harness.log.stores.files import FileStore

SUMMARY = "sessions: list, search, show, replay, keep, check, delete …"
DEFAULT_ACTION = "list"
ACTIONS = {
    "list": "list sessions: waiting ones first, then running ones, then the newest",
    "search": "find sessions by their messages, files, commands and commits",
    "show": "show a session in any format",
    "replay": "show a session with its original timing",
    "diff": "print what a session changed as a patch",
    "keep": "copy sessions that agents have stored, before they delete them",
    "query": "ask the sessions a question in SQL (docs/sql.md)",
    "check": "prove that a log contains everything that the agent wrote",
    "export": "write the model calls that a gateway recorded as a tape",
    "path": "print where a session's log is",
    "delete": "delete sessions permanently",
}
_SHOWN_BY_DEFAULT = 20
_FOUND_BY_DEFAULT = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    _add_list(actions["list"])
    _add_search(actions["search"])
    help_text = "an id, the beginning of one, or `last`"
    for name in ("show", "replay", "diff", "check", "export", "path"):
        completes(actions[name].add_argument("id", metavar="ID", help=help_text), "sessions")
    session_delete.add_arguments(actions["delete"])
    for name in ("show", "replay"):
        playback.add_arguments(actions[name])
    add_call_arguments(actions["show"])
    actions["export"].add_argument(
        "-f", "--format", choices=("tape",), default="tape", metavar="FORMAT", help="tape"
    )
    session_diff.add_arguments(actions["diff"])
    actions["query"].add_argument(
        "sql", metavar="SQL", help='for example "SELECT agent, count(*) FROM sessions GROUP BY 1"'
    )
    shapes = ("table", "json", "csv")
    actions["query"].add_argument(
        "-f", "--format", choices=shapes, default="table", metavar="FORMAT", help=", ".join(shapes)
    )
    session_keep.add_arguments(actions["keep"])
    actions["show"].add_argument("--follow", action="store_true", help="follow it while it is being written")
    pace = actions["replay"].add_mutually_exclusive_group()
    pace.add_argument("--speed", type=positive, default=1.0, metavar="N", help="speed factor")
    pace.add_argument("--fast", action="store_true", help="without any pause")
    actions["check"].add_argument("--json", action="store_true", help="print JSON")
    actions["path"].add_argument("--raw", action="store_true", help="the file with the agent's raw output")


def _add_list(parser: argparse.ArgumentParser) -> None:
    session_options.add_filters(parser)
    add = parser.add_argument
    add("--live", action="store_true", help="only those that a process has open now")
    help_text = f"show at most N (default: {_SHOWN_BY_DEFAULT}; 0: all)"
    add("--limit", type=count_or_zero, default=_SHOWN_BY_DEFAULT, metavar="N", help=help_text)
    shape = parser.add_mutually_exclusive_group().add_argument
    shape("--json", action="store_true", help="print JSON")
    shape("--ids", action="store_true", help="print only the ids, one per line")


def _add_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_text = "words of its messages, also their beginnings; a text in double quotes is searched as it is"
    add("words", metavar="WORDS", nargs="*", help=help_text)
    add(
        "--file",
        default="",
        metavar="PATH",
        help="it has read, written or named a file whose path contains this",
    )
    add("--command", default="", metavar="TEXT", help="it has run a command that contains this")
    add("--commit", default="", metavar="SHA", help="it has made this commit")
    session_options.add_filters(parser)
    help_text = f"show at most N (default: {_FOUND_BY_DEFAULT}; 0: all)"
    add("--limit", type=count_or_zero, default=_FOUND_BY_DEFAULT, metavar="N", help=help_text)
    add("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences

    settings = preferences.load(console, has_verbose=arguments.verbose)
    store = preferences.open_store(settings)
    action = {
        "list": _list,
        "search": _search,
        "show": _show,
        "replay": _replay,
        "keep": session_keep.keep,
        "diff": _diff,
        "query": _query,
        "check": _check,
        "export": _export,
        "path": _path,
        "delete": session_delete.delete,
    }[arguments.action]
    if arguments.action == "list":
        _keep_expiring(store, settings, console)
    return action(arguments, store, console)


def _keep_expiring(store: FileStore, settings: Settings, console: Console) -> None:
    if settings.value("histories.keep"):
        from harness.clients.sessions.histories import HistorySessions

        session_keep.keep_expiring(HistorySessions(say=console.warning), store, settings, console)


def _list(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    from harness.clients.inbox.listing import known_prices
    from harness.clients.sessions.histories import HistorySessions
    from harness.clients.sessions.ids import MARK, all_ids, in_order, table

    ids = all_ids(store)
    ours, rest = _chosen(arguments, store, ids, console)
    histories, prices = HistorySessions(say=console.warning), known_prices()
    theirs = histories.listed(session_options.choice_of(arguments), store, arguments.limit, console.say)
    # Behind it: what a fork has copied of one of theirs is known then.
    ours = histories.merged(store, ours, prices)
    most = arguments.limit or len(ours) + len(theirs.sessions)
    sessions = _merged(ours, theirs.sessions)
    rest += theirs.rest + max(0, len(sessions) - most)
    sessions = sessions[:most]
    marked = {session.session_id for session in sessions} & theirs.by_id.keys()
    amounts = histories.amounts((theirs.by_id[name] for name in marked), prices)
    partial = {name for name, amount in amounts.items() if not amount.is_cost_complete}
    for entry in sessions:
        if entry.session_id in amounts:
            entry.total_cost_usd = amounts[entry.session_id].cost_usd
    if arguments.ids:
        write_text("".join(f"{session.session_id}\n" for session in sessions))
        return 0
    rows = _rows(store, [session.session_id for session in sessions if session.session_id not in marked])
    if arguments.json:
        write_json([_as_data(session, theirs.by_id.get(session.session_id), rows) for session in sessions])
    elif not sessions:
        console.say(_nothing_found(arguments, store, len(ids) + theirs.known))
    else:
        width = screen_width(os.environ) if is_terminal(STDOUT) else 0
        for entry in sessions:
            if (original := theirs.by_id.get(entry.session_id)) is not None and original.gone_ms:
                entry.outcome = "deleted"
        write_text(table(sessions, in_order([*ids, *theirs.ids]), width, marked, rows, partial))
    if marked and not arguments.json:
        console.say(f"{MARK} stored by the agent itself")
    if rest:
        console.say(f"… and {rest} older ones (--limit 0 shows all)")
    return 0


def _search(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    from harness.clients.sessions.histories import HistorySessions, as_filter
    from harness.clients.sessions.search import as_text, find_hits

    session_options.check(arguments)
    search, choice = session_options.asked_in(arguments), session_options.choice_of(arguments)
    histories = HistorySessions(say=console.warning)
    histories.read_all(console.say, as_filter(choice))
    most = arguments.limit + 1 if arguments.limit else None  # one more shows whether there are more
    search_hits = find_hits(search, choice, store, histories, most)
    is_cut = bool(arguments.limit) and len(search_hits) > arguments.limit
    hits = search_hits[: arguments.limit or None]
    if arguments.json:
        write_json({"hits": [hit.as_data() for hit in hits], "is_cut": is_cut})
    elif not hits:
        console.say("nothing was found")
    else:
        write_text(as_text(hits))
    if is_cut:
        console.say("… and more (--limit 0 shows all)")
    return 0


def _rows(store: FileStore, log_ids: Sequence[str]) -> dict[str, InboxRow]:
    """What each of them does, as the inbox shows it."""
    if not log_ids:
        return {}
    from harness.clients.inbox.listing import known_prices, rows_of

    return rows_of(store, known_prices(), log_ids)


def _merged(ours: Sequence[Metadata], theirs: Sequence[Metadata]) -> list[Metadata]:
    """Waiting ones first, then running ones, then the newest."""
    from harness.log.query import age

    if not theirs:
        return list(ours)
    ranks = {"waiting": 0, "running": 1}
    return sorted([*ours, *theirs], key=lambda row: (ranks.get(row.outcome, 2), -age(row)[0]))


def _chosen(
    arguments: argparse.Namespace, store: FileStore, ids: Sequence[str], console: Console
) -> tuple[list[Metadata], int]:
    """The sessions that are asked for, and how many older ones the limit cuts off."""
    session_options.check(arguments)
    choice = session_options.choice_of(arguments)
    most = arguments.limit or len(ids)
    ids = _waiting_first(store, ids, console)
    if not is_filtered(choice):  # then the rest need not even be read
        return [_up_to_date(store, log_id, console) for log_id in ids[:most]], max(0, len(ids) - most)
    each = (_up_to_date(store, log_id, console) for log_id in ids)
    matches = [metadata for metadata in each if is_meant(metadata, choice)]
    return matches[:most], max(0, len(matches) - most)


def _waiting_first(store: FileStore, ids: Sequence[str], console: Console) -> list[str]:
    """Then those that run, then the rest as it was."""
    there = frozenset(ids)
    active = [session.session_id for session in store.find(Query(active=True)) if session.session_id in there]
    outcomes = {log_id: _up_to_date(store, log_id, console).outcome for log_id in active}
    first = [log_id for log_id in active if outcomes[log_id] == "waiting"]
    first += [log_id for log_id in active if outcomes[log_id] == "running"]
    moved = frozenset(first)
    return [*first, *(log_id for log_id in ids if log_id not in moved)]


def _nothing_found(arguments: argparse.Namespace, store: FileStore, session_count: int) -> str:
    if session_count and is_filtered(session_options.choice_of(arguments)):
        return f"none of {session_count} sessions matches, in {store.directory}"
    return f"there are no sessions in {store.directory}"


def _up_to_date(store: FileStore, log_id: str, console: Console) -> Metadata:
    """A session's metadata; one whose writer died is completed first; `outcome` is also `running` or `waiting`."""
    from harness.log.query import is_active, waits

    metadata = store.metadata(log_id)
    is_live = is_active(metadata) and store.is_live(log_id)
    if is_active(metadata) and not is_live and not waits(metadata):
        _recover(store, log_id, console)
        metadata = store.metadata(log_id)
    if waits(metadata):
        metadata.outcome = "waiting"
    elif is_live:
        metadata.outcome = "running"
    metadata.outcome = metadata.outcome or "unknown"
    return metadata


def _recover(store: FileStore, log_id: str, console: Console) -> None:
    from harness.session.open_thread import recover_any

    try:
        if recover_any(store, log_id):
            console.info(f"session {log_id} was cut off; its log has been completed")
    except (StoreError, OSError) as error:  # a folder that may only be read
        console.warning(f"session {log_id} was cut off and cannot be completed: {error}")


def _as_data(
    metadata: Metadata, original: CataloguedSession | None, rows: Mapping[str, InboxRow]
) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(metadata)
    data |= {"log_id": metadata.session_id, "running": metadata.outcome == "running"}
    if (row := rows.get(metadata.session_id)) is not None:
        data |= {"state": row.state, "state_since_ms": row.state_since_ms}
    if original is None:
        return data
    about = {"path": original.path, "runs": original.runs, "parent_id": original.parent_id}
    return {**data, "history": {**about, "deleted_ms": original.gone_ms or None}}


def _found(arguments: argparse.Namespace, store: FileStore, console: Console) -> str | CataloguedSession:
    """A log of the store, or else a session that an agent has stored. Raises UnknownSession."""
    from harness.clients.sessions.any_session import log_of_deleted
    from harness.clients.sessions.histories import HistorySessions
    from harness.clients.sessions.ids import find_ours, may_be_of_history, unknown

    log_id = find_ours(store, arguments.id)
    if log_id is not None:
        _up_to_date(store, log_id, console)
        return log_id
    session = (
        HistorySessions(say=console.warning).find(arguments.id) if may_be_of_history(arguments.id) else None
    )
    if session is None:
        raise unknown(store, arguments.id)
    if not session.gone_ms:
        return session
    log = log_of_deleted(store, session)
    console.say(f"{session.agent} has deleted this session: this is {log.session_id}, which was kept of it")
    return log.session_id


def _stored_log(session: CataloguedSession) -> StoredLog:
    from harness.clients.sessions.histories import history_of
    from harness.histories.stored_log import StoredLog

    return StoredLog(history_of(session), session.stored)


def _show(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    if number := arguments.call or arguments.call_diff:
        from harness.cli.session_calls import show

        return show(store, _own_log(arguments, store, console), number, only_new=bool(arguments.call_diff))
    from harness.clients.sessions.model_calls import model_input

    log_id = _found(arguments, store, console)
    if not isinstance(log_id, str):
        follows = arguments.follow
        batches = _followed_in_store(log_id, console) if follows else _stored_log(log_id).batches()
        playback.show(batches, arguments, console, is_live=follows)
        return 0
    batches = _followed(store, log_id, console) if arguments.follow else read_batches(store, log_id)
    recording = functools.partial(model_input, store, log_id)
    playback.show(batches, arguments, console, is_live=arguments.follow, model_input=recording)
    _mention_native(store, log_id, console)
    return 0


def _mention_native(store: FileStore, log_id: str, console: Console) -> None:
    """Say where the rest of a session is that was used without Harness too."""
    from harness.clients.sessions.histories import HistorySessions

    metadata = store.metadata(log_id)
    if not metadata.agent_session_id:
        return
    mixed = HistorySessions(say=console.warning).mixed(store, metadata)
    if mixed is not None:
        name = f"{mixed.session.agent}:{mixed.session.session_id}"
        noun = "prompt" if mixed.native == 1 else "prompts"
        console.say(
            f"{mixed.native} more {noun} of this session came without harness:"
            f" `harness sessions show {name}` shows all of it"
        )


def _followed_in_store(session: CataloguedSession, console: Console) -> Iterator[Sequence[Event]]:
    from harness.clients.sessions.histories import history_of
    from harness.contracts.history import current_home
    from harness.histories.stored_follow import StoredFollower

    follower = StoredFollower(history_of(session), session.stored, current_home())
    yield from follower.batches()
    if follower.is_deleted:
        console.say(f"{session.agent} has deleted this session")


def _followed(store: FileStore, log_id: str, console: Console) -> Iterator[Sequence[Event]]:
    """Until its writer is done; if it died instead, with what its log is completed with."""
    cursor = 0
    for batch in playback.followed(store, log_id):
        cursor = batch[-1].seq + 1
        yield batch
    _up_to_date(store, log_id, console)
    yield from read_batches(store, log_id, cursor)


def _export(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    from harness.cli.session_calls import export

    return export(store, _own_log(arguments, store, console))


def _own_log(arguments: argparse.Namespace, store: FileStore, console: Console) -> str:
    """Raises UsageError for a session that an agent has stored itself: its calls were not recorded."""
    log_id = _found(arguments, store, console)
    if isinstance(log_id, str):
        return log_id
    raise UsageError(
        f"{arguments.id} has no recording of its model calls", hint="`harness run --gateway` records them"
    )


def add_call_arguments(parser: argparse.ArgumentParser) -> None:
    """Of the calls that a gateway recorded."""
    group = parser.add_mutually_exclusive_group().add_argument
    help_text = "show call N of `--format requests` whole"
    group("--call", "--step", type=count, dest="call", metavar="N", help=help_text)
    group("--diff", type=count, dest="call_diff", metavar="N", help="show only what is new in call N")


def _replay(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    from harness.clients.sessions.model_calls import model_input

    session = _found(arguments, store, console)
    batches = read_batches(store, session) if isinstance(session, str) else _stored_log(session).batches()
    if not arguments.fast:
        batches = playback.timed(batches, arguments.speed)
    recording = functools.partial(model_input, store, session) if isinstance(session, str) else None
    playback.show(batches, arguments, console, is_live=not arguments.fast, model_input=recording)
    return 0


def _diff(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    session = _found(arguments, store, console)
    batches = read_batches(store, session) if isinstance(session, str) else _stored_log(session).batches()
    return session_diff.diff(batches, arguments, console)


def _check(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    from harness.runs.audit import check

    session = _found(arguments, store, console)
    if not isinstance(session, str):
        return _check_history(session, is_json=arguments.json)
    audit = check(store, session)
    if arguments.json:
        write_json(asdict(audit))
    else:
        lines = [
            f"session {audit.log_id}",
            f"  {audit.lines} lines ({audit.raw_bytes} bytes) of the agent",
            f"  {audit.events} events in the log, {audit.unknown} of them unknown",
            *(f"  {count:>7}  {rule}" for rule, count in audit.rules.items()),
        ]
        write_text("\n".join(lines) + "\n")
    for problem in audit.problems:
        console.say(f"harness: {problem}")
    for difference in audit.differences:
        console.say(f"  {difference}")
    if audit.differences:
        console.say(
            f"{audit.recorded_by} recorded this, and read the same records otherwise: nothing is missing"
        )
    if not audit.problems and not audit.differences and not arguments.json:
        proof = "complete: this log is not a translation, so there is nothing to compare it with"
        write_text(
            f"  {proof if audit.is_original else 'proved: what the agent wrote gives exactly this log'}\n"
        )
    return 1 if audit.problems else 0


def _check_history(session: CataloguedSession, *, is_json: bool) -> int:
    """That every record of the store was taken by a rule, or is in the log as it is."""
    log = _stored_log(session)
    events = [isinstance(event, Unknown) for event in log.events()]
    rules = dict(sorted(log.records.items()))
    data = {
        "log_id": session.session_id,
        "path": session.path,
        "records": log.records.total(),
        "events": len(events),
    }
    data |= {"unknown": sum(events), "rules": rules, "problems": [repr(line[:200]) for line in log.lost]}
    if is_json:
        write_json(data)
    else:
        lines = [
            f"session {session.session_id} in {session.path}",
            f"  {data['records']} records of the agent",
            f"  {len(events)} events, {sum(events)} of them unknown",
            *(f"  {count:>7}  {rule}" for rule, count in rules.items()),
        ]
        write_text("\n".join(lines) + "\n")
    return 1 if log.lost else 0


def _query(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    from harness.cli.session_query import query

    del console
    for text in query(store, plain_text(arguments.sql), arguments.format):
        write_text(text)
    return 0


def _path(arguments: argparse.Namespace, store: FileStore, console: Console) -> int:
    from harness.log.raw import RawWriter

    log_id = _found(arguments, store, console)
    if not isinstance(log_id, str):
        write_text(f"{log_id.path}\n")
        return 0
    write_text((store.path(log_id, RawWriter.suffix) if arguments.raw else store.path(log_id)) + "\n")
    return 0
