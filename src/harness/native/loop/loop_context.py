"""What all runs of one conversation share: the log, open questions, files that were read, money that was spent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from harness.approvals.call import ProposedCall
from harness.contracts.file_times import FileTimes
from harness.contracts.model import Ask, Call, Model, ToolSpec, Turn
from harness.contracts.request import OWN_AGENT
from harness.contracts.tool import Tool, ToolOutput
from harness.contracts.worker import BeforeWork
from harness.conversation.turns import StepContext
from harness.events import Error, Event, Operation, Outcome, Relay, RelayReply, Signal, Usage
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.redact.withheld import withheld_from_tools
from harness.models.registry import window_of
from harness.models.served_window import is_own_server
from harness.native.loop.outbox import Outbox
from harness.native.loop.tool_messages import denied
from harness.questions.open_questions import OpenQuestions
from harness.questions.permissions import PermissionPolicy, Permissions
from harness.system.contract import system
from harness.usage.prices import Rate, prompt_size
from harness.usage.run_cost import unpriced_warning

if TYPE_CHECKING:
    from harness.native.loop.loop_gate import LoopGate


class LoopContext:
    """Made inside a running event loop, and used in its thread alone, except for `questions.reply`."""

    def __init__(
        self,
        hub: Hub,
        *,
        cwd: str,
        env: Mapping[str, str],
        secrets: Mapping[str, str] | None,
        cost_of: Callable[[str, Usage, Rate], float | None] | None = None,
        sandbox: str = "",
    ) -> None:
        """`env`: what tools get. `sandbox`: what confines them, by its name. `secrets`: what is masked in the log; None when nothing is."""
        loop = asyncio.get_running_loop()
        self.hub = hub
        self.cwd = cwd
        self.env = env
        self.sandbox = sandbox
        self.files: FileTimes = FileTimes()
        self.outbox: Outbox = Outbox(hub, loop, secrets)
        self.questions: OpenQuestions = OpenQuestions(loop)
        self.runs: dict[str, asyncio.Task[Any]] = {}
        """Runs under way, by run id; cancelling the task stops the run."""
        self.stopped: Outcome | None = None
        """Set when the conversation was ended from outside: how its runs are to end."""
        self.has_output = False
        """Whether any model has answered anything yet."""
        self.before_work: BeforeWork | None = None
        """Awaited ahead of the calls of every run, where its options have nothing of their own."""
        self.spent_usd: float = 0.0
        self.unpriced: set[str] = set()
        """Models that were used without a known price."""
        self._unpriced_told: set[str] = set()
        self.cost_of = cost_of
        """The price of a use of a model, where the provider does not say; None: it is not computed."""
        self._abandoned: set[asyncio.Task[Any]] = set()

    def new_id(self) -> str:
        return new_run_id(self.hub.clock())

    def abandon(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Stop waiting for these; they are referenced until they end, or the loop does."""
        for task in tasks:
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)

    def priced(self, model: str, usage: Usage) -> Usage:
        """The usage with its price, where the provider did not say and `cost_of` knows."""
        if usage.cost_usd is None and self.cost_of is not None:
            cost_usd = self.cost_of(model, usage, Rate(over=prompt_size(usage)))
            if cost_usd:  # a price of 0 is left out
                usage = usage.plus(Usage(cost_usd=cost_usd, cost_source="computed"))
            elif cost_usd is None and model not in self.unpriced and usage:
                self.unpriced.add(model)
        self.spent_usd += usage.cost_usd or 0.0
        return usage

    def unpriced_warnings(self, options: AgentOptions) -> list[Event]:
        """Of models that the budget of a run does not count, each once; `harness budget` says so itself."""
        has_budget = options.max_budget_usd is not None and options.gate is None
        if not has_budget or is_own_server(options.model.name):
            return []
        news = sorted(self.unpriced - self._unpriced_told)
        self._unpriced_told.update(news)
        return [unpriced_warning(model) for model in news]


def environment_for_tools(environ: Mapping[str, str], asked_for: Mapping[str, str]) -> dict[str, str]:
    """Without what looks like a secret, but with everything that was asked for by name.

    From now on tools may run: what they are not given they must not be able to read from this process either.
    """
    system.refuse_inspection()
    system.wipe_environment(withheld_from_tools)
    withheld = withheld_from_tools(environ)
    return {**{name: value for name, value in environ.items() if name not in withheld}, **asked_for}


# How an agent of our own works: its model, its tools, what it may do, and where it stops.


_LEAST_OUTPUT = 8_000
"""Characters of an output that are shown to a model with the smallest window."""

