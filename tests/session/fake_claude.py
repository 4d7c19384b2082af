"""A program that speaks like Claude Code, for tests of sessions that are backed by a program.

It notes how it was called in the file `$FAKE_NOTES`, one JSON object a line, and answers to its prompt: `slow` in
it makes it sit there after its first words, `fail` makes it end badly. As the version `$FAKE_VERSION` says, it takes
one prompt, or holds a conversation: there `run` makes it ask for a command, `which` ask a question, `plan` hand in a
plan, `wait` sit there until it is steered or interrupted, `deaf` until it is interrupted, `die` end without a word,
`expired` say that it has no login, and `later` makes it begin another turn by itself. `use NAME JSON` makes it ask for a tool of its MCP server, and call it;
`sneak` the same without asking.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from itertools import count
from typing import Any

CALLS = count(1)
SESSION = "5a493fb5-b26f-43a3-abfc-79ac63502f36"


def say(**record: object) -> None:
    sys.stdout.write(json.dumps({**record, "session_id": SESSION}) + "\n")
    sys.stdout.flush()


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"{os.environ.get('FAKE_VERSION', '2.0.10')} (Claude Code)\n")
        return 0
    if "--input-format" in arguments:
        return converse(arguments)
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


def note(**what: object) -> None:
    with open(os.environ["FAKE_NOTES"], "a", encoding="utf-8") as notes:
        notes.write(json.dumps(what) + "\n")


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    record: dict[str, Any] = json.loads(line)
    request = record.get("request", {})
    if request.get("subtype") == "initialize":
        response = {"subtype": "success", "request_id": record["request_id"], "response": {}}
        say(type="control_response", response=response)
        return receive()
    return record


def ask(tool: str, given: dict[str, Any]) -> dict[str, Any]:
    """What was answered."""
    call_id = f"call-{next(CALLS)}-{os.getpid()}"
    content = [{"type": "tool_use", "id": call_id, "name": tool, "input": given}]
    message = {"id": f"m-{call_id}", "role": "assistant", "content": content}
    say(type="assistant", message=message, parent_tool_use_id=None)
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": call_id}
    say(type="control_request", request_id=0, request=request)
    answer: dict[str, Any] = receive()["response"]["response"]
    block = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": answer.get("message", "done"),
        "is_error": answer["behavior"] == "deny",
    }
    say(type="user", message={"role": "user", "content": [block]}, parent_tool_use_id=None)
    return answer


def use(name: str, given: dict[str, Any], *, asks: bool) -> str:
    """Call a tool of the first server in the file that it was started with; with `asks`, ask before."""
    with open(sys.argv[sys.argv.index("--mcp-config") + 1], "rb") as file:
        [(server, entry)] = json.load(file)["mcpServers"].items()
    if asks and ask(f"mcp__{server}__{name}", given)["behavior"] == "deny":
        return "it was denied"
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": given}}
    headers = {"content-type": "application/json", **entry["headers"]}
    request = urllib.request.Request(entry["url"], json.dumps(call).encode(), headers)
    with urllib.request.urlopen(request) as response:
        last = [line for line in response.read().split(b"\n") if line.startswith(b"data: ")][-1]
    result: dict[str, Any] = json.loads(last.removeprefix(b"data: "))["result"]
    return f"{'failed' if result['isError'] else 'gave'}: {result['content'][0]['text']}"


def turn(text: str) -> str | None:
    """The answer to a prompt; empty when it was interrupted, None when it has ended already."""
    if "die" in text:
        os._exit(9)
    if text.startswith("use "):
        _, name, given = text.split(" ", 2)
        return use(name, json.loads(given), asks=True)
    if text.startswith("sneak "):
        _, name, given = text.split(" ", 2)
        return use(name, json.loads(given), asks=False)
    if "expired" in text:
        content = [{"type": "text", "text": "Not logged in"}]
        message = {"id": "m0", "role": "assistant", "content": content, "model": "<synthetic>"}
        say(type="assistant", message=message, error="authentication_failed", parent_tool_use_id=None)
        say(type="result", is_error=True, subtype="success", result="", usage={}, num_turns=1)
        return None
    if "run" in text:
        ask("Bash", {"command": "make", "description": "build"})
    if "which" in text:
        options = [{"label": "A", "description": ""}, {"label": "B", "description": ""}]
        question = {"question": "Which one?", "header": "Pick", "multiSelect": False, "options": options}
        answer = ask("AskUserQuestion", {"questions": [question]})
        return f"You chose {answer['updatedInput']['answers']['Which one?']}."
    if "plan" in text:
        ask("ExitPlanMode", {"plan": "1. do it"})
    if "deaf" in text:
        while receive().get("request", {}).get("subtype") != "interrupt":
            pass
        return ""
    if "wait" in text:
        record = receive()
        if record["type"] == "control_request":
            response = {"subtype": "success", "request_id": record["request_id"], "response": {}}
            say(type="control_response", response=response)
            return ""
        say(**{**record, "isReplay": True})
        return f"You also said {words_in(record)!r}."
    return f"You said {text!r}."


def words_in(record: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in record["message"]["content"])


def converse(arguments: list[str]) -> int:
    note(arguments=arguments, pid=os.getpid())
    while True:
        record = receive()
        if record["type"] != "user":
            continue
        note(said=words_in(record), parts=[part["type"] for part in record["message"]["content"]])
        say(type="system", subtype="init", cwd=os.getcwd(), tools=["Bash"], model="claude-test")
        answer = turn(words_in(record).rpartition("</conversation-briefing>")[2].strip())
        if answer is None:
            continue
        content = [{"type": "text", "text": answer}]
        if answer:
            message = {"id": f"m{time.monotonic_ns()}", "role": "assistant", "content": content}
            say(type="assistant", message=message, parent_tool_use_id=None)
        end = {"subtype": "success"} if answer else {"subtype": "error_during_execution"}
        reason = {} if answer else {"terminal_reason": "aborted_tools"}
        usage = {"input_tokens": 3, "output_tokens": 2}
        say(type="result", is_error=not answer, result=answer, usage=usage, num_turns=1, **end, **reason)
        if "later" in words_in(record):
            speak_up()


def speak_up() -> None:
    """A turn that was not asked for, once the test has made a file."""
    say(type="system", subtype="session_state_changed", state="idle")
    while not os.path.exists(f"{os.environ['FAKE_NOTES']}.go"):
        time.sleep(0.01)
    say(type="system", subtype="session_state_changed", state="running")
    say(type="system", subtype="init", cwd=os.getcwd(), tools=["Bash"], model="claude-test")
    content = [{"type": "text", "text": "The task has ended."}]
    message = {"id": f"m{time.monotonic_ns()}", "role": "assistant", "content": content}
    say(type="assistant", message=message, parent_tool_use_id=None)
    usage = {"input_tokens": 3, "output_tokens": 2}
    text = "The task has ended."
    say(type="result", is_error=False, subtype="success", result=text, usage=usage, num_turns=1)
    say(type="system", subtype="session_state_changed", state="idle")


if __name__ == "__main__":
    raise SystemExit(main())
