"""An MCP server with one tool, `echo`, on standard input and output. Runs on its own, without Harness.

With an argument, a call of the tool makes that file.
"""

from __future__ import annotations

import json
import sys

_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_TOOL = {"name": "echo", "description": "Returns its text.", "inputSchema": _SCHEMA}


def answer(message: dict) -> dict | None:  # type: ignore[type-arg] # typing costs start-up time here
    """The reply to one message; None for what wants none."""
    if "id" not in message:
        return None
    params = message.get("params") or {}
    if message.get("method") == "tools/call" and len(sys.argv) > 1:
        open(sys.argv[1], "w").close()
    results = {
        "initialize": {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "lab", "version": "1"},
        },
        "ping": {},
        "tools/list": {"tools": [_TOOL]},
        "tools/call": {
            "content": [{"type": "text", "text": str((params.get("arguments") or {}).get("text"))}]
        },
        "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": []},
        "prompts/list": {"prompts": []},
    }
    head = {"jsonrpc": "2.0", "id": message["id"]}
    method = message.get("method")
    if method not in results:
        return {**head, "error": {"code": -32601, "message": f"there is no method {method}"}}
    return {**head, "result": results[method]}


def main() -> None:
    for line in sys.stdin:
        if line.strip() and (reply := answer(json.loads(line))) is not None:
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
