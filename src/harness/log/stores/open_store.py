"""The store that a text names: a folder, a PostgreSQL database, or memory."""

from __future__ import annotations

import os
import re

from harness.errors import UsageError
from harness.log.store import Store

IN_MEMORY = ":memory:"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_store(where: str) -> Store:
    """The store at `postgresql://…`, `:memory:`, or the path of a folder. Raises UsageError, MissingExtra.

    Nothing is read or connected to before it is needed.
    """
    scheme = _SCHEME.match(where)
    if scheme is not None and scheme[1].lower() in {"postgresql", "postgres"}:
        from harness.log.stores.postgres.store import PostgresStore

        return PostgresStore(where)
    if scheme is not None or not where.strip():
        raise UsageError(f"no such kind of store: {where!r}", hint="postgresql://…, :memory: or a folder")
    if where == IN_MEMORY:
        from harness.log.stores.memory import MemoryStore

        return MemoryStore()
    from harness.log.stores.files import FileStore

    return FileStore(os.path.expanduser(where))
