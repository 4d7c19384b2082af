"""Which fields an agent's records have had so far, so that new ones are noticed.

`known/<agent>.json` maps each kind of record to the paths of its fields; `docs/known_fields.py` writes it
from recordings. Only the doctor reads it: a translator never minds a field that it does not know.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from harness.sources.registry import load
from harness.sources.translator import Translator

KnownFields: TypeAlias = dict[str, list[str]]

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "known")
_DEEPEST = 4
_FREE = frozenset(
    [
        "args",
        "arguments",
        "env",
        "input",
        "inputs",
        "metadata",
        "parameters",
        "rawInput",
        "rawOutput",
        "schema",
        "tool_input",
    ]
)
"""What tools take and give has any shape: it is not looked into."""
_NAME = re.compile(r"[A-Za-z_$@][A-Za-z_]*\d?")
_LONGEST_NAME = 40


def load_known(agent: str) -> KnownFields:
    """Empty for an agent of which there are no recordings: then no field is called unknown."""
    try:
        with open(os.path.join(FOLDER, f"{agent}.json"), "rb") as file:
            return msgspec.json.decode(file.read(), type=KnownFields)
    except OSError:
        return {}


def records_in(stdout: bytes) -> Iterator[dict[str, Any]]:
    for line in stdout.split(b"\n"):
        if line.lstrip().startswith(b"{"):
            try:
                record = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if isinstance(record, dict):
                yield record


def paths_of(record: dict[str, Any]) -> set[str]:
    """`message.content[].text` and so on. Keys that are data (ids, file names) count as `*`."""
    return set(_paths(record, "", 1))


def _paths(value: Any, above: str, depth: int) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _paths(item, f"{above}[]", depth)
    elif isinstance(value, dict) and depth <= _DEEPEST:
        for key, inner in value.items():
            is_name = len(key) <= _LONGEST_NAME and _NAME.fullmatch(key)
            path = f"{above}.{key if is_name else '*'}".lstrip(".")
            yield path
            if key not in _FREE:
                yield from _paths(inner, path, depth + 1)


def collect(agent: str, recordings: Iterable[bytes], known: KnownFields | None = None) -> KnownFields:
    """What these recordings have, added to what was known."""
    found = {kind: set(paths) for kind, paths in (known or {}).items()}
    translator = load(agent).translator()
    for stdout in recordings:
        for record in records_in(stdout):
            found.setdefault(_kind(translator, record), set()).update(paths_of(record))
    return {kind: sorted(paths) for kind, paths in sorted(found.items())}


class UnknownField(msgspec.Struct, frozen=True):
    """A field that no recording has."""

    kind: str
    path: str
    example: str


def unknown_fields(agent: str, stdout: bytes, known: KnownFields) -> list[UnknownField]:
    """Each once, with the first record that has it."""
    translator = load(agent).translator()
    found: dict[tuple[str, str], UnknownField] = {}
    for record in records_in(stdout):
        kind = _kind(translator, record)
        if kind not in known:
            continue
        new = paths_of(record) - set(known[kind])
        for path in sorted(new):
            if path.rpartition(".")[0] in new:
                continue  # what is new above it says enough
            text = msgspec.json.encode(record).decode()[:300]
            found.setdefault((kind, path), UnknownField(kind, path, text))
    return list(found.values())


def _kind(translator: Translator, record: dict[str, Any]) -> str:
    try:
        return translator.kind(record)
    except Exception:
        return ""  # no agent writes such a record, and the run has reported it
