"""From a request to a recursive language model: its models, its context, what it may do."""

from __future__ import annotations

from msgspec.structs import replace

from harness.errors import UsageError
from harness.log.hub import Hub
from harness.sources.loop.approvals import answering
from harness.sources.loop.inbox import Inbox
from harness.sources.loop.loop_context import AgentOptions, LoopContext
from harness.sources.loop.native import RELAY_DEADLINE_S, chosen_model, gate_of
from harness.sources.loop.permissions import permissions_for
from harness.sources.loop.worker import LoopWorker
from harness.sources.process.launch import Launch
from harness.sources.rlm.options import MAX_ITERATIONS, RlmOptions, parse
from harness.sources.rlm.rlm_loop import RlmRun
from harness.sources.worker import OnEnd


def start(launch: Launch, hub: Hub, on_end: OnEnd, redact: bool) -> LoopWorker:
    """The worker of a run."""

    def open_run(loop_context: LoopContext, inbox: Inbox) -> RlmRun:
        context = read_context(launch.request.context)
        run_id = launch.run_id or hub.log_id
        options = _options(launch)
        on_ask = answering(launch.request.on_ask, loop_context.outbox.channel(run_id).put)
        options = replace(
            options, agent=replace(options.agent, on_ask=on_ask, gate=gate_of(launch, loop_context))
        )
        return RlmRun(loop_context, options, context, run_id=run_id, inbox=inbox)

    return LoopWorker(launch, hub, on_end, open_run, redact=redact)


def read_context(path: str) -> str:
    """Empty when none was named. Raises UsageError when it cannot be read."""
    if not path:
        return ""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8-sig", "replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read the context {path}: {reason}", hint="give a text file with --context"
        ) from error


def _options(launch: Launch) -> RlmOptions:
    from harness.sources.models.registry import open_model
    from harness.sources.sandbox.sandbox import find_sandbox

    request = launch.request
    arguments = parse(request.extra_args)
    environ = launch.invocation.env
    options = RlmOptions(
        agent=AgentOptions(
            model=chosen_model(request.model, environ),
            permissions=permissions_for(request.permissions),
            system_prompt=request.append_system_prompt,
            max_iterations=request.limits.max_turns or MAX_ITERATIONS,
            max_budget_usd=request.limits.max_budget_usd,
            relay_deadline_s=request.ask_timeout_s or RELAY_DEADLINE_S,
            effort=request.effort,
            temperature=request.temperature,
            max_output_tokens=request.max_output_tokens,
            agent=launch.agent.name,
            version=launch.version,
        ),
        sandbox=find_sandbox(environ) if request.sandbox else None,
    )
    sub_model = open_model(arguments.sub_model, environ) if arguments.sub_model else None
    return arguments.applied(options, sub_model)
