"""Whether our requests are what the vendors' own types say: four APIs, each kind of turn, tool and option. No times.

usage: python benchmarks/providers.py --install      the vendors' packages (once; the same as for `providers.py`)
       python benchmarks/vendor_types.py             check every request; exit code 1 if one is wrong

A request is wrong if the types refuse it, or if they do not know a field of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache" / "peers" / "sdk"
PNG = b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000154a24f5d0000"
        "000049454e44ae426082"
    )
).decode()
MODELS = {
    "anthropic": ("anthropic/claude-sonnet-4-6", "anthropic/claude-opus-4-6"),
    "responses": ("openai/gpt-5.5",),
    "chat": ("openai-chat/gpt-5.5", "openai-chat/gpt-4.1"),
    "gemini": ("gemini/gemini-2.5-pro",),
}
KNOWN = {
    # Their newest types leave it out, since new models refuse it; the API takes it for older ones, if somebody asks for it.
    "anthropic": (".temperature",),
}
"""Fields that the types do not know, and that are right all the same."""
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["name", "count"],
    "additionalProperties": False,
}


def asks() -> Iterator[tuple[str, Any]]:
    """A name and an `Ask`, for each kind of thing that is ever asked."""
    from harness.contracts.model import Ask, AssistantTurn, Attachment, Call, SystemTurn, ToolTurn, UserTurn
    from harness.native.additions.agents import EXPLORE
    from harness.native.tools.registry import default_tools

    picture = Attachment("image/png", PNG, "shot.png")
    text = Attachment("text/plain", b64encode(b"notes").decode(), "notes.txt")
    document = Attachment("application/pdf", b64encode(b"%PDF-1.4\n").decode(), "paper.pdf")
    tools = [tool.spec for tool in default_tools(os.getcwd(), kinds=[EXPLORE])]
    system, user = SystemTurn("Work."), UserTurn("go")
    talk = [
        system,
        UserTurn("Look at these.", (picture, text, document)),
        AssistantTurn(
            "I look.", (Call("call_1", "read", {"filePath": "a"}), Call("call_2", "bash", {"command": "ls"}))
        ),
        ToolTurn("call_1", "text", attachments=(picture,)),
        ToolTurn("call_2", "failed", is_error=True),
        SystemTurn("Later words."),
        AssistantTurn("Done."),
        UserTurn("And now?"),
    ]
    yield "a question", Ask(turns=[user])
    yield "all tools", Ask(turns=[system, user], tools=tools)
    yield "a whole conversation", Ask(turns=talk, tools=tools, conversation_id="thread-1")
    yield "with a schema", Ask(turns=[system, user], schema=SCHEMA)
    for effort in ("low", "medium", "high"):
        yield f"effort {effort}", Ask(turns=talk, tools=tools, effort=effort, max_output_tokens=4000)
    yield "cold and short", Ask(turns=[user], temperature=0.2, max_output_tokens=64)


def bodies() -> dict[str, list[tuple[str, Any]]]:
    """By API: what each of these sends, as a server on loopback gets it."""
    from harness.models.failure import Retries
    from harness.models.registry import open_model

    got: list[bytes] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_error(400)

        def log_message(self, *_words: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        urls = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1", "GOOGLE_GEMINI_BASE_URL": url}

        async def ask_all() -> dict[str, list[tuple[str, Any]]]:
            made: dict[str, list[tuple[str, Any]]] = {}
            for api, name in [(api, name) for api, names in MODELS.items() for name in names]:
                model = open_model(name, urls, retries=Retries(limit=0))
                for title, ask in asks():
                    _ = [event async for event in model.answer(ask)]
                    made.setdefault(api, []).append((f"{name}: {title}", json.loads(got[-1])))
            return made

        try:
            return asyncio.run(ask_all())
        finally:
            server.shutdown()


# In the environment of the vendors.


def unknown(given: Any, taken: Any, place: str = "") -> Iterator[str]:
    """What of a request did not survive the types: they drop what they do not know."""
    if isinstance(given, dict) and isinstance(taken, dict):
        for key, value in given.items():
            if key not in taken:
                yield f"{place}.{key}"
            else:
                yield from unknown(value, taken[key], f"{place}.{key}")
    elif isinstance(given, list) and isinstance(taken, list):
        for number, (one, other) in enumerate(zip(given, taken, strict=False)):
            yield from unknown(one, other, f"{place}[{number}]")


def whole(value: Any) -> Any:
    """What was taken, as plain data: the types check iterables only while they are read."""
    if isinstance(value, dict):
        return {key: whole(inner) for key, inner in value.items()}
    if isinstance(value, str | bytes | int | float) or value is None:
        return value
    return [whole(inner) for inner in value]


def _by_type(kind: Any) -> Callable[[Any], Any]:
    from pydantic import TypeAdapter

    adapter = TypeAdapter(kind)

    def check(body: Any) -> Any:
        return whole(adapter.validate_python(body))

    return check


def _gemini(body: Any) -> Any:
    from google.genai import types

    contents = [types.Content.model_validate(one) for one in body["contents"]]
    rest = {key: value for key, value in body.items() if key not in ("contents", "generationConfig")}
    config = types.GenerateContentConfig.model_validate({**rest, **body.get("generationConfig", {})})
    shown = json.loads(config.model_dump_json(by_alias=True, exclude_none=True))
    own = {key: shown.get(key) for key in rest}
    inner = {key: shown.get(key) for key in body.get("generationConfig", {})}
    said = [json.loads(one.model_dump_json(by_alias=True, exclude_none=True)) for one in contents]
    return {"contents": said, **own, "generationConfig": inner}


def check() -> int:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    checks = {
        "anthropic": _by_type(MessageCreateParamsStreaming),
        "responses": _by_type(ResponseCreateParamsStreaming),
        "chat": _by_type(CompletionCreateParamsStreaming),
        "gemini": _gemini,
    }
    wrong = 0
    for api, made in json.load(sys.stdin).items():
        problems = []
        for title, body in made:
            try:
                lost = [one for one in unknown(body, checks[api](body)) if one not in KNOWN.get(api, ())]
            except ValueError as error:
                lost = [str(error).replace("\n", " ")[:1500]]
            problems += [f"  {title}: {one}" for one in lost]
        print(f"{api}: {len(made)} requests, {len(problems)} problems", *problems, sep="\n")
        wrong += len(problems)
    return min(wrong, 1)


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        return check()
    python = os.environ.get("VENDORS_PYTHON") or str(CACHE / "bin" / "python")
    if not os.path.exists(python):
        sys.exit("the packages are not installed: run `.venv/bin/python benchmarks/providers.py --install`")
    made = json.dumps(bodies())
    return subprocess.run([python, __file__, "--check"], input=made, text=True, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
