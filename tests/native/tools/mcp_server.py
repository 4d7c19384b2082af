"""A small MCP server on standard input and output, written by hand; its argument says how it behaves."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TOOLS = [
    {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    },
    {"name": "env/show", "description": "The environment.", "inputSchema": {"type": "object"}},
    {"name": "fail", "description": "Fails.", "inputSchema": {"type": "object"}},
    {"name": "huge", "description": "Says much.", "inputSchema": {"type": "object"}},
    {"name": "picture", "description": "An image.", "inputSchema": {"type": "object"}},
    {"name": "wait", "description": "Never ends.", "inputSchema": {"type": "object"}},
    {"name": "grow", "description": "Has more tools afterwards.", "inputSchema": {"type": "object"}},
    {"name": "roots", "description": "Where the client works.", "inputSchema": {"type": "object"}},
    {"name": "ask", "description": "Asks the user.", "inputSchema": {"type": "object"}},
    {"name": "sample", "description": "Asks the model.", "inputSchema": {"type": "object"}},
    {"name": "die", "description": "Ends the server.", "inputSchema": {"type": "object"}},
]


BAD = [
    {"name": "no_schema", "description": "Forgot it."},
    {"name": "text", "description": "Is no object.", "inputSchema": {"type": "string"}},
    "no tool at all",
]


def request(method: str, params: dict[str, object]) -> object:
    """Ask the client something, and wait for what it says."""
    say({"jsonrpc": "2.0", "id": f"own-{method}", "method": method, "params": params})
    while line := sys.stdin.readline():
        message = json.loads(line)
        if message.get("id") == f"own-{method}" and "method" not in message:
            return message.get("result", message.get("error"))
    return None


def say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def text(value: str, *, is_error: bool = False) -> dict[str, object]:
    return {"content": [{"type": "text", "text": value}], "isError": is_error}


def called(name: str, arguments: dict[str, Any]) -> dict[str, object] | None:
    if name == "add":
        return text(str(arguments["a"] + arguments["b"]))
    if name == "env/show":
        return text(json.dumps(dict(os.environ)))
    if name == "fail":
        return text("it went wrong", is_error=True)
    if name == "huge":
        return text("x" * 3_000_000)
    if name == "picture":
        return {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
    if name == "grow":
        TOOLS.append({"name": "grown", "description": "New.", "inputSchema": {"type": "object"}})
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return text("now there is more")
    if name == "grown":
        return text("it has grown")
    if name == "roots":
        return text(json.dumps(request("roots/list", {})))
    if name == "ask":
        schema = arguments.get("schema") or {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"message": "Who are you?", "requestedSchema": schema}
        return text(json.dumps(request("elicitation/create", params)))
    if name == "sample":
        message = {"role": "user", "content": {"type": "text", "text": "hi"}}
        return text(json.dumps(request("sampling/createMessage", {"messages": [message], "maxTokens": 9})))
    if name == "die":
        sys.stderr.write("the last words\n")
        sys.exit(3)
    return None


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
    if mode == "crash":
        sys.stderr.write("no configuration found\n")
        sys.exit(1)
    if mode == "silent":
        time.sleep(600)
    if mode == "late":
        time.sleep(1.5)
    if mode == "bad":
        TOOLS[1:1] = BAD  # type: ignore[assignment]
    if mode == "garbage":
        sys.stdout.write("Welcome to my server!\n{\n[]\n\n")
    while line := sys.stdin.readline():
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        answer: dict[str, object] | None = None
        if method == "initialize":
            answer = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "small", "version": "1"},
            }
        elif method == "tools/list":
            page = int(params.get("cursor") or 0)
            answer = {"tools": TOOLS[page : page + 4]}
            if page + 4 < len(TOOLS):
                answer["nextCursor"] = str(page + 4)
        elif method == "tools/call":
            answer = called(params["name"], params.get("arguments") or {})
            if answer is None:
                continue
        elif "id" in message:
            error = {"code": -32601, "message": f"no such method: {method}"}
            say({"jsonrpc": "2.0", "id": message["id"], "error": error})
            continue
        if answer is not None:
            say({"jsonrpc": "2.0", "id": message["id"], "result": answer})
    if mode == "stays":
        time.sleep(600)


if __name__ == "__main__":
    main()
