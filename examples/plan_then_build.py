"""A plan is made in one mode, approved by a person, and carried out in another.

python examples/plan_then_build.py [--model provider/model]      (without a model: a script answers)
"""

from __future__ import annotations

import argparse
import asyncio

from harness import Harness, MemoryStore, Mode, Scripted, SessionEvent, open_model

SCRIPT = Scripted(
    [
        {"tool": "submit_plan", "input": {"title": "Greeting", "plan": "1. Say hello.\n2. Say goodbye."}},
        "Hello. Goodbye.",
    ]
)


async def main(model: str) -> None:
    harness = Harness(
        id="planner",
        storage=MemoryStore(),
        resolve_model=lambda name: SCRIPT if name == "script" else open_model(name),
        modes=[
            Mode(id="plan", default_model_id=model, instructions="Make a plan.", transitions_to="build"),
            Mode(id="build", default_model_id=model, instructions="Carry out the plan."),
        ],
    )

    def show(event: SessionEvent) -> None:
        if event.type == "tool_suspended":
            print(f"plan “{event.question}”:\n{event.plan}\n")
        elif event.type == "mode_changed":
            print(f"mode: {event.previous_mode_id} → {event.mode_id}")
        elif event.type == "message_end" and event.message.role == "assistant":
            print("".join(part.text for part in event.message.content if part.type == "text"), end="")

    harness.subscribe(show)
    await harness.init()
    await harness.send_message(content="Greet the reader, but show me your plan first.")
    for question in harness.questions():
        if question.type == "tool_suspended":
            question.approve()
    await harness.wait_until_idle()
    await harness.send_message(content="Begin.")
    print()
    await harness.destroy()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="script")
    asyncio.run(main(parser.parse_args().model))
