"""A small program that stands in for Claude Code: asks its model over HTTP, runs its commands, and says so on stdout."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
prompt = sys.stdin.read()
say(type="system", subtype="init", session_id=session, model=model, cwd=os.getcwd(), tools=["Bash"])
messages = [{"role": "user", "content": f"<system-reminder>{session}</system-reminder>{prompt}"}]
shell = {"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
key = os.environ.get("ANTHROPIC_API_KEY", "")
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages?beta=true"
while True:
    body = {"model": model, "max_tokens": 1000, "messages": messages, "tools": [shell], "stream": STREAM}
    headers = {"content-type": "application/json", "x-api-key": key, "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            message = json.load(answer)
    except urllib.error.HTTPError as error:
        text = json.load(error)["error"]["message"]
        say(type="result", subtype="success", is_error=True, result=f"API Error: {error.code} {text}",
            session_id=session, num_turns=1)
        sys.exit(1)
    usage = message["usage"]
    say(type="assistant", session_id=session, message=message)
    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    messages.append({"role": "assistant", "content": message["content"]})
    if not calls:
        text = "".join(block.get("text", "") for block in message["content"])
        say(type="result", subtype="success", is_error=False, result=text, session_id=session, num_turns=1,
            usage={"input_tokens": 1, "output_tokens": 1})
        sys.exit(0)
    results = []
    for call in calls:
        done = subprocess.run(call["input"]["command"], shell=True, capture_output=True, text=True)
        results.append({"type": "tool_result", "tool_use_id": call["id"], "content": done.stdout + done.stderr})
    messages.append({"role": "user", "content": results})
    say(type="user", session_id=session, message={"role": "user", "content": results})
"""


def install(folder: Path) -> str:
    """A folder with a program `claude` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "claude"
    program.write_text(f"#!{sys.executable} -I\n" + _PROGRAM.replace("STREAM", "False"))
    os.chmod(program, 0o755)
    return str(folder)
