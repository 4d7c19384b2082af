"""A program that speaks like Codex, for tests in which two programs take turns. It notes how it was called in the
file `$FAKE_NOTES`, one JSON object a line. As the version `$FAKE_VERSION` says, it takes one prompt, or holds a conversation
(`codex app-server`), in which it asks before it runs a command.
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
        sys.stdout.write(f"codex-cli {os.environ.get('FAKE_VERSION', '0.98.0')}\n")
        return 0
    if "app-server" in arguments:
        return converse()
    prompt = sys.stdin.read() if not sys.stdin.isatty() else ""
    with open(os.environ["FAKE_NOTES"], "a", encoding="utf-8") as notes:
        notes.write(json.dumps({"arguments": arguments, "prompt": prompt}) + "\n")
    say(type="thread.started", thread_id=SESSION)
    say(type="turn.started")
    say(type="item.completed", item={"id": "item_0", "type": "agent_message", "text": "Codex has done it."})
    say(type="turn.completed", usage={"input_tokens": 3, "cached_input_tokens": 0, "output_tokens": 2})
    return 0


def converse() -> int:
    """One turn after the other: a command, if it is allowed, and an answer."""
    for line in sys.stdin:
        record = json.loads(line)
        method, params = record.get("method"), record.get("params", {})
        if method == "initialize":
            say(
                id=record["id"],
                result={"userAgent": "harness/0.166.0", "codexHome": "/", "platformOs": "linux"},
            )
        elif method == "thread/start":
            say(id=record["id"], result={"thread": {"id": SESSION}, "model": "gpt-test"})
        elif method == "turn/start":
            with open(os.environ["FAKE_NOTES"], "a", encoding="utf-8") as notes:
                notes.write(json.dumps({"prompt": params["input"][0]["text"]}) + "\n")
            say(id=record["id"], result={"turn": {"id": "turn"}})
            take_turn()
        elif "id" in record and method:
            say(id=record["id"], result={})
    return 0


def take_turn() -> None:
    command = {"type": "commandExecution", "id": "c1", "command": "make", "cwd": os.getcwd()}
    tell("turn/started", turn={"id": "turn"})
    tell("item/started", item={**command, "status": "inProgress"})
    question = {"threadId": SESSION, "turnId": "turn", "itemId": "c1", "command": "make", "cwd": os.getcwd()}
    say(id=0, method="item/commandExecution/requestApproval", params=question)
    decision = json.loads(sys.stdin.readline())["result"]["decision"]
    is_done = decision == "accept"
    status, output = ("completed", "made") if is_done else ("declined", None)
    tell("item/completed", item={**command, "status": status, "aggregatedOutput": output, "exitCode": 0})
    answer = {"type": "agentMessage", "id": "m1", "text": "It is built." if is_done else "Nothing was built."}
    tell("item/completed", item=answer)
    tell("turn/completed", turn={"id": "turn", "status": "completed"})


def tell(method: str, **params: object) -> None:
    say(method=method, params={"threadId": SESSION, "turnId": "turn", **params})


raise SystemExit(main())
