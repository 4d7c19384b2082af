"""An agent in a sandbox runner (`harness runner`), on this machine or another: `--agent remote -- --runner URL …`.

After `--`: --runner URL or NAME (of the user's settings; or $HARNESS_RUNNER), --agent NAME (the agent there; default:
native), --cwd DIR (the workspace there), and --token-file FILE (or the token itself in $HARNESS_RUNNER_TOKEN).
"""

from __future__ import annotations

from harness.contracts.agent import Agent
from harness.contracts.command_line import no_program
from harness.contracts.request import REMOTE_AGENT
from harness.contracts.translator import Translator

AGENT = Agent(
    name=REMOTE_AGENT,
    title="Sandbox runner",
    binaries=(),
    command=no_program,
    translator=Translator,
    work="harness.runs.remotes.remote_run:start",
    supports=frozenset(
        {
            "extra_args",
            "model",
            "resume",
            "max_turns",
            "max_budget_usd",
            "system_prompt",
            "append_system_prompt",
            "read-only",
            "agent-default",
        }
    ),
    key_variables=("HARNESS_RUNNER", "HARNESS_RUNNER_TOKEN"),
    install="part of Harness; it needs a `harness runner` somewhere",
    reveals={"deltas": "as the agent there", "tools": "as the agent there", "usage": "as the agent there"},
)
