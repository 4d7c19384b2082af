"""Logs whose process died are completed before anybody reads them."""

from __future__ import annotations

from harness.errors import HarnessError
from harness.log.store import Store
from harness.log.stores.files import FileStore
from harness.session.open_thread import folded
from harness.sources.translation.audit import recover, recover_thread


def complete(store: Store, log_id: str) -> None:
    """End the runs of a log whose process died, in the log itself; a run that waits for an answer waits on."""
    try:
        recover_any(store, log_id)
    except (HarnessError, OSError):
        return  # it is being written after all, or cannot be: then it is only shown as interrupted


def recover_any(store: Store, log_id: str) -> bool:
    """The same; False if there was no need. Raises HarnessError, OSError."""
    metadata = store.metadata(log_id)
    if metadata.kind != "thread":
        return isinstance(store, FileStore) and recover(store, log_id)
    has_changed = recover_thread(store, log_id)
    if has_changed or (metadata.activity == "running" and not store.is_live(log_id)):
        facts = folded(store, log_id).facts
        metadata.outcome, metadata.activity = facts.last_outcome, facts.activity
        metadata.success = metadata.outcome == "completed"
        store.save_metadata(metadata)
    return has_changed
