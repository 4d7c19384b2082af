"""A recorded run, played again: what is known of the recording, and the request that plays it.

A conversation has a raw record for each of its messages, and is played whole, in one process; so it can only be played as
far as the agent was held in one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.agents.registry import load, load_part
from harness.contracts.request import GatewayOptions, Limits, OnAsk, Request
from harness.errors import UsageError
from harness.gateway.tape import joined, read_tape
from harness.log.raw import RawEntry, RawExit, RawRequest, RawResponse, RawStart, read_raw
from harness.log.stores.files import FileStore
from harness.runs.audit import RAW, own_raw_paths

_KEPT = (
    *("permissions", "effort", "temperature", "max_output_tokens", "system_prompt", "append_system_prompt"),
    *("context_window", "two_way", "folder_settings", "extra_args", "mcp", "context"),
)
"""What a replay asks for as the recorded run did."""
_NOT_FROM_STRANGERS = frozenset(("folder_settings", "extra_args", "mcp", "context"))
"""By these a tape of somebody else would have programs started, or a file read, that no model has asked for."""


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Contract: holds what is said of the recording before it is played."""

    path: str
    further: tuple[str, ...] = ()
    """The records of the later messages."""
    source: str
    """The id of the session, or the file."""
    start: RawStart
    prompts: tuple[str, ...] = ()
    """Of all messages that can be played."""
    unplayed: int = 0
    """So many messages follow that cannot be."""
    calls: int
    """Requests for an answer."""
    model: str = ""
    """The one that was asked first."""
    damaged: int = 0
    is_masked: bool = False
    """A secret was masked in a request or an answer."""
    is_foreign: bool = False
    """It is a file, and not from the store of this user."""


def recorded_run(store: FileStore, log_id: str, *, whole: bool = False) -> RecordedRun:
    """`whole`: also what cannot be played, to be looked at. Raises UsageError for a session without a recording of its calls."""
    path = store.path(log_id, RAW)
    paths = [path] if os.path.exists(path) else [*own_raw_paths(store, log_id).values()]
    records = [list(read_raw(path)) for path in paths]
    starts = [next((entry for entry in record if isinstance(entry, RawStart)), None) for record in records]
    while len(starts) > 1 and not _has_calls(starts[0], records[0]):  # a gateway came later
        del starts[0], records[0], paths[0]
    playable = min(len(list(takewhile(_is_held_on(starts), starts))), _until_killed(records)) or 1
    playable = len(records) if whole else playable
    described = _described(list(joined(records[:playable])), paths[0] if paths else "", log_id)
    return replace(described, further=tuple(paths[1:playable]), unplayed=len(paths[playable:]))


def _has_calls(start: RawStart | None, record: Sequence[RawEntry]) -> bool:
    has_gateway = start is not None and start.gateway is not None
    return has_gateway and any(isinstance(entry, RawRequest) for entry in record)


def _is_held_on(starts: Sequence[RawStart | None]) -> Callable[[RawStart | None], bool]:
    """Whether a message was sent to the same process as the first, or could have been."""
    agent = starts[0].agent if starts and starts[0] is not None else ""
    return lambda start: (
        start is not None and start.two_way and start.gateway is not None and start.agent == agent
    )


def _until_killed(records: Sequence[Sequence[RawEntry]]) -> int:
    """So many messages end with the first during which the agent, or Harness, was killed: in what follows, the agent said
    itself where it had been.
    """
    for number, record in enumerate(records, 1):
        end = next((entry for entry in reversed(record) if isinstance(entry, RawExit)), None)
        if end is None or end.lost or end.signal is not None:
            return number
    return len(records)


def recorded_tape(path: str) -> RecordedRun:
    """Raises UsageError."""
    reading = read_tape(path)
    described = _described(list(reading.entries), path, path)
    return replace(described, damaged=len(reading.damaged), is_foreign=True)


def recorded_entries(run: RecordedRun) -> Iterator[RawEntry]:
    """Of all messages, the calls numbered through."""
    if not run.path.endswith(RAW):
        return iter(read_tape(run.path).entries)
    return joined(map(read_raw, (run.path, *run.further)))


