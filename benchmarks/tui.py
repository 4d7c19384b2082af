"""What `harness tui` costs: the first screen, many runs that write, a key, and a long conversation.

usage: python benchmarks/tui.py [--sessions 5000] [--runs 50] [--seconds 10] [--events 20000]

The program runs on a terminal of 120 × 40 and is a process of its own; CPU is that of its process. A key is `j` or `k`:
the time until the terminal gets something new.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from statistics import median
from typing import Self

from harness.events import Event, Message, SessionStart, TextDelta, ToolEnd, ToolStart
from harness.events.operation import Command
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore

sys.path.insert(0, str(Path(__file__).parent))

from measuring import cpu_of, cpu_of_process, size
from sessions_list import PROGRAM, record

DELTAS_PER_S = 20
KEYS = size(40, 1)


class Screen:
    """`harness tui` on a terminal."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        environ = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "XDG_DATA_HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "HARNESS_LOG_DIRECTORY": str(folder / "sessions"),
            "TERM": "xterm-256color",
        }
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = subprocess.Popen([*PROGRAM, "tui"], env=environ, start_new_session=True, **streams)
        os.close(theirs)
        self._ours = ours
        self.raw = b""
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._ours, 65_536)
            except OSError:
                return
            with self.changed:
                self.raw += block
                self.changed.notify_all()

    def until(self, text: bytes) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: text in self.raw, 60):
                raise TimeoutError(self.raw[-500:])

    def press(self, key: bytes) -> float:
        """Seconds until something new is drawn."""
        with self.changed:
            before = len(self.raw)
            start = time.perf_counter()
            os.write(self._ours, key)
            self.changed.wait_for(lambda: len(self.raw) > before, 5)
            return time.perf_counter() - start

    @property
    def cpu_s(self) -> float:
        return cpu_of_process(self.process.pid)


class Runs:
    """Sessions of this process that write all the time."""

    def __init__(self, folder: Path, count: int) -> None:
        store = FileStore(str(folder))
        self._hubs = []
        for number in range(count):
            id = new_run_id(time.time_ns() // 1_000_000)
            metadata = Metadata(
                session_id=id, agent_name="claude", prompt=f"run {number}", cwd="/home/me/live"
            )
            hub = Hub(store, id, store.create(metadata))
            hub.source(id).append([SessionStart(agent="claude", model="m"), Message(role="user", text="go")])
            self._hubs.append((id, hub))
        self._is_over = False
        self._thread = threading.Thread(target=self._write, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_over = True
        self._thread.join()
        for _, hub in self._hubs:
            hub.close()

    def _write(self) -> None:
        """Each in turn, so that they write evenly."""
        pause_s = 1 / DELTAS_PER_S / len(self._hubs)
        at_s = time.perf_counter()
        while not self._is_over:
            for id, hub in self._hubs:
                hub.source(id).append([TextDelta(id="t", text="some more words ")])
                at_s += pause_s
                time.sleep(max(0.0, at_s - time.perf_counter()))


def long_log(count: int) -> list[Event]:
    """Text in pieces, and a call now and then."""
    events: list[Event] = [SessionStart(agent="claude", model="m"), Message(role="user", text="a long task")]
    while len(events) < count:
        turn = len(events)
        events += [TextDelta(id=f"t{turn}", text="some words of an answer, in pieces ") for _ in range(16)]
        events.append(
            Message(role="assistant", id=f"t{turn}", text="some words of an answer, in pieces " * 16)
        )
        command = [Command(command="python3 -m pytest -q tests")]
        events.append(ToolStart(call_id=f"c{turn}", tool_name="Bash", operations=command))
        events.append(ToolEnd(call_id=f"c{turn}", tool_name="Bash", success=True, output="passed\n" * 20))
    return events[:count]


def read_conversation(count: int) -> float:
    """CPU seconds to make all lines of a log, and to draw a screen of them after every 100 events."""
    from harness.tui.lines import COLOURED, parts_of, strip_of
    from harness.tui.transcript_lines import TranscriptLines

    events = long_log(count)

    def work() -> None:
        text = TranscriptLines(80)
        for start in range(0, count, 100):
            text.feed(events[start : start + 100])
            for line in text.lines[-30:]:
                strip_of(parts_of(line), 82, COLOURED)

    return cpu_of(work)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--events", type=int, default=20_000)
    arguments = parser.parse_args()
    print(f"conversation, {arguments.events:,} events:  {read_conversation(arguments.events):.2f} CPU-s")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record(folder / "sessions", arguments.sessions)
        for at in ("first time", "again"):
            with Screen(folder) as screen:
                screen.until(b"EARLIER")
                print(f"first screen, {arguments.sessions:,} sessions, {at}:  {screen.cpu_s:.2f} CPU-s")
                screen.until(b"today") if at == "first time" else None
        runs = Runs(folder / "sessions", arguments.runs)
        runs.begin()
        try:
            with Screen(folder) as screen:
                screen.until(f"RUNNING {arguments.runs}".encode())
                time.sleep(size(3.0, 0.1))
                before = screen.cpu_s
                time.sleep(arguments.seconds)
                share = 100 * (screen.cpu_s - before) / arguments.seconds
                print(f"{arguments.runs} runs × {DELTAS_PER_S} deltas/s:  {share:.1f} % of a core")
        finally:
            runs.close()
        with Screen(folder) as screen:
            screen.until(b"EARLIER")
            time.sleep(size(3.0, 0.1))
            taken, before = [], screen.cpu_s
            for number in range(KEYS):
                taken.append(screen.press(b"j" if number % 8 < 4 else b"k") * 1000)
                time.sleep(0.3)
            each_ms = 1000 * (screen.cpu_s - before) / KEYS
            slowest = f"the slowest {max(taken):.0f} ms"
            print(
                f"key to screen:  {median(taken):.0f} ms, {slowest}; with its conversation {each_ms:.0f} ms CPU"
            )


if __name__ == "__main__":
    main()
