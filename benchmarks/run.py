"""Measures Harness, always beside something else in the same run: compare the ratios, not the seconds.

usage: python benchmarks/run.py [throughput] [start-up] [memory] [huge-line]      (default: all)
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from corpus import claude_lines, write_recording
from measuring import cpu_of_children, cpu_of_command, environment, least_in_turn, memory_mb, size

HARNESS = str(Path(sys.executable).parent / "harness")
PLAYER = str(Path(__file__).parents[1] / "src/harness/agents/replay/program.py")
LINES = size(50_000, 20)
PIPE_BYTES = 1024 * 1024
END = '{"type":"result","subtype":"success","is_error":false,"result":"done"}\n'
DECODE = "import sys,msgspec\nd=msgspec.json.decode\nfor l in open(sys.argv[1],'rb'): d(l)"


def piped_cpu_s(command: list[str]) -> float:
    """CPU of a program that writes into a pipe, as an agent does; that of its reader is not counted."""
    before = cpu_of_children()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        reader = process.stdout.fileno()
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        while os.read(reader, PIPE_BYTES):
            pass
    return cpu_of_children() - before


def run_of(recording: Path, *options: str) -> list[str]:
    return [
        HARNESS,
        "run",
        "--agent",
        "replay",
        "--recording",
        str(recording),
        "--format",
        "ndjson",
        *options,
        "--",
        "--fast",
    ]


def player_of(recording: Path, *options: str) -> list[str]:
    return [sys.executable, "-I", "-S", PLAYER, str(recording), *options]


def environment_of_runs(folder: Path) -> dict[str, str]:
    keys = {f"SERVICE_{number}_API_KEY": f"planted-secret-value-{number:04d}" for number in range(12)}
    return {
        **environment(),
        **keys,
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


def throughput(folder: Path) -> None:
    recording = write_recording(folder / "throughput", claude_lines(LINES))
    env = environment_of_runs(folder)
    results = least_in_turn(
        size(5, 1),
        {
            "jq -c .": lambda: cpu_of_command(["jq", "-c", ".", str(recording)]),
            "decode only (msgspec)": lambda: cpu_of_command([sys.executable, "-c", DECODE, str(recording)]),
            "the player alone": lambda: piped_cpu_s(player_of(recording, "--fast")),
            "harness run": lambda: cpu_of_command(run_of(recording), env),
            "harness run --no-redact": lambda: cpu_of_command(run_of(recording, "--no-redact"), env),
        },
    )
    jq, decode, player = (results[name] for name in ("jq -c .", "decode only (msgspec)", "the player alone"))
    size_mb = recording.stat().st_size / 1e6
    print(
        f"\nWhole path, {LINES:,} lines, {size_mb:.0f} MB: bytes, events, log and raw record on disk, NDJSON out"
    )
    print(f"{'':28}{'CPU s':>8}{'lines/CPU-s':>14}{'vs jq':>8}{'vs decode':>11}")
    for name, seconds in results.items():
        own = seconds - player if name.startswith("harness") else seconds
        print(f"{name:28}{own:8.2f}{LINES / own:14,.0f}{jq / own:7.1f}x{own / decode:10.1f}x")
    print("(harness without the player's own CPU; start-up, both files and the watchdog included)")


def start_up(folder: Path) -> None:
    recording = write_recording(folder / "small", iter([END]))
    env = environment_of_runs(folder)
    results = least_in_turn(
        size(15, 1),
        {
            "python -c pass": lambda: cpu_of_command([sys.executable, "-c", "pass"]),
            "import harness": lambda: cpu_of_command([sys.executable, "-c", "import harness"]),
            "harness --version": lambda: cpu_of_command([HARNESS, "--version"]),
            "the player alone": lambda: piped_cpu_s(player_of(recording)),
            "harness run": lambda: cpu_of_command(run_of(recording), env),
        },
    )
    bare = results["python -c pass"]
    print(f"\nStart-up\n{'':28}{'CPU ms':>8}{'vs python':>11}")
    for name, seconds in results.items():
        print(f"{name:28}{seconds * 1000:8.1f}{seconds / bare:10.1f}x")
    print(
        f"harness run adds {(results['harness run'] - results['the player alone']) * 1000:.0f} ms CPU to the program it runs"
    )


def memory(folder: Path) -> None:
    print(
        f"\nMemory: resident size of harness while it runs\n{'events':>12}{'at 10 %':>12}{'at the end':>12}"
    )
    for count in size((100_000, 1_000_000), (20,)):
        delta = '{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%d"}}}\n'
        lines = itertools.chain((delta % number for number in range(count)), [END])
        recording = write_recording(folder / f"memory{count}", lines)
        early, last = _resident(recording, environment_of_runs(folder))
        print(f"{count:12,}{early:10.0f} MB{last:10.0f} MB")


def _resident(recording: Path, env: dict[str, str]) -> tuple[float, float]:
    """Resident size when a tenth of the log is written, and the most of the last tenth."""
    process = subprocess.Popen(run_of(recording, "--no-redact"), stdout=subprocess.DEVNULL, env=env)
    samples: list[float] = []

    def sample() -> None:
        while process.poll() is None:
            samples.append(memory_mb(process.pid))
            time.sleep(0.05)

    watcher = threading.Thread(target=sample)
    watcher.start()
    process.wait()
    watcher.join()
    samples = [sample for sample in samples if sample] or [0.0]
    return samples[len(samples) // 10], max(samples[-max(1, len(samples) // 10) :])


def huge_line(folder: Path) -> None:
    length = size(100_000_000, 1_000)
    text = "x" * length
    line = (
        '{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'
        + text
        + '"}}}\n'
    )
    recording = write_recording(folder / "huge", iter([line, END]))
    command = run_of(recording)
    before = cpu_of_children()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment_of_runs(folder))
    peak_mb = 0.0
    while process.poll() is None:
        peak_mb = max(peak_mb, memory_mb(process.pid, peak=True))
        time.sleep(0.005)
    used = cpu_of_children() - before
    print(
        f"\nOne line of {length / 1e6:.0f} MB, secrets masked: {used:.2f} CPU-s with the player, {peak_mb * 2**20 / length:.1f}x its size resident"
    )


PARTS = {"throughput": throughput, "start-up": start_up, "memory": memory, "huge-line": huge_line}


def main(wanted: list[str]) -> int:
    if "throughput" in (wanted or PARTS) and shutil.which("jq") is None:
        print("jq is not installed: install it to compare with it", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in PARTS.items():
            if not wanted or name in wanted:
                measure(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
