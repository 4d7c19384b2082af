"""What a caller asks of a run: one dataclass, from which command line and library both derive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Permissions: TypeAlias = Literal["full-access", "read-only", "agent-default"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Each of these ends the run with its own outcome. None: no limit."""

    timeout_s: float | None = None
    """Wall time of the whole run."""
    first_output_s: float | None = None
    """From the start to the agent's first byte."""
    inactivity_s: float | None = None
    """Between two pieces of output."""
    max_turns: int | None = None
    max_budget_usd: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Empty strings mean "not asked for": the agent's own default then holds."""

    agent: str
    prompt: str = ""
    cwd: str = ""
    model: str = ""
    permissions: Permissions = "full-access"
    resume: str = ""
    """The agent's own session id to go on with."""
    continue_last: bool = False
    """Go on with the agent's latest session in this directory."""
    system_prompt: str = ""
    append_system_prompt: str = ""
    extra_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Set in the agent's environment, over the inherited one."""
    binary: str = ""
    recording: str = ""
    """A recorded stream to play instead of starting an agent (agent `replay`)."""
    native: str = ""
    """The agent whose format the output has, when it is not `agent` itself (replays)."""
    limits: Limits = Limits()
