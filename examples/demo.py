"""The whole of Harness on a fresh machine: its own agent finds and fixes a mistake in a small project.

Files, tools and commands are real, in a folder of their own that is thrown away afterwards. Only the model
is scripted (`demo_model.toml`), so that no key and no network are needed. `make demo MODEL=local` lets a real
small model answer instead, in this process; it is good for a sentence, not for work.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
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
    shown = os.path.relpath(HARNESS)
    if model == "scripted":
        model, prompt = (
            f"scripted/{HERE / 'demo_model.toml'}",
            "The check of this project fails. Find out why and fix it.",
        )
    else:
        prompt = "Say in one sentence what a shopping cart is."
    if model == "local":
        fetch = [str(HARNESS), "models", "fetch", "local"]
        if status := os.spawnv(os.P_WAIT, HARNESS, fetch):
            return status
        model = "local/smollm2"
    with tempfile.TemporaryDirectory() as folder:
        workspace = shutil.copytree(HERE / "shop", Path(folder) / "shop")
        words = ["run", "--agent", "native", "--model", model, "--prompt", prompt]
        print(f'$ {shown} run --agent native --prompt "{prompt}"\n', flush=True)
        options = ["--cwd", str(workspace), "--format", "pretty", "--name", "demo"]
        status = os.spawnv(os.P_WAIT, HARNESS, [str(HARNESS), *words, *options])
    if status == 0:
        print(NEXT.format(harness=shown))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "scripted"))
