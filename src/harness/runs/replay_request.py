"""A recorded run, played again: what is known of the recording, and the request that plays it."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from harness.agents.registry import load_part
from harness.contracts.request import GatewayOptions, Limits, Request
from harness.errors import UsageError
from harness.gateway.tape import read_tape
from harness.log.raw import RawEntry, RawRequest, RawResponse, RawStart, read_raw
from harness.log.stores.files import FileStore
from harness.runs.audit import RAW, own_raw_paths

_KEPT = (
    *("permissions", "effort", "temperature", "max_output_tokens", "system_prompt", "append_system_prompt"),
    *("two_way", "folder_settings", "extra_args", "mcp"),
)
"""What a replay asks for as the recorded run did."""
_NOT_FROM_STRANGERS = frozenset(("folder_settings", "extra_args", "mcp"))
"""By these a tape of somebody else would have programs started that no model has asked for."""


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Contract: holds what is said of the recording before it is played."""

    path: str
    source: str
    """The id of the session, or the file."""
    start: RawStart
    calls: int
    """Requests for an answer."""
    model: str = ""
    """The one that was asked first."""
    damaged: int = 0
    is_masked: bool = False
    """A secret was masked in a request or an answer."""
    is_foreign: bool = False
    """It is a file, and not from the store of this user."""


def recorded_run(store: FileStore, log_id: str) -> RecordedRun:
    """Raises UsageError for a session without a recording of its calls."""
    path = store.path(log_id, RAW)
    if not os.path.exists(path):
        runs = own_raw_paths(store, log_id)
        path = next(iter(runs.values()), "")
    return _described(list(read_raw(path)) if path else [], path, log_id)


def recorded_tape(path: str) -> RecordedRun:
    """Raises UsageError."""
    reading = read_tape(path)
    described = _described(list(reading.entries), path, path)
    return msgspec.structs.replace(described, damaged=len(reading.damaged), is_foreign=True)


def _described(entries: list[RawEntry], path: str, source: str) -> RecordedRun:
    start = next((entry for entry in entries if isinstance(entry, RawStart)), None)
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
    model = next((entry.model for entry in requests if entry.purpose == "answer" and entry.tool_count), "")
    is_masked = any(entry.is_masked for entry in entries if isinstance(entry, RawRequest | RawResponse))
    return RecordedRun(path=path, source=source, start=start, calls=calls, model=model, is_masked=is_masked)


def replay_request(
    recorded: RecordedRun,
    *,
    cwd: str = "",
    prompt: str | None = None,
    model: str = "",
    options: GatewayOptions | None = None,
    limits: Limits | None = None,
) -> Request:
    """`cwd`: another folder than the recorded one. `model`: the one that answers after a fork. Raises UsageError."""
    start = recorded.start
    if (
        recorded.is_foreign and not cwd
    ):  # it may name any folder of this machine, and its commands write there
        raise UsageError(
            f"a tape does not say where it is played, and this one was recorded in {start.cwd or 'no folder'}",
            hint="name a folder with --cwd DIR",
        )
    left_out = _NOT_FROM_STRANGERS if recorded.is_foreign else frozenset[str]()
    kept: dict[str, Any] = {name: start.request[name] for name in _KEPT if name in start.request}
    kept = {name: value for name, value in kept.items() if name not in left_out}
    kept = {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    options = options or GatewayOptions()
    own_models = load_part(start.agent, "gateway")
    if own_models is not None and own_models.wire != "chat":  # its vendor's, which need no settings
        options = msgspec.structs.replace(options, recorded_model=recorded.model)
    return Request(
        agent=start.agent,
        prompt=start.prompt if prompt is None else prompt,
        cwd=cwd or start.cwd,
        model=model or (start.model if options.fork_at is not None else ""),
        gateway=msgspec.structs.replace(options, recording=recorded.path, source=recorded.source),
        limits=limits or Limits(),
        on_ask="allow" if kept.get("permissions") in ("ask", "accept-edits") else None,
        **kept,
    )


def answered_calls(path: str) -> list[tuple[RawRequest, RawResponse]]:
    """The calls of a raw record or a tape, in order."""
    entries: list[Any] = list(read_raw(path)) if path.endswith(RAW) else list(read_tape(path).entries)
    requests = {entry.id: entry for entry in entries if isinstance(entry, RawRequest)}
    return [
        (requests[entry.id], entry)
        for entry in entries
        if isinstance(entry, RawResponse) and entry.id in requests
    ]