BeforeStep: TypeAlias = Callable[[StepContext], Awaitable[Sequence[Turn] | None]]


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Sub-agents work by the same options, but for the last three; `permissions` is one object for all of them."""

    model: Model
    tools: tuple[Tool, ...] = ()
    more_tools: Callable[[], Sequence[Tool]] | None = None
    """Called before every step: more tools besides `tools`, whose names take precedence."""
    permissions: PermissionPolicy = msgspec.field(default_factory=Permissions)
    system_prompt: str = ""
    lasting_prompt: str = ""
    """Put before `system_prompt`. A conversation keeps the one that it began with, in every process: it is in the log. What
    is new in a later one is said in a message instead."""
    news: Callable[[str, str], str] | None = None
    """Given the lasting prompt of the conversation and the one of now: what a message says of the difference."""
    conversation_id: str = ""
    """Of the conversation over all its runs, for providers that keep what they have read by such a name."""
    max_iterations: int = 10
    """Model calls; when they are used up, one more asks for a summary, without tools."""
    max_depth: int = 3
    """How deep sub-agents may nest."""
    max_budget_usd: float | None = None
    """For the whole tree of runs."""
    max_tokens: int | None = None
    """That the run itself may use, read and written."""
    at_limit: Literal["end", "ask", "summarise"] | None = None
    """What is done at the limit of model calls, tokens or money; see `Limits`."""
    gate: LoopGate | None = None
    """Asked before every model call: whether a limit of `harness budget` is reached."""
    relay_deadline_s: float | None = 300.0
    """A question that is not answered in time counts as refused. None: wait for ever."""
    on_ask: Callable[[Relay], RelayReply | None] | None = None
    """Called first, and may answer at once. None, or an answer of None: a person has to answer."""
    tool_deadline_s: float | None = None
    """A call that takes longer is stopped, and has failed."""
    restates_tasks: bool = True
    """Whether open tasks are stated anew after a summary; false where somebody else does."""
    stops_repeats: bool = False
    """Whether a model is told, and then stopped, that makes the same call with the same result again and again."""
    most_output_characters: int = 200_000
    """What is longer is shortened in its middle, for the model and the log; less where the window is small."""
    context_window: int | None = None
    """How many tokens the model can read; None: looked up by its name. A conversation that comes near it is
    summed up, unless `before_step` chooses what is sent."""
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
    before_step: BeforeStep | None = None
    """Asked before every model call; may give the turns to send, without the system prompt. None: all of them, summed
    up when they become too many.
    Turns that are passed on unchanged should be the same objects: they are encoded once."""
    after_answer: Callable[[str], Awaitable[str | Signal | Error | None]] | None = None
    """Asked when the run would end, with the answer; a text is put to the model as a reminder, or a signal as it
    is, and the run continues. With an error it fails."""
    before_call: (
        Callable[[Call, Callable[[dict[str, Any]], ProposedCall]], Awaitable[Call | str | None]] | None
    ) = None
    """Asked before anybody is asked for permission: gives the call as it is to be carried out, or why it may not be.
    The function says what the call means with these arguments."""
    before_work: BeforeWork | None = None
    """Told what calls that are allowed mean, just before they run."""
    before_run: Callable[[Call, Sequence[Operation]], Awaitable[None]] | None = None
    """Told what a call means that is allowed, right before it runs."""
    after_call: Callable[[Call, ToolOutput], Awaitable[ToolOutput]] | None = None
    """Given what a call gave; gives what the model and the log get."""
    schema: dict[str, Any] | None = None
    """The answers of the model are JSON of this schema, where its API knows how; sub-agents answer as they like."""
    stop_when: Callable[[StepContext], bool] | None = None
    """Asked when the calls of a step are done; true ends the run there. `step_number` is that of the next step."""

    def prompt(self, lasting: str = "") -> str:
        """The system prompt; `lasting`: what the conversation began with, if it has begun."""
        return "\n\n".join(part for part in (lasting or self.lasting_prompt, self.system_prompt) if part)

    def window(self) -> int:
        """How many tokens the model can read."""
        return self.context_window or window_of(self.model.name)

    @property
    def longest_output(self) -> int:
        """Characters: no output takes more than an eighth of what the model can read, at four characters a token."""
        return min(self.most_output_characters, max(_LEAST_OUTPUT, self.window() // 2))

    @property
    def wants_entries(self) -> bool:
        """Whether a function of the options is given the entries of the transcript."""
        return self.before_step is not None or self.stop_when is not None

    def ask(
        self, turns: Sequence[Turn], tools: Sequence[ToolSpec] = (), schema: dict[str, Any] | None = None
    ) -> Ask:
        """What the model is asked with. `schema`: that of the answer."""
        return Ask(
            turns=turns,
            tools=tools,
            max_output_tokens=self.max_output_tokens,
            temperature=self.temperature,
            effort=self.effort,
            schema=schema,
            conversation_id=self.conversation_id,
        )
