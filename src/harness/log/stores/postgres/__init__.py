"""The PostgreSQL store: `store.PostgresStore` is the store, the other modules are its parts."""

from __future__ import annotations
