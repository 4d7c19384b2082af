"""What sessions that other programs have stored cost: first reading, lists, usage, search, growth; beside ccusage.

usage: python benchmarks/histories.py [--sessions 1000] [--bytes 200000] [--big 200] [--rounds 3] [--no-ccusage]

A made-up home (tests/histories/stored_corpus.py) with sessions of Claude and Codex is written below /var/tmp and
removed afterwards; 10,000 sessions are 2 GB. `--big`: the size in MB of one more session, for memory. ccusage is
installed from npm into the same folder. Every figure is CPU of a whole process, start-up included, but for "grown".
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "histories"))

from measuring import cpu_of_command, environment, least

from stored_corpus import Corpus

HARNESS = [sys.executable, "-c", "from harness.cli.main import entry; entry()"]
CCUSAGE = "ccusage@20.0.24"
PEAK = """
import json, sys, time
from harness.cli.main import main
code = main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) / 1024, file=sys.stderr)
"""
GROWN = """
import sys, time
from harness.histories.catalogue import Catalogue
from harness.contracts.history import Home
from harness.histories.registry import load_all
catalogue, home = Catalogue(sys.argv[1], load_all()), Home(sys.argv[2])
catalogue.refresh(home)
from harness.histories.catalogue_filter import SessionFilter
(session,) = catalogue.sessions(SessionFilter(only_unread=True))
before = time.process_time()
catalogue.read([session])
print(time.process_time() - before)
"""


class Measured:
    def __init__(self, folder: Path, rounds: int) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.rounds = rounds
        places = {"HOME": self.home, "XDG_DATA_HOME": folder / "data", "XDG_CACHE_HOME": folder / "cache"}
        self.env = {**environment(), **{name: str(path) for name, path in places.items()}}
        self.env |= {"XDG_CONFIG_HOME": str(folder / "config"), "TZ": "UTC"}

    def cpu(self, *words: str) -> float:
        command = ["sh", "-c", 'exec "$@" 2>/dev/null', "sh", *HARNESS, *words]
        return cpu_of_command(command, self.env)

    def again(self, *words: str) -> float:
        return least(self.rounds, lambda: self.cpu(*words))

    def peak_mb(self, *words: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", PEAK, *words], env=self.env, capture_output=True, text=True, check=True
        )
        return float(done.stderr.strip().splitlines()[-1])

    def start(self) -> float:
        """What any command costs before it does anything."""
        return cpu_of_command([sys.executable, "-c", "import argparse, msgspec, sqlite3"], self.env)

    def index(self) -> Path:
        return next(self.folder.glob("cache/**/histories.sqlite"))

    def grown_s(self) -> float:
        """A session has grown by 1 MB: its new bytes are read."""
        path = max(self.home.glob(".claude/projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
        lines = path.read_bytes().splitlines(keepends=True)
        more = b"".join(lines[2:])[-1_000_000:].partition(b"\n")[2]
        with path.open("ab") as file:
            file.write(more.replace(b'"msg_', b'"msg_x'))
        words = [sys.executable, "-c", GROWN, str(self.index()), str(self.home)]
        return float(subprocess.run(words, env=self.env, capture_output=True, check=True).stdout)

    def ccusage(self) -> list[str]:
        folder = self.folder / "ccusage"
        command = ["npm", "install", "--include=optional", "--silent", "--prefix", str(folder), CCUSAGE]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [str(folder / "node_modules/.bin/ccusage"), "daily", "--offline", "--json"]


def add_big(home: Path, megabytes: int) -> None:
    """One more session, as long as asked for, whose tokens are not counted in the truth."""
    source = max(home.glob(".codex/sessions/*/*/*/*.jsonl"), key=lambda path: path.stat().st_size)
    lines = source.read_bytes().splitlines(keepends=True)
    path = source.with_name(source.name[:28] + "ffffffff-0000-4000-8000-000000000000.jsonl")
    body = b"".join(line for line in lines[4:] if b'"token_count"' not in line)
    with path.open("wb") as file:
        file.write(b"".join(lines[:4]))
        for _ in range(megabytes * 1_000_000 // len(body) + 1):
            file.write(body)


def compare(measured: Measured, corpus: Corpus, command: list[str]) -> str:
    """Whether Harness and ccusage say what the corpus holds."""
    names = {"input": "inputTokens", "cache_read": "cacheReadTokens", "cache_write": "cacheCreationTokens"}
    truth: dict[str, int] = {}
    for (*_about, name), count in corpus.truth.items():
        truth[name] = truth.get(name, 0) + count
    ours = json.loads(
        subprocess.run(
            [*HARNESS, "usage", "--json"], env=measured.env, capture_output=True, check=True
        ).stdout
    )["total"]
    said = "equal" if all(ours[name] == count for name, count in truth.items()) else "NOT EQUAL"
    if not command:
        return f"tokens: Harness {said} to the corpus"
    found = json.loads(subprocess.run(command, env=measured.env, capture_output=True, check=True).stdout)[
        "totals"
    ]
    peer = "equal" if all(found[peers] == truth[name] for name, peers in names.items()) else "NOT EQUAL"
    return f"tokens: Harness {said}, ccusage {peer} to the corpus"


def measure(measured: Measured, corpus: Corpus, options: argparse.Namespace) -> None:
    size = sum(path.stat().st_size for path in measured.home.rglob("*.jsonl"))
    print(f"{corpus.sessions} sessions, {size / 1e6:,.0f} MB\n")
    command = [] if options.no_ccusage else measured.ccusage()
    rows: list[tuple[str, str]] = []
    if command:
        rows.append(
            ("ccusage, each time", f"{least(2, lambda: cpu_of_command(command, measured.env)):.2f} s")
        )
    begun = time.monotonic()
    first = measured.cpu("usage")
    wall = time.monotonic() - begun
    rows.append(
        ("first reading (usage)", f"{first:.2f} s, {size / 1e6 / first:,.0f} MB/s; {wall:.1f} s by the clock")
    )
    rows.append(("Python with msgspec and sqlite3", f"{least(measured.rounds, measured.start):.3f} s"))
    rows.append(("nothing changed: usage", f"{measured.again('usage'):.3f} s"))
    rows.append(("nothing changed: sessions list", f"{measured.again('sessions', 'list'):.3f} s"))
    asked = (["parser", "widget"], ["xyzzy"], ["--command", "ls alph"])
    rows += [
        (f"search {' '.join(words)}", f"{measured.again('sessions', 'search', *words):.3f} s")
        for words in asked
    ]
    index = sum(path.stat().st_size for path in measured.folder.glob("cache/**/histories.sqlite*"))
    rows.append(("index", f"{index / 1e6:.1f} MB, {index / size:.1%} of the stores"))
    verdict = compare(measured, corpus, command)
    rows.append(("one session grown by 1 MB", f"{measured.grown_s():.3f} s"))
    if options.big:
        add_big(measured.home, options.big)
        rows.append((f"memory, one more session of {options.big} MB", f"{measured.peak_mb('usage'):.0f} MB"))
    width = max(len(name) for name, _value in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    print(f"\n{verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--bytes", type=int, default=200_000, help="of a session, on average")
    parser.add_argument("--big", type=int, default=200, help="MB of one more session; 0: none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-ccusage", action="store_true")
    options = parser.parse_args()
    place = "/var/tmp" if os.path.isdir("/var/tmp") else None
    folder = Path(tempfile.mkdtemp(prefix="harness-histories-", dir=place))
    try:
        corpus = Corpus(folder / "home", mean_bytes=options.bytes)
        corpus.fill(options.sessions)
        measure(Measured(folder, options.rounds), corpus, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
