"""Scripts: what the scripted model says, turn by turn, in a TOML or JSON file that anybody can write.

    turns = [
      [{ text = "Let me look." }, { call = "read", path = "src/app.py", lines = [10, 20] }],
      { text = "Done." },
    ]

    [lanes.counter]                      # a second conversation: the sub-agent whose prompt has the marker
    marker = "COUNT-FILES"
    turns = [{ call = "run", command = "ls | wc -l" }, { text = "Two." }]

A turn is a part or a list of parts; several calls in one turn are made at once. The parts:

    text, reasoning      what the model says
    call                 a tool call by intent (see `harness.sources.models.script_intents`)
    tool                 a tool call by the agent's own name: { tool = "Bash", input = { command = "ls" } }
    usage                the tokens of this turn, where the file's own do not fit
    stop                 why the model ends here, if it is neither its own will nor a tool call
    fault                what goes wrong first, and how often

A value of a `tool` call's input may be `"{{expression}}"`: the first match of that regular expression
(of its group, if it has one) in the latest tool results; `"{{2 expression}}"` is the second, and
`"{{all expression}}"` the list of all. Digits become a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

# What a scripted model can ask an agent to do, said by meaning: a bench turns it into that agent's own tool.


def _spelled(class_name: str) -> str:
    """`ReadIntent` is `read` in a script."""
    return class_name.removesuffix("Intent").lower()


class _Intent(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="call", tag=_spelled
):
    """One call. Paths are as the script has them; a bench makes them absolute where its agent wants that."""


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


class TodoItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class TodoIntent(_Intent, frozen=True, kw_only=True):
    items: tuple[TodoItem | str, ...]

    @property
    def entries(self) -> tuple[TodoItem, ...]:
        return tuple(TodoItem(text=item) if isinstance(item, str) else item for item in self.items)


class SkillIntent(_Intent, frozen=True, kw_only=True):
    name: str


class AgentIntent(_Intent, frozen=True, kw_only=True):
    """A sub-agent; the lane whose marker is in the prompt answers it."""

    prompt: str
    title: str = "Sub-task"


class McpIntent(_Intent, frozen=True, kw_only=True):
    server: str
    tool: str
    input: dict[str, Any] = {}


class FetchIntent(_Intent, frozen=True, kw_only=True):
    url: str
    """One that begins with a slash is a page of the lab's own server."""


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
    )
}


def intent_name(intent: Intent) -> str:
    """As a script spells it."""
    return _spelled(type(intent).__name__)


MAIN = "main"
"""The lane of every conversation that has no other lane's marker."""

_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Positive: TypeAlias = Annotated[int, Meta(ge=1)]
_Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Times: TypeAlias = _Positive | Literal["always"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ScriptText(_Part, frozen=True, kw_only=True):
    text: str
    pieces: _Positive | None = None
    """In how many pieces it is streamed."""


class ScriptReasoning(_Part, frozen=True, kw_only=True):
    reasoning: str


class ScriptToolCall(_Part, frozen=True, kw_only=True):
    tool: str
    input: dict[str, Any] | str = {}
    """A string is for tools that take free text; where there are none, it is sent as it is."""
    namespace: str = ""
    """Of the Responses API."""


class Alternatives(msgspec.Struct, frozen=True):
    """Ways to call for one meaning, the newest first: the agent's own offer decides. No script has it."""

    calls: tuple[ScriptToolCall, ...]


class Tokens(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model call uses. `input` is without what is cached, `output` without reasoning."""

    input: _Count = 1000
    output: _Count = 50
    cache_read: _Count = 200
    cache_write: _Count = 0
    reasoning: _Count = 0


Status: TypeAlias = Literal[
    "400", "401", "402", "403", "404", "408", "409", "413", "422", "429", "500", "502", "503", "504", "529"
]


class StatusFault(_Part, frozen=True, kw_only=True):
    """The request is refused with this HTTP status."""

    fault: Status
    times: Times = 1
    """How many requests for this turn meet it; then the turn is answered, and it counts anew."""
    retry_after_s: _Seconds | None = None
    message: str = ""
    after: _Count | None = None
    """A stream begins well, and says this after so many events; what is not streamed is refused."""


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
    """Before every stream event."""
    wait_s: _Seconds = 0
    """Before the answer begins."""


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
    **dict.fromkeys(get_args(Status), StatusFault),
    "drop": DropFault,
    "slow": SlowFault,
    "malformed_arguments": ArgumentsFault,
    "huge": HugeFault,
}
Stop: TypeAlias = Literal["length", "refusal"]
TurnOrder: TypeAlias = Literal["conversation", "arrival"]
ScriptPart: TypeAlias = ScriptText | ScriptReasoning | ScriptToolCall | Alternatives | Intent


class ScriptTurn(msgspec.Struct, frozen=True, kw_only=True):
    parts: tuple[ScriptPart, ...]
    faults: tuple[Fault, ...] = ()
    tokens: Tokens = Tokens()
    stop: Stop | None = None
    place: str = ""
    """Where it stands, for error messages: `file.toml:12`."""


class ScriptConversation(msgspec.Struct, frozen=True, kw_only=True):
    turns: tuple[ScriptTurn, ...]
    marker: str = ""
    repeat_last: bool = False
    """The last turn again and again, instead of an end."""
    order: TurnOrder = "conversation"
    """How the turn is found: by the answers that the request already holds, or one after the other."""


class SideRequests(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests beside the conversation (titles, summaries, checks), and what they are told."""

    text: str = "Lab session"
    toolless: bool | None = None
    """Whether a request without tools is one. Unless said: yes for an agent on a bench, else no."""
    markers: tuple[str, ...] = ()
    """Texts that only such a request holds."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    lanes: dict[str, ScriptConversation]
    side: SideRequests = SideRequests()
    name: str = "script"


_PLACEHOLDER = re.compile(r"\{\{(?:(all|each|[1-9]\d?) )?(.+)\}\}", re.DOTALL)


def filled(value: Any, results: tuple[str, ...]) -> Any:
    """An input with what it takes from the latest results; where there is no match, with an empty text."""

    def match(which: str, expression: str) -> Any:
        found = [
            found.group(found.lastindex or 0) for text in results for found in re.finditer(expression, text)
        ]
        values = [int(text) if text.isascii() and text.isdecimal() else text for text in found]
        if which == "all":
            return values
        return values[int(which) - 1] if int(which) <= len(values) else ""

    return replace_placeholders(value, match)


def replace_placeholders(value: Any, put: Callable[[str, str], Any]) -> Any:
    """An input with another value for each placeholder: `put(which, expression)`."""
    if isinstance(value, dict):
        return {name: replace_placeholders(inner, put) for name, inner in value.items()}
    if isinstance(value, list):
        return [replace_placeholders(inner, put) for inner in value]
    found = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else put(found[1] or "1", found[2])


def wrong_expression(value: Any) -> str:
    """What is wrong with the expressions that an input holds; empty when nothing is."""
    mistakes: list[str] = []

    def check(_which: str, expression: str) -> None:
        try:
            re.compile(expression)
        except re.error as error:
            mistakes.append(f"{expression!r} is no regular expression: {error}")

    replace_placeholders(value, check)
    return next(iter(mistakes), "")
