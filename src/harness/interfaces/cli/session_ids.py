"""Which session is meant: `last`, a whole id, or as much of its beginning as is needed.

No name leads anywhere but to a session of the store: an id is looked up in the folder's listing, and
never made into a path before it was found there.
"""

from __future__ import annotations

import os
import re

from harness.errors import StoreError, UnknownSession
from harness.log.ids import is_log_id, is_run_id
from harness.log.stores.files import FileStore

LAST = "last"
_LOG_SUFFIX = ".ndjson"
_BEGINNING = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SHORTEST = 8
_LONGEST_SHOWN = 60


def all_ids(store: FileStore) -> list[str]:
    """The newest first; then those whose ids an application made, which say nothing of time."""
    try:
        entries = os.listdir(store.directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"cannot list {store.directory}: {error.strerror}") from error
    ids = (entry.removesuffix(_LOG_SUFFIX) for entry in entries if entry.endswith(_LOG_SUFFIX))
    return sorted(filter(is_log_id, ids), key=lambda log_id: (is_run_id(log_id), log_id), reverse=True)


def find(store: FileStore, text: str) -> str:
    """Raises UnknownSession when it is none, or not only one."""
    known = all_ids(store)
    wanted = text.strip()
    if wanted in known:
        return wanted
    if wanted.lower() == LAST and known:
        return known[0]
    found = _beginning_with(wanted, known) or _beginning_with(wanted.lower(), known)
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(found[:3]) + (" …" if len(found) > 3 else "")
        raise UnknownSession(f"{len(found)} sessions begin with {wanted}: {some}", hint="give more of the id")
    hint = (
        "`harness sessions list` shows what there is"
        if known
        else f"`harness run` makes one; looked in {store.directory}"
    )
    if wanted.lower() == LAST:
        raise UnknownSession("there is no session yet", hint=hint)
    shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
    raise UnknownSession(f"unknown session: {shown!r}", hint=hint)


def _beginning_with(wanted: str, known: list[str]) -> list[str]:
    return [log_id for log_id in known if log_id.startswith(wanted)] if _BEGINNING.fullmatch(wanted) else []


def abbreviated(log_id: str, known: list[str]) -> str:
    """As short as it can be and still mean one session. `known`: as `all_ids` gives them."""
    position = known.index(log_id)
    neighbours = [*known[max(0, position - 1) : position], *known[position + 1 : position + 2]]
    length = _SHORTEST
    while any(other.startswith(log_id[:length].rstrip("-")) for other in neighbours):
        length += 1
    return log_id[:length].rstrip("-")
