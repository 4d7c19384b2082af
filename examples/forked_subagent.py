"""A sub-agent that knows the whole conversation: it works on a fork of the thread.

python examples/forked_subagent.py
"""

from __future__ import annotations

import asyncio

from harness import Harness, Memory, MemoryStore, Mode, Scripted, SessionEvent, Subagent

SCRIPT = Scripted(
    [
        "Noted: the secret number is 7.",
        {
            "tool": "subagent",
            "input": {"agentType": "second-opinion", "task": "Double the number that I gave you."},
        },
        "You gave me 7; doubled it is 14.",  # said by the sub-agent, which knows the conversation
        "My colleague says 14.",
    ]
)


async def main() -> None:
    harness = Harness(
        id="forks",
        storage=MemoryStore(),
        memory=Memory(),
        modes=[Mode(id="chat", default_model_id="script")],
        resolve_model=lambda _name: SCRIPT,
        initial_state={"permissionRules": {"tools": {"subagent": "allow"}}},  # else the user is asked
        subagents=[
            Subagent(id="second-opinion", name="Second opinion", description="Thinks again.", forked=True)
        ],
    )

    def show(event: SessionEvent) -> None:
        if event.type == "subagent_start":
            print(f"  sub-agent {event.agent_type} (forked: {event.forked}): {event.task}")
        elif event.type == "subagent_text_delta":
            print(f"  | {event.text_delta}")
        elif event.type == "message_end" and event.message.role == "assistant":
            print("".join(part.text for part in event.message.content if part.type == "text"))

    harness.subscribe(show)
    await harness.init()
    await harness.send_message(content="The secret number is 7.")
    await harness.send_message(content="Ask a sub-agent to double it.")
    shown, all_of_them = (
        harness.session.thread.list(),
        harness.session.thread.list(include_forked_subagents=True),
    )
    print(f"threads: {len(shown)} shown, {len(all_of_them)} in all")
    await harness.destroy()


if __name__ == "__main__":
    asyncio.run(main())
