"""A small program that stands in for Claude Code: asks its model over HTTP, runs its commands, and says so on stdout."""

from __future__ import annotations

from pathlib import Path

from python_programs import SYSTEM_PYTHON, python_program

_PROGRAM = r"""
import json, os, subprocess, sys, urllib.request, urllib.error, uuid

def say(**record):
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()

if "--version" in sys.argv:
    print("2.1.325 (Claude Code)")
    sys.exit(0)
session = str(uuid.uuid4())
model = sys.argv[sys.argv.index("--model") + 1] if "--model" in sys.argv else "claude-sonnet-4-5"
is_two_way = "--input-format" in sys.argv
resumed = sys.argv[sys.argv.index("--resume") + 1] if "--resume" in sys.argv else ""
kept = os.path.join(os.environ["HOME"], "small-agent-" + (resumed or session))
messages = json.load(open(kept)) if resumed and os.path.exists(kept) else []
session = resumed or session
shell = {"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
key = os.environ.get("ANTHROPIC_API_KEY", "")
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages?beta=true"

def is_allowed(call):
    if "--permission-prompt-tool" not in sys.argv:
        return True
    number = str(uuid.uuid4())
    asked = {"subtype": "can_use_tool", "tool_name": call["name"], "input": call["input"], "tool_use_id": call["id"]}
    say(type="control_request", request_id=number, request=asked)
    for line in iter(sys.stdin.readline, ""):
        answer = json.loads(line).get("response", {})
        if answer.get("request_id") == number:
            return answer["response"]["behavior"] == "allow"

def turn(prompt):
    global model
    say(type="system", subtype="init", session_id=session, model=model, cwd=os.getcwd(), tools=["Bash"])
    messages.append({"role": "user", "content": f"<system-reminder>{session}</system-reminder>{prompt}"})
    while True:
        body = {"model": model, "max_tokens": 1000, "messages": messages, "tools": [shell], "stream": STREAM}
        shown = {"x-api-key": key} if key else {"authorization": "Bearer " + os.environ["CLAUDE_CODE_OAUTH_TOKEN"]}
        headers = {"content-type": "application/json", **shown, "anthropic-version": "2023-06-01"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                message = json.load(answer)
        except urllib.error.HTTPError as error:
            text = json.load(error)["error"]["message"]
            say(type="result", subtype="success", is_error=True, result=f"API Error: {error.code} {text}",
                session_id=session, num_turns=1)
            return 1
        usage = message["usage"]
        say(type="assistant", session_id=session, message=message)
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        messages.append({"role": "assistant", "content": message["content"]})
        if not calls:
            text = "".join(block.get("text", "") for block in message["content"])
            if is_two_way:
                os.makedirs(os.path.dirname(kept), exist_ok=True)
                json.dump(messages, open(kept, "w"))
            say(type="result", subtype="success", is_error=False, result=text, session_id=session, num_turns=1,
                usage={"input_tokens": 1, "output_tokens": 1})
            return 0
        results = []
        for call in calls:
            if not is_allowed(call):
                results.append({"type": "tool_result", "tool_use_id": call["id"], "content": "no", "is_error": True})
                continue
            done = subprocess.run(call["input"]["command"], shell=True, capture_output=True, text=True)
            results.append({"type": "tool_result", "tool_use_id": call["id"], "content": done.stdout + done.stderr})
        messages.append({"role": "user", "content": results})
        say(type="user", session_id=session, message={"role": "user", "content": results})

if not is_two_way:
    sys.exit(turn(sys.stdin.read()))
for line in iter(sys.stdin.readline, ""):
    record = json.loads(line)
    if record["type"] == "control_request":
        say(type="control_response", response={"subtype": "success", "request_id": record["request_id"], "response": {}})
    elif record["type"] == "user":
        content = record["message"]["content"]
        text = content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
        say(**{**record, "session_id": session, "isReplay": True})
        turn(text)
"""


def install(folder: Path) -> str:
    """A folder with a program `claude` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    python_program(folder / "claude", _PROGRAM.replace("STREAM", "False"), "-I", SYSTEM_PYTHON)
    return str(folder)
