#!/usr/bin/env -S python3 -S
"""Claude Agent SDK: drives a program that has the loop; this file also plays that program, which is not counted.

So its figures are what the SDK adds to a loop, not what a loop costs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

TITLE = "claude-agent-sdk"
PACKAGE = "claude-agent-sdk"
INSTALL = ("claude-agent-sdk",)
IMPORT = "from claude_agent_sdk import ClaudeSDKClient"
PERSISTS = ""


async def stream(deltas: int, pause: Callable[[], Awaitable[None]]) -> int:
    del pause  # deltas come through a pipe, in whatever portions
    return await _run({"PLAYED_DELTAS": str(deltas)}, {})


async def work(steps: int, mark: Callable[[], None], folder: str = "") -> int:
    del folder
    from claude_agent_sdk import create_sdk_mcp_server, tool

    @tool("add", "Add two numbers.", {"a": int, "b": int})
    async def add(numbers: Any) -> dict[str, Any]:
        mark()
        return {"content": [{"type": "text", "text": str(numbers["a"] + numbers["b"])}]}

    mark()
    return await _run({"PLAYED_STEPS": str(steps)}, {"s": create_sdk_mcp_server("s", tools=[add])})


async def _run(env: dict[str, str], servers: dict[str, Any]) -> int:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

    options = ClaudeAgentOptions(
        cli_path=__file__, env=env, include_partial_messages=True, mcp_servers=servers
    )
    count = 0
    async with ClaudeSDKClient(options) as client:
        await client.query("hi")
        async for _message in client.receive_response():
            count += 1
    return count


_ENVELOPE = {"session_id": "00000000-0000-4000-8000-000000000000", "uuid": "u", "parent_tool_use_id": None}


def _say(**record: Any) -> None:
    sys.stdout.write(json.dumps({**_ENVELOPE, **record}) + "\n")


def _assistant(*content: dict[str, Any]) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "played", "content": content}
    _say(type="assistant", message={**message, "stop_reason": None, "usage": usage})


def _ask(number: int, method: str, params: dict[str, Any], **message: Any) -> None:
    request = {"jsonrpc": "2.0", "method": method, "params": params, **message}
    _say(
        type="control_request",
        request_id=f"{method}{number}",
        request={"subtype": "mcp_message", "server_name": "s", "message": request},
    )
    sys.stdout.flush()
    while json.loads(sys.stdin.readline()).get("type") != "control_response":
        pass


def _take_steps(steps: int) -> None:
    client = {"name": "played", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    _ask(0, "initialize", hello, id=0)
    _ask(0, "notifications/initialized", {})
    _ask(1, "tools/list", {}, id=1)
    for number in range(steps):
        arguments = {"a": 1, "b": 2}
        _assistant({"type": "tool_use", "id": f"c{number}", "name": "mcp__s__add", "input": arguments})
        _ask(number + 2, "tools/call", {"name": "add", "arguments": arguments}, id=number + 2)
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "3"}
        _say(type="user", message={"role": "user", "content": [result]})


def play() -> None:
    """Be the program."""
    for line in sys.stdin:
        record = json.loads(line)
        if record.get("type") == "control_request":
            response = {
                "subtype": "success",
                "request_id": record["request_id"],
                "response": {"commands": []},
            }
            _say(type="control_response", response=response)
        elif record.get("type") == "user":
            version = {"claude_code_version": "2.1.325"}
            _say(type="system", subtype="init", cwd="/", tools=[], mcp_servers=[], model="played", **version)
            for _ in range(int(os.environ.get("PLAYED_DELTAS", "0"))):
                delta = {"type": "text_delta", "text": "word "}
                _say(type="stream_event", event={"type": "content_block_delta", "index": 0, "delta": delta})
            if steps := int(os.environ.get("PLAYED_STEPS", "0")):
                _take_steps(steps)
            _assistant({"type": "text", "text": "done"})
            _say(
                type="result",
                subtype="success",
                is_error=False,
                duration_ms=1,
                duration_api_ms=1,
                num_turns=1,
                result="done",
                total_cost_usd=0,
                usage={},
            )
        sys.stdout.flush()


if __name__ == "__main__":
    play()
