"""Our model APIs beside the vendors' own SDKs, in one run: CPU per piece of text, from the socket to the caller.

usage: python benchmarks/providers.py --install       make a virtual environment with the SDKs (once)
       python benchmarks/providers.py [--rounds N]    measure, and print one table

A server on loopback sends the same answer to both, in three ways: in large blocks; every piece in an HTTP
chunk of its own, as providers do, with many under way at once; and one chunk each millisecond, so that
every piece wakes the reader (the last column of the table is then mostly the system's own work).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measuring import Cpu

CACHE = Path(__file__).parent.parent / ".cache" / "peers" / "sdk"
PACKAGES = ("anthropic", "openai", "google-genai")
PIECES = {"blocks": 5_000, "chunks": 5_000, "single": 1_000}
TITLES = {
    "blocks": "large blocks",
    "chunks": "a chunk for each",
    "single": "a chunk for each, one at a time",
}
APIS = {
    "anthropic": "Anthropic Messages",
    "responses": "OpenAI Responses",
    "chat": "OpenAI Chat Completions",
    "gemini": "Gemini",
}


# --- the far side --------------------------------------------------------------------------------------


def event(record: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(record)}\n\n".encode()


def anthropic_events(count: int) -> Iterator[bytes]:
    def typed(kind: str, **fields: Any) -> bytes:
        return event({"type": kind, **fields}, kind)

    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    yield typed(
        "message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage}
    )
    yield typed("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for _ in range(count):
        yield typed("content_block_delta", index=0, delta={"type": "text_delta", "text": "word "})
    yield typed("content_block_stop", index=0)
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    yield typed("message_delta", delta=stop, usage={"output_tokens": count})
    yield typed("message_stop")


def chat_events(count: int) -> Iterator[bytes]:
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def choice(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield choice({"role": "assistant", "content": ""})
    for _ in range(count):
        yield choice({"content": "word "})
    yield choice({}, "stop")
    usage = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
    yield event({**chunk, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def responses_events(count: int) -> Iterator[bytes]:
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "in_progress",
        "model": "m",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    numbers = iter(range(count + 10))

    def typed(kind: str, **fields: Any) -> bytes:
        return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    part = {"type": "output_text", "text": "", "annotations": []}
    yield typed("response.created", response=response)
    yield typed("response.output_item.added", output_index=0, item={**item, "content": []})
    yield typed("response.content_part.added", **place, part=part)
    for _ in range(count):
        yield typed("response.output_text.delta", **place, delta="word ", logprobs=[])
    whole = {**item, "content": [{**part, "text": "word " * count}]}
    yield typed("response.output_item.done", output_index=0, item=whole)
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": count,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": count + 1,
    }
    done = {**response, "status": "completed", "output": [whole], "usage": usage}
    yield typed("response.completed", response=done)


def gemini_events(count: int) -> Iterator[bytes]:
    def candidate(text: str, **more: Any) -> bytes:
        content = {"role": "model", "parts": [{"text": text}]}
        return event({"candidates": [{"content": content, "index": 0, **more}], "modelVersion": "m"})

    for _ in range(count):
        yield candidate("word ")
    yield candidate("", finishReason="STOP")


EVENTS = {
    "messages": anthropic_events,
    "completions": chat_events,
    "responses": responses_events,
    "GenerateContent": gemini_events,
}


def serve(port_ready: Callable[[int], None], way: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        port_ready(listener.getsockname()[1])
        while True:
            client, _ = listener.accept()
            threading.Thread(target=converse, args=(client, way), daemon=True).start()


def converse(client: socket.socket, way: str) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = client.makefile("rb")
    while line := lines.readline():
        length = 0
        while (header := lines.readline()) != b"\r\n":
            if header.lower().startswith(b"content-length"):
                length = int(header.split(b":")[1])
        lines.read(length)
        path = line.decode()
        events = list(next(make for word, make in EVENTS.items() if word in path)(PIECES[way]))
        if way == "blocks":
            whole = b"".join(events)
            events = [whole[start : start + 16_384] for start in range(0, len(whole), 16_384)]
        chunks = [b"%x\r\n%b\r\n" % (len(one), one) for one in events] + [b"0\r\n\r\n"]
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        client.sendall(head)
        for chunk in chunks if way == "single" else [b"".join(chunks)]:
            client.sendall(chunk)
            if way == "single":
                time.sleep(0.001)


# --- the near sides ------------------------------------------------------------------------------------

Reading = Callable[[], Awaitable[int]]


def ours(api: str, url: str) -> Reading:
    from harness.contracts.model import Ask, UserTurn
    from harness.events import TextDelta
    from harness.models.registry import open_model

    names = {
        "anthropic": "anthropic/m",
        "responses": "openai/m",
        "chat": "openai-chat/m",
        "gemini": "gemini/m",
    }
    urls = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1", "GOOGLE_GEMINI_BASE_URL": url}
    model = open_model(names[api], urls)

    async def read() -> int:
        count = 0
        async for one in model.answer(Ask(turns=[UserTurn("hi")])):
            count += isinstance(one, TextDelta)
        return count

    return read


def sdk(api: str, url: str) -> Reading:
    return {"anthropic": _anthropic, "responses": _responses, "chat": _chat, "gemini": _gemini}[api](url)


def _anthropic(url: str) -> Reading:
    import anthropic

    client = anthropic.AsyncAnthropic(api_key="none", base_url=url)

    async def read() -> int:
        question = [{"role": "user", "content": "hi"}]
        events = await client.messages.create(model="m", max_tokens=9, messages=question, stream=True)
        return len([one async for one in events if one.type == "content_block_delta" and one.delta.text])

    return read


def _responses(url: str) -> Reading:
    import openai

    client = openai.AsyncOpenAI(api_key="none", base_url=f"{url}/v1")

    async def read() -> int:
        events = await client.responses.create(model="m", input="hi", stream=True)
        return len([one async for one in events if one.type == "response.output_text.delta"])

    return read


def _chat(url: str) -> Reading:
    import openai

    client = openai.AsyncOpenAI(api_key="none", base_url=f"{url}/v1")

    async def read() -> int:
        question = [{"role": "user", "content": "hi"}]
        events = await client.chat.completions.create(model="m", messages=question, stream=True)
        return len([one async for one in events if one.choices and one.choices[0].delta.content])

    return read


def _gemini(url: str) -> Reading:
    from google import genai

    client = genai.Client(api_key="none", http_options={"base_url": url})

    async def read() -> int:
        events = await client.aio.models.generate_content_stream(model="m", contents="hi")
        return len([one async for one in events if one.text])

    return read


def measure(side: str, api: str, way: str, url: str) -> float:
    async def least() -> float:
        read = (ours if side == "ours" else sdk)(api, url)
        costs = []
        for _ in range(4):
            with Cpu() as cpu:
                count = await read()
            costs.append(cpu.seconds)
            assert count == PIECES[way], f"{count} of {PIECES[way]} pieces"
        return min(costs) / PIECES[way] * 1e6

    return asyncio.run(least())


# --- around them ---------------------------------------------------------------------------------------


def ask(side: str, api: str, way: str, port: int) -> float:
    python = sys.executable if side == "ours" else str(CACHE / "bin" / "python")
    command = [python, __file__, "--child", side, api, way, f"http://127.0.0.1:{port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{side} {api} {way}: {done.stderr[-600:]}")
    return float(done.stdout.split()[-1])


def start_server(way: str) -> tuple[subprocess.Popen[bytes], int]:
    server = subprocess.Popen([sys.executable, __file__, "--serve", way], stdout=subprocess.PIPE)
    assert server.stdout is not None
    return server, int(server.stdout.readline())


def compare(rounds: int) -> None:
    servers = {way: start_server(way) for way in PIECES}
    print("| | " + " | ".join(f"{title}: ours, SDK, ratio" for title in TITLES.values()) + " |")
    print("|---" * (len(TITLES) + 1) + "|")
    try:
        for api, title in APIS.items():
            cells = []
            for way, (_, port) in servers.items():
                pairs = [(ask("ours", api, way, port), ask("sdk", api, way, port)) for _ in range(rounds)]
                own, other = (min(costs) for costs in zip(*pairs, strict=True))
                ratios = sorted(one / another for one, another in pairs)
                cells.append(
                    f"{own:.1f}, {other:.1f} µs, **{own / other:.2f}** ({ratios[0]:.2f}–{ratios[-1]:.2f})"
                )
            print(f"| {title} | " + " | ".join(cells) + " |", flush=True)
    finally:
        for server, _ in servers.values():
            server.kill()
    print(
        f"\n{time.strftime('%Y-%m-%d')}, Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, {versions()};"
    )
    print(f"least of {rounds} rounds, in brackets the ratios of the rounds")


def versions() -> str:
    code = (
        f"import importlib.metadata as m; print(*(f'{{p}} {{m.version(p)}}' for p in {PACKAGES!r}), sep=', ')"
    )
    command = [str(CACHE / "bin" / "python"), "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["--serve"]:
        serve(lambda port: print(port, flush=True), words[1])
    elif words[:1] == ["--child"]:
        print(measure(*words[1:]))
    elif words == ["--install"]:
        subprocess.run([sys.executable, "-m", "venv", str(CACHE)], check=True)
        subprocess.run(
            [str(CACHE / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES], check=True
        )
    elif not (CACHE / "bin" / "python").exists():
        sys.exit("the SDKs are not installed: run `.venv/bin/python benchmarks/providers.py --install`")
    else:
        compare(int(words[1]) if words[:1] == ["--rounds"] else 3)


if __name__ == "__main__":
    main()
