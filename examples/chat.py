"""A chat in the terminal with an agent that asks before it changes anything.

python examples/chat.py [--model provider/model] [--data DIR]      (without a model: a script answers)
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from harness import FileStore, Harness, Mode, WorkspaceConfig

HERE = Path(__file__).parent


async def chat(model: str, data: str) -> None:
    harness = Harness(
        id="chat",
        storage=FileStore(data),
        modes=[
            Mode(id="build", default_model_id=model, instructions="You help with the project in this folder.")
        ],
        workspace=WorkspaceConfig(cwd=str(HERE / "shop")),
        initial_state={"permissionRules": {"categories": {"read": "allow"}}},
    )
    session = harness.session

    def show(event: Any) -> None:
        if event.type == "text":
            print(event.text, end="", flush=True)
        elif event.type == "tool_start":
            print(f"\n  · {event.tool_name} {event.args}")
        elif event.type == "tool_approval_required":
            asyncio.get_running_loop().create_task(approve(event))
        elif event.type == "error":
            print(f"\n  ! {event.error.message}")

    async def approve(event: Any) -> None:
        always = next(one["label"] for one in event.options if one["kind"] == "allow-always")
        question = f"\n  allow {event.tool_name} {event.args}? [y]es, [n]o, [a]: {always} "
        answer = await asyncio.to_thread(input, question)
        decision = {"y": "approve", "a": "always_allow"}.get(answer.strip().lower(), "decline")
        session.respond_to_tool_approval(decision=decision, tool_call_id=event.tool_call_id)  # type: ignore[arg-type]

    harness.subscribe(show)
    await harness.init()
    thread = await harness.select_or_create_thread()
    print(f"thread {thread.id}; an empty line ends the chat")
    try:
        while text := (await asyncio.to_thread(input, "\n> ")).strip():
            await harness.send_message(content=text)
    except EOFError:
        print()
    await harness.destroy()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=f"scripted/{HERE / 'chat_model.toml'}")
    parser.add_argument("--data", default="./data")
    chosen = parser.parse_args()
    asyncio.run(chat(chosen.model, chosen.data))
