"""A whole run without an agent, a key or a network: Claude Code fixes a test, as it was once recorded.

The recording is played by a small program as a live process, so that everything after it is real: the
supervised process, the translation, the log on disk, the view on your screen.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

RECORDING = Path(__file__).parent / "recording" / "stdout.jsonl"
HARNESS = Path(sys.executable).parent / "harness"

NEXT = """
Now try:
  {harness} sessions show last --format activity     what it did to the machine
  {harness} sessions show last --format ndjson       the same as a program reads it
  {harness} sessions path last                       where its log is
  {harness} sessions check last                      the proof that nothing was lost
  {harness} sessions replay last                     once more, with its timing
  {harness} agents                                   which agents are installed here
  {harness} run --agent claude --prompt "…"          a run of your own
"""


def main() -> int:
    words = [
        "run",
        "--agent",
        "replay",
        "--recording",
        str(RECORDING),
        "--format",
        "pretty",
        "--name",
        "demo",
    ]
    command = [str(HARNESS), *words, "--", "--speed", "0.4"]
    shown = os.path.relpath(HARNESS)
    print(f"$ {shown} run --agent replay --recording {os.path.relpath(RECORDING)}\n", flush=True)
    status = os.spawnv(os.P_WAIT, command[0], command)
    if status == 0:
        print(NEXT.format(harness=shown))
    return status


if __name__ == "__main__":
    sys.exit(main())
