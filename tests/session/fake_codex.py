"""A program that speaks like Codex, for tests in which two programs take turns. It notes how it was called in the
file `$FAKE_NOTES`, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import sys

SESSION = "0199f3a4-1d5b-7a3c-9c1e-2f6b8d7e5a10"


def say(**record: object) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write("codex-cli 0.98.0\n")
        return 0
    prompt = sys.stdin.read() if not sys.stdin.isatty() else ""
    with open(os.environ["FAKE_NOTES"], "a", encoding="utf-8") as notes:
        notes.write(json.dumps({"arguments": arguments, "prompt": prompt}) + "\n")
    say(type="thread.started", thread_id=SESSION)
    say(type="turn.started")
    say(type="item.completed", item={"id": "item_0", "type": "agent_message", "text": "Codex has done it."})
    say(type="turn.completed", usage={"input_tokens": 3, "cached_input_tokens": 0, "output_tokens": 2})
    return 0


raise SystemExit(main())
