"""The raw record of a run: every byte that the agent wrote, what we wrote, and what we did, in order of arrival.

Beside `<id>.ndjson` lies `<id>.raw`, a sequence of entries. An entry is one line of JSON, its
head; where the head has a `size`, that many bytes follow exactly as they came, then a newline:

    {"kind":"start","at_ms":1700000000000,"agent":"claude","prompt":"…", …}
    {"kind":"stdout","at_ms":1700000000412,"size":57}
    {"type":"system","subtype":"init","session_id":"…"}
    …
    {"kind":"request","at_ms":1700000000900,"id":1,"method":"POST","path":"/v1/messages", … ,"size":1702}
    …
    {"kind":"exit","at_ms":1700000004000,"code":0}

Translating the entries again gives the events again (`harness sessions check`): the raw file is
the proof of the log, and what a crashed run is completed from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, BinaryIO, ClassVar, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.events import Outcome, Usage
from harness.log import codec
from harness.log.private_files import append_all, open_private


class RawGateway(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of a run through a gateway: how, and what a replay has to know of the place."""

    mode: str
    """pass, translate, replay or fork."""
    home: str = ""
    """The agent's home."""
    commit: str = ""
    """Of the workspace, where it is a repository."""
    provider: str = ""
    model: str = ""
    """`provider/model`, where another one answers than the agent asks for."""
    seal: str = ""
    """What keeps it sealed: namespaces, bubblewrap or landlock."""
    replayed_from: str = ""
    """The session, or the file, whose recording answers."""
    version: int = 1
    """Of the form of the record."""


class RawStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="start"):
    """What was asked, and how it was put to the agent (secrets already masked)."""

    at_ms: int
    agent: str
    native: str = ""
    """The agent whose format the output has, if not `agent`."""
    version: str = ""
    argv: list[str] = msgspec.field(default_factory=list)
    cwd: str = ""
    model: str = ""
    prompt: str = ""
    prompt_id: str = ""
    files: list[Any] = msgspec.field(default_factory=list)
    """What was attached to the prompt, as `Message.parts` has it."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """What was asked for and dropped, because this agent cannot do it."""
    request: dict[str, Any] = msgspec.field(default_factory=dict)
    sandbox: str = ""
    """What confined it: namespaces, bubblewrap or landlock."""
    two_way: bool = False
    """The agent is held in a conversation: the output has the format of `Agent.two_way`."""
    session_id: str = ""
    """The agent's own, where it is known already: the process has answered earlier prompts."""
    carried: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the translator of the turn before handed on (`Translator.carried`): totals that the process counts on."""
    recorder: str = ""
    """The version of Harness that recorded it; empty: one that did not say so."""
    gateway: RawGateway | None = None
    """None: the agent talked to its model itself."""


class RawOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Whole lines of one pipe; the last block of a run may end without a newline."""

    at_ms: int
    stream: Literal["stdout", "stderr"]
    data: bytes


class RawInput(msgspec.Struct, frozen=True, kw_only=True):
    """Whole lines that we wrote to the agent (secrets already masked)."""

    at_ms: int
    data: bytes


class RawEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="event"):
    """What the driver of a two-way conversation gave to the log: a question, its answer, a message that was taken."""

    at_ms: int
    event: msgspec.Raw
    """As JSON, without what the log stamps."""


RawAction: TypeAlias = Literal[
    "stop",
    "timeout",
    "first_output",
    "inactivity",
    "turns",
    "tokens",
    "budget",
    "spending",
    "parted",
    "differs",
]


class RawControl(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="control"
):
    """Something we did to the run: `stop` (a person or a signal), or a limit that was reached."""

    at_ms: int
    action: RawAction
    detail: str = ""


class RawExit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="exit"):
    """The run is over, usually because the process of the agent has ended. `lost`: it was not seen, because the harness itself was killed."""

    at_ms: int
    code: int | None = None
    signal: int | None = None
    survivors: int = 0
    refused: list[str] = msgspec.field(default_factory=list)
    """What it left in its sandbox and had to be switched off, as text."""
    lost: bool = False
    failure: Literal["", "agent_not_found", "spawn_failed"] = ""
    message: str = ""
    session_id: str = ""
    """The agent's own, where it was found in the agent's store and not in its output."""
    is_alive: bool = False
    """The process waits for another prompt: a two-way conversation outlives a run."""
    turn: Literal["", "completed", "failed", "interrupted"] = ""
    """How the turn ended by the protocol of a two-way conversation; the exit code says nothing then."""
    earlier_usage: Usage | None = None
    """What earlier runs of the agent's session have used, where the agent counts whole sessions and that is known."""
    outcome: Outcome | None = None
    """How the run ended, where it is read from the agent's own store: its process was not seen."""


class RawRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="request"
):
    """A request that the agent made through a gateway; its answer is the `RawResponse` that follows."""

    at_ms: int
    """When it arrived."""
    id: int
    """From 1, in the order of arrival."""
    method: str
    path: str
    """With its query, without keys."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """Names in small letters. Values of those that may hold a secret are `***`."""
    wire: str = ""
    """The model API; empty: none has such a route."""
    purpose: str = msgspec.field(default="", name="for")
    """answer, count, models or compact; empty: something else."""
    model: str = ""
    """The one that was asked for."""
    conversation: str = ""
    """The same for all calls of one conversation."""
    step: int = 0
    """Which answer of its conversation this is, from 1; a call that failed has the step of the one that repeats it."""
    tools: str = ""
    """A digest of the tools that are offered."""
    tool_count: int = 0
    body_size: int = 0
    """Of the whole body."""
    new_size: int = 0
    """How much of it is not in the one that it is stored as a difference from."""
    of: int = 0
    """The request whose body this one is stored as a difference from; 0: it is stored whole."""
    prefix: int = 0
    """So many bytes at the beginning are those of that body,"""
    suffix: int = 0
    """and so many at the end."""
    is_masked: bool = False
    """A secret was masked in the body."""
    is_unreadable: bool = False
    """The body is packed in a way that cannot be unpacked here."""
    size: int = 0
    data: bytes = b""
    """What is between prefix and suffix, compressed (zlib; with a dictionary, see `gateway/bodies.py`)."""


class RawResponse(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="response"
):
    """How a `RawRequest` was answered: as much of the answer as there was."""

    at_ms: int
    id: int
    """That of its request."""
    status: int
    """0: the connection was closed without an answer."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    took_ms: int = 0
    first_ms: int = 0
    """From the request to the first byte of the content."""
    origin: str = "provider"
    """provider, recording, translated, script or gateway."""
    differs: list[str] = msgspec.field(default_factory=list)
    """Of an answer from a recording: how the request differs from the recorded one."""
    is_cut: bool = False
    """It broke off."""
    is_client_gone: bool = False
    """The agent did not wait for its end."""
    is_masked: bool = False
    """A secret was masked in the content."""
    body_size: int = 0
    size: int = 0
    data: bytes = b""
    """The content, compressed (zlib)."""


RawCall: TypeAlias = RawRequest | RawResponse
RawEntry: TypeAlias = RawStart | RawOutput | RawInput | RawEvent | RawControl | RawCall | RawExit

_Head: TypeAlias = RawStart | RawEvent | RawControl | RawCall | RawExit
_encode = msgspec.json.Encoder().encode


def _encoded(entry: RawEntry) -> bytes:
    try:
        return _encode(entry)
    except codec.UNENCODABLE:  # a folder or an argument whose bytes are no text
        return _encode(codec.storable(entry))


@cache
def _head_decoder() -> Callable[[bytes], _Head]:
    """Made when a record is first read, as are the next: a run only writes."""
    return msgspec.json.Decoder(_Head).decode


@cache
def _output_head() -> re.Pattern[bytes]:
    return re.compile(rb'\{"kind":"(stdout|stderr|stdin)","at_ms":(\d+),"size":(\d+)\}')


class RawWriter:
    """Appends entries to `<id>.raw`, each with one write."""

    suffix: ClassVar[str] = ".raw"

    def __init__(self, path: str) -> None:
        self._fd = open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, entry: RawEntry) -> None:
        """Raises OSError when the disk refuses; the entry is then not in the file at all."""
        if isinstance(entry, RawOutput | RawInput):
            stream = entry.stream.encode() if isinstance(entry, RawOutput) else b"stdin"
            head = b'{"kind":"%b","at_ms":%d,"size":%d}\n' % (stream, entry.at_ms, len(entry.data))
            append_all(self._fd, (head, entry.data, b"\n"))
        elif isinstance(entry, RawRequest | RawResponse):
            head = _encoded(replace(entry, data=b"", size=len(entry.data)))
            append_all(self._fd, (head, b"\n", entry.data, b"\n") if entry.data else (head, b"\n"))
        else:
            append_all(self._fd, (_encoded(entry), b"\n"))

    def close(self) -> None:
        os.close(self._fd)


def read_raw(path: str) -> Iterator[RawEntry]:
    """The entries of a raw file, in order; what a crash cut off at the end is left out."""
    for entry, _end in entries_with_ends(path):
        yield entry


def entries_with_ends(path: str) -> Iterator[tuple[RawEntry, int]]:
    """Each entry with the offset at which it ends.

    A damaged head costs its own entry only: reading continues at the next line that is a head.
    """
    with open(path, "rb") as file:
        for line in iter(file.readline, b""):
            if (head := _output_head().fullmatch(line.rstrip(b"\n"))) is not None:
                data = _read_block(file, int(head[3]))
                if data is None:
                    return
                yield _block(head[1], int(head[2]), data), file.tell()
            elif line.startswith(b'{"kind":"') and line.endswith(b"\n"):
                try:
                    entry = _head_decoder()(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue
                if isinstance(entry, RawRequest | RawResponse) and entry.size:
                    data = _read_block(file, entry.size)
                    if data is None:
                        return
                    entry = replace(entry, data=data)
                yield entry, file.tell()


def _block(stream: bytes, at_ms: int, data: bytes) -> RawOutput | RawInput:
    if stream == b"stdin":
        return RawInput(at_ms=at_ms, data=data)
    return RawOutput(at_ms=at_ms, stream="stdout" if stream == b"stdout" else "stderr", data=data)


def _read_block(file: BinaryIO, size: int) -> bytes | None:
    """The bytes after a head; None when they were cut off at the end of the file.

    A size that does not lead to the end of a line was damaged: then the block reaches to the next head.
    """
    start = file.tell()
    data = file.read(size + 1)
    if len(data) == size + 1 and data.endswith(b"\n"):
        return data[:-1]
    file.seek(start)
    lines: list[bytes] = []
    for line in iter(file.readline, b""):
        if _is_head(line):
            file.seek(-len(line), os.SEEK_CUR)
            return b"".join(lines)[:-1]
        lines.append(line)
    return None


def _is_head(line: bytes) -> bool:
    if _output_head().fullmatch(line.rstrip(b"\n")) is not None:
        return True
    try:
        _head_decoder()(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
