"""How an agent of our own works: its model, its tools, what it may do, and where it stops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from harness.events import Relay, RelayReply, Signal
from harness.sources.loop.permissions import PermissionPolicy, Permissions
from harness.sources.loop.tool_messages import denied
from harness.sources.loop.turns import StepContext
from harness.sources.model import Ask, Model, ToolSpec, Turn
from harness.sources.request import OWN_AGENT
from harness.sources.tool import Tool, ToolOutput

if TYPE_CHECKING:
    from harness.sources.budget_gate import LoopGate


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Sub-agents work by the same options, but for the last three; `permissions` is one object for all of them."""

    model: Model
    tools: tuple[Tool, ...] = ()
    more_tools: Callable[[], Sequence[Tool]] | None = None
    """Called before every step: more tools besides `tools`, whose names take precedence."""
    permissions: PermissionPolicy = msgspec.field(default_factory=Permissions)
    system_prompt: str = ""
    max_iterations: int = 10
    """Model calls; when they are used up, one more asks for a summary, without tools."""
    max_depth: int = 3
    """How deep sub-agents may nest."""
    max_budget_usd: float | None = None
    """For the whole tree of runs."""
    gate: LoopGate | None = None
    """Asked before every model call: whether a limit of `harness budget` is reached."""
    relay_deadline_s: float | None = 300.0
    """A question that is not answered in time counts as refused. None: wait for ever."""
    on_ask: Callable[[Relay], RelayReply | None] | None = None
    """Called first, and may answer at once. None, or an answer of None: a person has to answer."""
    tool_deadline_s: float | None = None
    """A call that takes longer is stopped, and has failed."""
    most_output_characters: int = 200_000
    """What is longer is shortened in its middle, for the model and the log."""
    context_window: int | None = None
    """How many tokens the model can read; None: looked up by its name. A conversation that comes near it is
    summed up, unless `before_step` is there to choose what is sent."""
    max_output_tokens: int | None = None
    temperature: float | None = None
    effort: str = ""
    request: Mapping[str, Any] = {}
    """Passed on to the tools, as `ToolContext.request`."""
    refusal: Callable[[str], ToolOutput] = denied
    """What a call gives that was not allowed, and why."""
    ask_permission: Callable[[Relay, float | None], Awaitable[RelayReply]] | None = None
    """Asks for permission, within the deadline, instead of a reader of the log. The log has it too."""
    agent: str = OWN_AGENT
    """The name that the log gives it."""
    version: str = ""
    on_output: Callable[[str, ToolOutput], None] | None = None
    """Called with every output and the call's id, for programs that want `ToolOutput.result`."""
    before_step: Callable[[StepContext], Awaitable[Sequence[Turn] | None]] | None = None
    """Asked before every model call; may give the turns to send instead of all, without the system prompt.
    Turns that are passed on unchanged should be the same objects: they are encoded once."""
    after_answer: Callable[[str], Awaitable[str | Signal | None]] | None = None
    """Asked when the run would end, with the answer; a text is put to the model as a reminder, or a signal as it
    is, and the run continues."""
    stop_when: Callable[[StepContext], bool] | None = None
    """Asked when the calls of a step are done; true ends the run there. `step_number` is that of the next step."""

    @property
    def wants_entries(self) -> bool:
        """Whether a function of the options is given the entries of the transcript."""
        return self.before_step is not None or self.stop_when is not None

    def ask(self, turns: Sequence[Turn], tools: Sequence[ToolSpec] = ()) -> Ask:
        """What the model is asked with."""
        return Ask(
            turns=turns,
            tools=tools,
            max_output_tokens=self.max_output_tokens,
            temperature=self.temperature,
            effort=self.effort,
        )
