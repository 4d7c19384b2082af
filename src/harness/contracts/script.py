"""Scripts: what a scripted model says, turn by turn. One format for `scripted/FILE`, the lab and its scenarios.

    turns = [
      [{ text = "Let me look." }, { tool = "list", input = {} }],
      { text = "Done." },
    ]

    [lanes.counter]                      # a second conversation: the one whose opening has the marker
    marker = "COUNT-FILES"
    turns = [{ tool = "bash", input = { command = "ls | wc -l" } }, { text = "Two." }]

A turn is a part or a list of parts; several calls in one turn are made at once. The parts:

    text, reasoning      what the model says
    tool                 a call of a tool by its name
    call                 a call by intent, which becomes a tool of the agent that runs (the lab only)
    usage                the tokens of this turn, where those of the file do not fit
    stop                 why the model ends here, if it is neither its own decision nor a call
    error                the answer fails here
    fault                what goes wrong on the wire, and how often (the lab only)

A value of a `tool` call's input may be `"{{expression}}"`: the first match of that regular expression
(of its group, if it has one) in the latest tool results; `"{{2 expression}}"` is the second, and
`"{{all expression}}"` the list of all. Digits become a number.

Here are the types; `script_file` reads files, and the older spellings of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from harness.events import Usage

MAIN = "main"
"""The conversation whose turns are at the top of the file; it is used where no other marker matches."""

_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Positive: TypeAlias = Annotated[int, Meta(ge=1)]
_Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Times: TypeAlias = _Positive | Literal["always"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ScriptText(_Part, frozen=True, kw_only=True):
    text: str
    pieces: _Positive | None = None
    """The number of pieces in which it is streamed."""


class ScriptReasoning(_Part, frozen=True, kw_only=True):
    reasoning: str
    pieces: _Positive | None = None


class ScriptToolCall(_Part, frozen=True, kw_only=True):
    tool: str
    input: dict[str, Any] | str = {}
    """A string is for tools that take free text; if there are none, it is sent unchanged."""
    id: str = ""
    """The id of the call, if the script sets it; the lab generates its own."""
    namespace: str = ""
    """The namespace of the Responses API."""
    literal: bool = False
    """Whether `{{…}}` in the input is plain text."""


class ScriptError(_Part, frozen=True, kw_only=True):
    """The answer fails here. The lab refuses the request with status 500."""

    error: str
    code: str = "scripted"


class Alternatives(msgspec.Struct, frozen=True):
    """Calls for one intent, the newest form first: what the agent offers decides. No script has it."""

    calls: tuple[ScriptToolCall, ...]


class ScriptUsage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tokens of a turn, as a script has them. `input` is without what is cached, `output` without reasoning."""

    input: _Count | None = None
    output: _Count | None = None
    cache_read: _Count | None = None
    cache_write: _Count | None = None
    reasoning: _Count | None = None


def _spelled(class_name: str) -> str:
    """`ReadIntent` is `read` in a script."""
    return class_name.removesuffix("Intent").lower()


class _Intent(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="call", tag=_spelled
):
    """What an agent is asked to do; a fixture of the lab says which of its tools that is. Paths are as written."""


class ReadIntent(_Intent, frozen=True, kw_only=True):
    path: str
    lines: tuple[int, int] | None = None
    """First and last line, both included, from 1."""


class WriteIntent(_Intent, frozen=True, kw_only=True):
    path: str
    content: str


class EditIntent(_Intent, frozen=True, kw_only=True):
    path: str
    old: str
    new: str


class PatchIntent(_Intent, frozen=True, kw_only=True):
    patch: str
    """Several files at once: `*** Begin Patch … *** End Patch`."""


class RunIntent(_Intent, frozen=True, kw_only=True):
    command: str


class SearchIntent(_Intent, frozen=True, kw_only=True):
    query: str
    path: str = "."


class ListIntent(_Intent, frozen=True, kw_only=True):
    path: str = "."


class ScriptTodoItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class TodoIntent(_Intent, frozen=True, kw_only=True):
    items: tuple[ScriptTodoItem | str, ...]

    @property
    def entries(self) -> tuple[ScriptTodoItem, ...]:
        return tuple(ScriptTodoItem(text=item) if isinstance(item, str) else item for item in self.items)


class SkillIntent(_Intent, frozen=True, kw_only=True):
    name: str


class AgentIntent(_Intent, frozen=True, kw_only=True):
    """A sub-agent; the conversation whose marker is in the prompt answers it."""

    prompt: str
    title: str = "Sub-task"


class McpIntent(_Intent, frozen=True, kw_only=True):
    server: str
    tool: str
    input: dict[str, Any] = {}


class FetchIntent(_Intent, frozen=True, kw_only=True):
    url: str
    """One that begins with a slash is a page of the lab's own server."""


class AskIntent(_Intent, frozen=True, kw_only=True):
    """A question for the person at the other end of a two-way conversation."""

    question: str
    options: tuple[str, ...] = ()


class PlanIntent(_Intent, frozen=True, kw_only=True):
    """A plan that the person is to approve."""

    plan: str


Intent: TypeAlias = (
    ReadIntent
    | WriteIntent
    | EditIntent
    | PatchIntent
    | RunIntent
    | SearchIntent
    | ListIntent
    | TodoIntent
    | SkillIntent
    | AgentIntent
    | McpIntent
    | FetchIntent
    | AskIntent
    | PlanIntent
)

