"""The agent of our own: a loop in this process around any model API. `--agent native --model provider/model`."""

from __future__ import annotations

from harness.contracts.agent import Agent
from harness.contracts.command_line import no_program
from harness.protocols.own_events import OwnEvents

AGENT = Agent(
    name="native",
    title="Harness agent",
    binaries=(),
    command=no_program,
    translator=OwnEvents,
    work="harness.native.loop.native:start",
    supports=frozenset(
        {
            "model",
            "on_ask",
            "ask_timeout_s",
            "effort",
            "temperature",
            "max_output_tokens",
            "context_window",
            "mcp",
            "sandbox",
            "resume",
            "continue_last",
            "max_turns",
            "max_budget_usd",
            "system_prompt",
            "append_system_prompt",
            "files",
            "read-only",
            "agent-default",
            "accept-edits",
        }
    ),
    key_variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    install="part of Harness; it needs a key of a model API, or a local model",
    reveals={
        "deltas": "yes",
        "reasoning": "yes, where the model shows it",
        "tools": "yes, with permission, progress and operations",
        "sub_agents": "yes, as runs of their own",
        "usage": "per model call",
        "cost": "where the model API states it, otherwise computed from prices",
        "result": "yes",
    },
)
