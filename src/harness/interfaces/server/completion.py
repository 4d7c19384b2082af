"""Logs whose process died are completed before anybody reads them."""

from __future__ import annotations

from harness.errors import HarnessError
from harness.log.store import Store
from harness.log.stores.files import FileStore
from harness.session.bound import folded
from harness.sources.audit import recover, recover_thread


def complete(store: Store, log_id: str) -> None:
    """End the runs of a log whose process died, in the log itself; a run that waits for an answer waits on."""
    try:
        metadata = store.metadata(log_id)
        if metadata.kind == "thread":
            if recover_thread(store, log_id):
                metadata.outcome = folded(store, log_id).facts.last_outcome
                metadata.success = metadata.outcome == "completed"
                store.save_metadata(metadata)
        elif isinstance(store, FileStore):
            recover(store, log_id)
    except (HarnessError, OSError):
        return  # it is being written after all, or cannot be: then it is only shown as interrupted
