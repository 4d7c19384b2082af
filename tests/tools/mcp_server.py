"""A small MCP server on standard input and output, written by hand; its argument says how it behaves."""

from __future__ import annotations

import json
import os
import sys
import time

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
    {"name": "die", "description": "Ends the server.", "inputSchema": {"type": "object"}},
]


def say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def text(value: str, *, is_error: bool = False) -> dict[str, object]:
    return {"content": [{"type": "text", "text": value}], "isError": is_error}


def called(name: str, arguments: dict[str, float]) -> dict[str, object] | None:
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
    if mode == "garbage":
        sys.stdout.write("Welcome to my server!\n{\n[]\n\n")
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        answer: dict[str, object] | None = None
        if method == "initialize":
            answer = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
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


main()