def _described(entries: list[RawEntry], path: str, source: str) -> RecordedRun:
    starts = [entry for entry in entries if isinstance(entry, RawStart)]
    start = starts[0] if starts else None
    requests = [entry for entry in entries if isinstance(entry, RawRequest)]
    calls = sum(entry.purpose == "answer" for entry in requests)
    if start is None or start.gateway is None or not requests:
        raise UsageError(
            f"{source} has no recording of its model calls", hint="`harness run --gateway` records them"
        )
    if not start.agent:
        raise UsageError(
            f"{source} does not say which agent made these calls", hint="record a run of an agent"
        )
    if any(entry.body_size and not entry.data and not entry.of for entry in requests):
        raise UsageError(
            f"{source} was recorded without what was said",
            hint="record it with `gateway.bodies` set to `all`",
        )
    answers = [entry for entry in requests if entry.purpose == "answer"]
    model = next((entry.model for entry in answers if entry.tool_count), answers[0].model if answers else "")
    is_masked = any(entry.is_masked for entry in entries if isinstance(entry, RawRequest | RawResponse))
    return RecordedRun(
        path=path,
        source=source,
        start=start,
        prompts=tuple(start.prompt for start in starts),
        calls=calls,
        model=model,
        is_masked=is_masked,
    )


def as_recorded(request: Request) -> Request:
    """A request whose gateway plays a recording, with the model that was asked for in it; any other as it is."""
    if request.gateway is None or not request.gateway.recording:
        return request
    recording = recorded_tape(request.gateway.recording)
    return replace(request, gateway=_with_model(request.gateway, recording))


def _with_model(options: GatewayOptions, recording: RecordedRun) -> GatewayOptions:
    if load(recording.start.agent).work is not None:
        return replace(options, recorded_model=recording.start.model)
    own_models = load_part(recording.start.agent, "gateway")
    # Of its vendor's it needs no settings; and of those of others, if it has none for the lab.
    if own_models is not None and (
        own_models.wire != "chat" or load_part(recording.start.agent, "lab") is None
    ):
        return replace(options, recorded_model=recording.model)
    return options


def replay_request(
    run_recorded: RecordedRun,
    *,
    cwd: str = "",
    prompt: str | None = None,
    model: str = "",
    options: GatewayOptions | None = None,
    limits: Limits | None = None,
) -> Request:
    """`cwd`: another folder than the recorded one. `model`: the one that answers after a fork. Raises UsageError."""
    start = run_recorded.start
    if (
        run_recorded.is_foreign and not cwd
    ):  # it may name any folder of this machine, and its commands write there
        raise UsageError(
            f"a tape does not say where it is played, and this one was recorded in {start.cwd or 'no folder'}",
            hint="name a folder with --cwd DIR",
        )
    if prompt is None and not start.prompt:
        raise UsageError(
            f"{run_recorded.source} does not say what the agent was asked", hint="say it with --prompt TEXT"
        )
    left_out = _NOT_FROM_STRANGERS if run_recorded.is_foreign else frozenset[str]()
    fields: dict[str, Any] = {name: start.request[name] for name in _KEPT if name in start.request}
    fields = {name: value for name, value in fields.items() if name not in left_out}
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    options = _with_model(options or GatewayOptions(), run_recorded)
    return Request(
        agent=start.agent,
        prompt=start.prompt if prompt is None else prompt,
        cwd=cwd or start.cwd,
        model=model or (start.model if options.fork_at is not None else ""),
        gateway=replace(
            options, recording=run_recorded.path, further=run_recorded.further, source=run_recorded.source
        ),
        limits=limits or Limits(),
        on_ask=_unasked(start, fields),
        **fields,
    )


def _unasked(start: RawStart, fields: dict[str, Any]) -> OnAsk | None:
    """How a question is answered that the recording does not answer."""
    if start.request.get("on_ask") == "allow":
        return "allow"
    return "deny" if fields.get("permissions") in ("ask", "accept-edits") else None


def answered_calls(run: RecordedRun) -> list[tuple[RawRequest, RawResponse]]:
    """The calls, in order."""
    entries = list(recorded_entries(run))
    requests = {entry.id: entry for entry in entries if isinstance(entry, RawRequest)}
    return [
        (requests[entry.id], entry)
        for entry in entries
        if isinstance(entry, RawResponse) and entry.id in requests
    ]
