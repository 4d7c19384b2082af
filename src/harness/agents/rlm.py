"""A model that works on a text of any length by writing programs: `--agent rlm --context FILE --prompt …`.

After `--`: --max-depth N, --sub-model NAME, --exec-timeout S, --time-limit S, --memory-limit-mb N,
--max-output N; and --unconfined-repl, which lets the model's code do whatever you may.
"""

from __future__ import annotations

from harness.contracts.agent import Agent
from harness.contracts.command_line import no_program
from harness.protocols.own_events import OwnEvents

AGENT = Agent(
    name="rlm",
    title="Recursive language model",
    binaries=(),
    command=no_program,
    translator=OwnEvents,
    work="harness.native.rlm.rlm_loop:start",
    supports=frozenset(
        {
            "model",
            "on_ask",
            "ask_timeout_s",
            "effort",
            "temperature",
            "max_output_tokens",
            "extra_args",
            "max_turns",
            "max_budget_usd",
            "append_system_prompt",
            "read-only",
            "agent-default",
            "sandbox",
        }
    ),
    key_variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    install="part of Harness; it needs a key of a model API, or a local model",
    reveals={
        "deltas": "yes",
        "reasoning": "yes, where the model shows it",
        "tools": "commands, with permission and operations; code and what it prints",
        "sub_agents": "yes, each query is a run of its own",
        "usage": "per model call",
        "cost": "where the model API states it, otherwise computed from prices",
        "result": "yes",
    },
)
