"""A recursive language model on a model that answers by a script: REPL, commands and log are real."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from harness.events import Event, RelayReply, ReplInput, ReplOutput
from harness.log.clock import new_clock
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.rlm.options import RlmOptions
from harness.native.rlm.repl import CodeResult, Repl, ReplLimits, ReplStream
from harness.native.rlm.rlm_loop import RlmRun
from harness.questions.permissions import Permissions
from played_model import Answer, Played, PlayedModel, assert_whole, says

AGENT = {"model", "permissions", "system_prompt", "max_iterations", "max_budget_usd", "relay_deadline_s"}

Reaction = Callable[["Stage", Event], Awaitable[object] | object]


class Stage:
    """What a reaction to an event may do."""

    def __init__(self, host: LoopContext, task: asyncio.Task[Any], run: RlmRun) -> None:
        self.loop_context = host
        self.task = task
        self.run = run

    def reply(self, relay_id: str, *, approved: bool, **how: Any) -> bool:
        return self.loop_context.questions.reply(RelayReply(id=relay_id, approved=approved, **how))


def code(*lines: str, before: str = "") -> list[Event]:
    """An answer with one block of Python."""
    body = "\n".join(lines)
    return says(f"{before}```python\n{body}\n```")


def play(*answers: Answer, **how: Any) -> Played:
    """One run to its end."""
    return asyncio.run(follow(PlayedModel(*answers), **how))


async def follow(
    model: PlayedModel,
    *,
    prompt: str = "go",
    context: str = "",
    parent_id: str = "",
    on_event: Reaction | None = None,
    redact: bool = False,
    cwd: str = "",
    env: dict[str, str] | None = None,
    **options: Any,
) -> Played:
    agent = {name: options.pop(name) for name in AGENT & options.keys()}
    agent = {"permissions": Permissions("allow"), "agent": "rlm", **agent}
    chosen = RlmOptions(agent=AgentOptions(model=model, **agent), **options)
    store, clock = MemoryStore(), new_clock()
    run_id = new_run_id(clock())
    hub = Hub(store, run_id, store.create(Metadata(session_id=run_id)), clock)
    host = LoopContext(
        hub,
        cwd=cwd or os.getcwd(),
        env={"PATH": os.environ["PATH"]} if env is None else env,
        secrets={} if redact else None,
    )
    run = RlmRun(host, chosen, context, run_id=run_id, parent_id=parent_id)
    task = asyncio.create_task(run.run(prompt))
    stage = Stage(host, task, run)
    task.add_done_callback(lambda _: hub.close())
    events = [event async for event in _followed(hub, stage, on_event)]
    assert_whole(events)
    _assert_programs_ended(events)
    return Played(events, run_id, model)


async def _followed(hub: Hub, stage: Stage, on_event: Reaction | None) -> Any:
    changed = asyncio.Event()
    remove = hub.add_waker(changed.set)
    follower = hub.follower()
    while not follower.is_ended:
        changed.clear()
        for event in follower.poll():
            yield event
            if on_event is not None and isinstance(done := on_event(stage, event), Awaitable):
                await done
        if not follower.is_ended and not hub.has(follower.cursor):
            await changed.wait()
    remove()
    follower.close()
    if not stage.task.cancelled():
        stage.task.result()


def _assert_programs_ended(events: list[Event]) -> None:
    began = [(event.run_id, event.id) for event in events if isinstance(event, ReplInput)]
    ended = [(event.run_id, event.id) for event in events if isinstance(event, ReplOutput)]
    assert sorted(began) == sorted(ended)


class Bench:
    """A REPL alone: what each piece of code came to, and what was shown and asked meanwhile."""

    def __init__(self, repl: Repl, shown: list[tuple[ReplStream, str]], calls: list[dict[str, Any]]) -> None:
        self.run = repl.run
        self.repl = repl
        self.shown = shown
        self.calls = calls


def on_bench(
    use: Callable[[Bench], Awaitable[Any]],
    *,
    context: str = "",
    functions: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] | None = None,
    **limits: Any,
) -> Any:
    async def main() -> Any:
        shown: list[tuple[ReplStream, str]] = []
        calls: list[dict[str, Any]] = []

        async def echo(arguments: dict[str, Any]) -> str:
            calls.append(arguments)
            return f"<{arguments['prompt']}>"

        repl = Repl(
            context,
            ReplLimits(**limits),
            functions if functions is not None else {"llm_query": echo},
            lambda stream, text: shown.append((stream, text)),
        )
        try:
            return await use(Bench(repl, shown, calls))
        finally:
            await repl.close()

    return asyncio.run(main())


def turns_of(*codes: str, **how: Any) -> list[CodeResult]:
    """Each code in turn, in one REPL."""

    async def use(bench: Bench) -> list[CodeResult]:
        return [await bench.run(one) for one in codes]

    turns: list[CodeResult] = on_bench(use, **how)
    return turns
