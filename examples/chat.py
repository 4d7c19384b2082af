"""A chat in the terminal with an agent that asks before it changes anything.

python examples/chat.py [--model provider/model] [--data DIR]      (without a model: a script answers)
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from harness import FileStore, Harness, Mode, ToolApprovalRequiredEvent, WorkspaceConfig

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

    async def approve(question: ToolApprovalRequiredEvent) -> None:
        always = next(one["label"] for one in question.options or () if one["kind"] == "allow-always")
        words = f"\n  allow {question.tool_name} {question.args}? [y]es, [n]o, [a]: {always} "
        answer = (await asyncio.to_thread(input, words)).strip().lower()
        question.approve(always=answer == "a") if answer in ("y", "a") else question.decline()

    async def talk(text: str) -> None:
        async with harness.stream(content=text) as run:
            async for event in run:
                if event.type == "text":
                    print(event.text, end="", flush=True)
                elif event.type == "tool_start":
                    print(f"\n  · {event.tool_name} {event.args}")
                elif event.type == "tool_approval_required":
                    await approve(event)
                elif event.type == "error":
                    print(f"\n  ! {event.error.message}")

    await harness.init()
    thread = await harness.select_or_create_thread()
    print(f"thread {thread.id}; an empty line ends the chat")
    try:
        while text := (await asyncio.to_thread(input, "\n> ")).strip():
            await talk(text)
    except EOFError:
        print()
    await harness.destroy()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=f"scripted/{HERE / 'chat_model.toml'}")
    parser.add_argument("--data", default="./data")
    chosen = parser.parse_args()
    asyncio.run(chat(chosen.model, chosen.data))
