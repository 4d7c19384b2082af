"""A signal is handled while the main thread waits for a run, also one that did not wake it.

The kernel gives a signal to any thread that takes it, and one that arrives right before the main thread begins to wait does
not wake it either. Here it is kept from the main thread for certain.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.contracts.request import Request
from harness.events import ToolStart
from harness.log.hub import Hub
from harness.log.store import Metadata, read_all
from harness.log.stores.memory import MemoryStore
from harness.runs.run import start

SCRIPT = 'turns = [[{ tool = "bash", input = { command = "sleep 30" } }], [{ text = "Done." }]]\n'


@contextmanager
def _handled_elsewhere(handle: Callable[[], object], is_ready: Callable[[], object]) -> Iterator[None]:
    """The signal comes when it is ready; some thread that is not the main one takes it."""
    done = threading.Event()

    def send() -> None:
        while not is_ready() and not done.wait(0.02):
            pass
        done.wait(0.2)  # by now the main thread waits
        os.kill(os.getpid(), signal.SIGUSR1)
        done.wait()

    before = signal.signal(signal.SIGUSR1, lambda *_: handle())
    sender = threading.Thread(target=send)
    sender.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        yield
    finally:
        done.set()
        sender.join()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        signal.signal(signal.SIGUSR1, before)


def test_while_events_are_awaited() -> None:
    store = MemoryStore()
    hub = Hub(store, "log", store.create(Metadata(session_id="log")))
    in_vain = threading.Timer(60, hub.close)
    in_vain.start()
    with _handled_elsewhere(hub.close, lambda: True):
        assert [*hub.batches()] == []
    assert in_vain.is_alive()
    in_vain.cancel()


def test_while_the_end_of_a_run_is_awaited(tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text(SCRIPT)
    store = MemoryStore()
    request = Request(
        agent="native", model=f"scripted/{tmp_path}/script.toml", prompt="Go.", cwd=str(tmp_path)
    )
    run = start(request, store=store)
    with _handled_elsewhere(run.cancel, lambda: _has_called(store, run.log_id)):
        assert run.wait().outcome == "interrupted"


def _has_called(store: MemoryStore, log_id: str) -> bool:
    return any(isinstance(event, ToolStart) for event in read_all(store, log_id))