INTENTS: dict[str, type[Intent]] = {
    _spelled(kind.__name__): kind
    for kind in (
        ReadIntent,
        WriteIntent,
        EditIntent,
        PatchIntent,
        RunIntent,
        SearchIntent,
        ListIntent,
        TodoIntent,
        SkillIntent,
        AgentIntent,
        McpIntent,
        FetchIntent,
        AskIntent,
        PlanIntent,
    )
}


def intent_name(intent: Intent) -> str:
    """As a script spells it."""
    return _spelled(type(intent).__name__)


_Status: TypeAlias = Literal[
    "400", "401", "402", "403", "404", "408", "409", "413", "422", "429", "500", "502", "503", "504", "529"
]


class StatusFault(_Part, frozen=True, kw_only=True):
    """The request is refused with this HTTP status."""

    fault: _Status
    times: Times = 1
    """How many requests for this turn fail; then the turn is answered, and the count starts again."""
    retry_after_s: _Seconds | None = None
    message: str = ""
    after: _Count | None = None
    """A stream begins normally and fails after this many events; a request without streaming is refused."""


class DropFault(_Part, frozen=True, kw_only=True):
    """The connection is closed in the middle of the turn's first part."""

    fault: Literal["drop"]
    times: Times = 1
    after: _Count | None = None
    """After this many stream events instead; 0 closes before the answer begins."""


class SlowFault(_Part, frozen=True, kw_only=True):
    fault: Literal["slow"]
    times: Times = "always"
    pause_s: _Seconds = 0.25
    """The pause before every stream event."""
    wait_s: _Seconds = 0
    """The wait before the answer begins."""


class ArgumentsFault(_Part, frozen=True, kw_only=True):
    """The arguments of the turn's calls are cut off, and so are no JSON."""

    fault: Literal["malformed_arguments"]
    times: Times = "always"


class HugeFault(_Part, frozen=True, kw_only=True):
    """A text of this size comes last."""

    fault: Literal["huge"]
    times: Times = "always"
    bytes: _Positive = 1_000_000


Fault: TypeAlias = StatusFault | DropFault | SlowFault | ArgumentsFault | HugeFault
FAULTS: dict[str, type[Fault]] = {
    **dict.fromkeys(get_args(_Status), StatusFault),
    "drop": DropFault,
    "slow": SlowFault,
    "malformed_arguments": ArgumentsFault,
    "huge": HugeFault,
}
ScriptStop: TypeAlias = Literal["length", "refusal"]
ScriptOrder: TypeAlias = Literal["conversation", "arrival"]
ScriptPart: TypeAlias = ScriptText | ScriptReasoning | ScriptToolCall | ScriptError | Alternatives | Intent


class ScriptTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answers to one request."""

    parts: tuple[ScriptPart, ...]
    faults: tuple[Fault, ...] = ()
    usage: Usage = Usage()
    """Fields set neither by the turn nor by its file are None."""
    stop: str | None = None
    place: str = ""
    """Its position, for error messages: `file.toml:12`."""


class ScriptConversation(msgspec.Struct, frozen=True, kw_only=True):
    turns: tuple[ScriptTurn, ...]
    marker: str = ""
    order: ScriptOrder = "conversation"
    """How the next turn is chosen: by the number of answers in the conversation, or one after the other."""
    repeat_last: bool = False
    """After the last turn: repeat it."""
    start_over: bool = False
    """After the last turn: start again with the first."""

    def turn_at(self, index: int) -> ScriptTurn | None:
        """The turn for this index; None: the script is over."""
        if index < len(self.turns):
            return self.turns[index]
        if not self.turns or not (self.repeat_last or self.start_over):
            return None
        return self.turns[index % len(self.turns) if self.start_over else -1]


class SideRequests(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests beside the conversation (titles, summaries, checks), and their answer. For the lab only."""

    text: str = "Lab session"
    toolless: bool | None = None
    """Whether a request without tools is one. By default: yes for an agent with a fixture, else no."""
    markers: tuple[str, ...] = ()
    """Texts that only such a request contains."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    conversations: dict[str, ScriptConversation]
    """Name → conversation; the name is `main`, or that of a table of `lanes`."""
    side: SideRequests = SideRequests()
    pause_ms: int = 0
    """The pause before every piece of an answer."""
    name: str = "script"


_PLACEHOLDER = re.compile(r"\{\{(?:(all|each|[1-9]\d?) )?(.+)\}\}", re.DOTALL)


def fill_placeholders(value: Any, results: tuple[str, ...]) -> Any:
    """Fill the placeholders of an input from the latest results; without a match, with an empty text."""

    def match(which: str, expression: str) -> Any:
        texts = [
            match.group(match.lastindex or 0) for text in results for match in re.finditer(expression, text)
        ]
        values = [int(text) if text.isascii() and text.isdecimal() else text for text in texts]
        if which == "all":
            return values
        return values[int(which) - 1] if int(which) <= len(values) else ""

    return replace_placeholders(value, match)


def replace_placeholders(value: Any, replace: Callable[[str, str], Any]) -> Any:
    """Replace each placeholder of an input by `put(which, expression)`."""
    if isinstance(value, dict):
        return {name: replace_placeholders(inner, replace) for name, inner in value.items()}
    if isinstance(value, list):
        return [replace_placeholders(inner, replace) for inner in value]
    match = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else replace(match[1] or "1", match[2])


def wrong_expression(value: Any) -> str:
    """What is wrong with the expressions in an input; empty when they are valid."""
    mistakes: list[str] = []

    def check(_which: str, expression: str) -> None:
        try:
            re.compile(expression)
        except re.error as error:
            mistakes.append(f"{expression!r} is no regular expression: {error}")

    replace_placeholders(value, check)
    return next(iter(mistakes), "")
