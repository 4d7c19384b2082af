"""The whole of Harness on a fresh machine: its own agent finds and fixes a mistake in a small project.

Files, tools and commands are real, in the folder `.demo`, which is made anew each time. Only the model is scripted
(`demo_model.toml`), so that no key and no network are needed. `make demo MODEL=local` lets a real small model
answer instead, in this process; it is good for a sentence, not for work.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HARNESS = Path(sys.executable).parent / "harness"

NEXT = """
Now try:
  {harness} sessions path last                       where its log is
  {harness} sessions show last --format activity     what it did to the machine
  {harness} sessions show last --format ndjson       the same as a program reads it
  {harness} sessions show last --format mermaid      the conversation as a graph
  {harness} sessions replay last                     once more, with its timing
  {harness} agents                                   which agents are installed here
  {harness} run --agent claude --prompt "…"          a run of your own
"""


def main(model: str) -> int:
    prompt = "The check of this project fails. Find out why and fix it."
    if model == "scripted":
        model = f"scripted/{os.path.relpath(HERE / 'demo_model.toml')}"
    else:
        prompt = "Say in one sentence what a shopping cart is."
    if model == "local":
        if status := _harness("models", "fetch", "local"):
            return status
        model = "local/smollm2"
    workspace = HERE.parent / ".demo" / "shop"
    shutil.rmtree(workspace, ignore_errors=True)
    shutil.copytree(HERE / "shop", workspace)
    words = ["run", "--agent", "native", "--model", model, "--cwd", os.path.relpath(workspace)]
    if status := _harness(*words, "--format", "pretty", "--prompt", prompt):
        return status
    if status := _harness("sessions", "diff", "last"):
        return status
    print(NEXT.format(harness=_shown()))
    return 0


def _harness(*words: str) -> int:
    """Run it, and show the command first: it can be copied."""
    print(f"\n$ {_shown()} {shlex.join(words)}\n", flush=True)
    return subprocess.run([HARNESS, *words], check=False).returncode


def _shown() -> str:
    return shlex.quote(os.path.relpath(HARNESS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "scripted"))
