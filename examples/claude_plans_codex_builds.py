"""Claude Code makes a plan, a person approves it, and Codex carries it out: in one conversation.

    python examples/claude_plans_codex_builds.py "Add a --json option to the report."      (both programs have to be installed)

Each program keeps its own session, and is told what the other has done and what was decided.
"""

from __future__ import annotations

import argparse
import asyncio

from harness import CommandAgent, Harness, Mode, ToolApprovalRequiredEvent, ToolSuspendedEvent

MODES = [
    Mode(id="plan", agent=CommandAgent(name="claude", permissions="plan"), transitions_to="build"),
    Mode(id="build", agent=CommandAgent(name="codex", permissions="accept-edits")),
]


async def ask(words: str) -> str:
    return (await asyncio.to_thread(input, f"\n{words} ")).strip()


async def allow(call: ToolApprovalRequiredEvent) -> None:
    is_allowed = await ask(f"{call.tool_name} {call.args}: allow? [y/n]") == "y"
    call.approve() if is_allowed else call.decline()


async def review(question: ToolSuspendedEvent) -> None:
    if not question.plan:
        question.answer(await ask(question.question))
        return
    wish = await ask(f"{question.plan}\n\nApprove it with y, or say what should be different:")
    question.approve() if wish == "y" else question.reject(wish)


async def follow(harness: Harness, text: str) -> None:
    async with harness.stream(content=text) as run:
        async for event in run:
            if event.type == "text":
                print(event.text, end="", flush=True)
            elif event.type == "tool_approval_required":
                await allow(event)
            elif event.type == "tool_suspended":
                await review(event)
    outcome = await run.outcome()
    print(f"\n{outcome.outcome} {outcome.error}".rstrip())


async def main(task: str, folder: str) -> None:
    async with Harness(id="plan-and-build", modes=MODES, cwd=folder) as harness:
        await follow(harness, task)
        if harness.session.mode.get() == "build":  # the plan was approved
            print("— Codex —")
            await follow(harness, "Carry out the plan.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    parser.add_argument("--folder", default=".")
    given = parser.parse_args()
    asyncio.run(main(given.task, given.folder))
