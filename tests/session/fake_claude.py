"""A program that speaks like Claude Code, for tests of sessions that are backed by a program.

It notes how it was called in the file `$FAKE_NOTES`, one JSON object a line, and answers to its prompt: `slow` in
it makes it sit there after its first words, `fail` makes it end badly.
"""

from __future__ import annotations

import json
import os
import sys
import time

SESSION = "5a493fb5-b26f-43a3-abfc-79ac63502f36"


def say(**record: object) -> None:
    sys.stdout.write(json.dumps({**record, "session_id": SESSION}) + "\n")
    sys.stdout.flush()


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write("2.1.325 (Claude Code)\n")
        return 0
    prompt = sys.stdin.read() if not sys.stdin.isatty() else ""
    with open(os.environ["FAKE_NOTES"], "a", encoding="utf-8") as notes:
        notes.write(json.dumps({"arguments": arguments, "prompt": prompt}) + "\n")
    asked = " ".join([*arguments, prompt])
    say(type="system", subtype="init", cwd=os.getcwd(), tools=["Bash"], model="claude-test")
    said = prompt.rpartition("</conversation-briefing>")[2].strip()
    words = [{"type": "text", "text": f"You said {said!r}."}]
    say(
        type="assistant", message={"id": "m1", "role": "assistant", "content": words}, parent_tool_use_id=None
    )
    if "slow" in asked:
        time.sleep(60)
    is_error = "fail" in asked
    subtype = "error_during_execution" if is_error else "success"
    usage = {"input_tokens": 3, "output_tokens": 2}
    result = "" if is_error else words[0]["text"]
    say(type="result", subtype=subtype, is_error=is_error, result=result, usage=usage, num_turns=1)
    return 1 if is_error else 0


raise SystemExit(main())
