"""What a loop may call: the contract of a tool, and what it is given and gives back.

A class that inherits `Tool` gets the defaults of `operations` and `permission`; any typed function
becomes one with `harness.native.tools.function_tool.tool`.

Rules
1. `run` may be called several times at once, and is cancelled like any coroutine: it then ends what it
   started (processes, connections) and lets the cancellation pass. What has to continue after a call is a
   `resource` of the run.
2. What goes wrong is raised. `ToolFailure` carries a message for the model; of any other exception the
   model gets type and text. The run continues either way.
3. `operations` does no I/O, and says what the call will do before it does it: permission is decided by
   it. A tool that starts a program says `Command`, whatever the program is. No operations means
   unknown, and counts as dangerous.
4. The text of the output goes to the model; `result` is for the program around the loop.
5. A tool may wait for a person's answer: `answer = await context.suspend(payload)`. The run then releases
   everything, maybe for days; when the answer is there, the tool is called again with the same arguments and
   `suspend` gives the answer at once. So a tool does nothing before it suspends that it must not do twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from harness.approvals.arguments import SHELL_ACTIVE, spelled
from harness.approvals.command_fragments import says_what_runs
from harness.approvals.globs import escaped
from harness.contracts.file_times import FileTimes, StaleFile
from harness.contracts.model import Attachment, ToolSpec
from harness.contracts.subagent import SubagentWish
from harness.events import Operation, Task

__all__ = [
    "Attachment",
    "Categorised",
    "FileChange",
    "FileTimes",
    "Previewing",
    "Question",
    "QuestionKind",
    "Renamed",
    "Resource",
    "StaleFile",
    "Suspension",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolOutput",
    "ToolPermission",
    "ToolSpec",
    "category_of",
    "derived_permission",
    "spelled",
]


class ToolFailure(Exception):
    """A call that did not work; the text is what the model reads."""


QuestionKind: TypeAlias = Literal["question", "plan", "tool"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a call waits for."""

    kind: QuestionKind
    payload: Any = None
    question: str = ""
    options: list[str] | None = None
    schema: Any = None


class Suspension(BaseException):  # not an error, and no tool should catch it
    """Ends the coroutine of a call that waits. Tools let it pass."""

    def __init__(self, question: Question) -> None:
        super().__init__("the call waits for an answer")
        self.question = question


class ToolPermission(msgspec.Struct, frozen=True, omit_defaults=True):
    """Calls of a tool, all of them or those whose arguments match."""

    tool: str
    params: dict[str, str] | None = None
    """Argument → glob: `*` is any text (also `/`, blanks and line ends), `?` one character, `[ab]` one of these,
    `{a,b}` either, a backslash takes the next character as it is. Arguments that are not listed are free."""
    closed: bool = False
    """Only calls that have no other arguments than those of `params`."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a call would leave it; None where there is none."""

    path: str
    before: str | None
    after: str | None


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call: `text` for the model, `result` for programs."""

    text: str
    """What the model reads."""
    result: Any = None
    """The same as data, for programs that show or evaluate it; in the log if it is JSON and not too large."""
    success: bool = True
    exit_code: int | None = None
    operations: list[Operation] | None = None
    """What the call really did, when more is known than before it ran."""
    attachments: tuple[Attachment, ...] = ()
    """Images and documents for the model."""
    tasks: list[Task] | None = None
    """The agent's whole to-do list, when the call has changed it: `TasksChanged` in the log."""


class Tool(Protocol):
    """A function that the model can call. Inherit this class, or decorate a typed function with `harness.tool`.

    Contract: the rules at the top of this module.

        class Weather(Tool):
            spec = ToolSpec("weather", "The weather of a city.", {"type": "object", "properties": {…}})

            async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
                return ToolOutput(text="sunny")
    """

    spec: ToolSpec

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        """What a call with these arguments will do; they are as the model wrote them, unchecked."""
        del arguments
        return ()

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        """What "always" allows when a person says it to a call with these arguments."""
        return derived_permission(self.spec.name, arguments)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Carry out one call and return its result. Raise `ToolFailure` with a message for the model if it fails."""
        ...


@runtime_checkable
class Categorised(Protocol):
    """What a tool may say besides, for rules that name a category."""

    category: str
    """`read`, `edit`, `execute`, `mcp` or `other`; empty: it is in none."""


@runtime_checkable
class Previewing(Protocol):
    """What a tool that changes files does besides."""

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Sequence[FileChange]:
        """Called before a person is asked about a call: what it would change, to be shown.

        It changes nothing, and raises what would keep the call from being carried out: then no one is asked.
        """
        ...


class Resource(Protocol):
    """What calls leave to later calls of their run, such as a background process. It ends with the run."""

    def kill(self) -> None:
        """End it at once, without waiting; nothing may be begun with it any more. Called once or more."""
        ...

    async def ended(self) -> None:
        """Wait until it has."""
        ...


def category_of(tool: Tool) -> str:
    # As `isinstance(tool, Categorised)` would find out, which takes 30 µs.
    category: str = getattr(tool, "category", "")
    return category


class Renamed(Tool):
    """A tool under another name, for the model and for every rule. Operations and category stay."""

    def __init__(self, tool: Tool, name: str) -> None:
        self.tool = tool
        self.spec = msgspec.structs.replace(tool.spec, name=name)
        self.category: str = category_of(tool)
        self.is_quick: bool = getattr(tool, "is_quick", False)

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return self.tool.operations(arguments)

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        return msgspec.structs.replace(self.tool.permission(arguments), tool=self.spec.name)

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Sequence[FileChange]:
        return await self.tool.preview(arguments, context) if isinstance(self.tool, Previewing) else ()

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        return await self.tool.run(arguments, context)


Stream: TypeAlias = Literal["", "stdout", "stderr"]
Made = TypeVar("Made", bound=Resource)


def _no_progress(text: str) -> None:
    del text


def _no_resource(make: Callable[[], Any]) -> Any:
    del make
    raise ToolFailure("nothing can go on after a call here: there is no run that would end it")


async def _no_spawn(task: str, name: str, wish: SubagentWish | None = None) -> str:
    del task, name, wish
    raise ToolFailure("sub-agents cannot be started here")


async def _no_answer(question: Question) -> Any:
    del question
    raise ToolFailure("there is no user to ask")


class ToolContext:
    """What one call is given: its working directory and environment, and the way to communicate with its run.

    The defaults are for calling a tool alone, without a run.
    """

    def __init__(
        self,
        *,
        cwd: str,
        env: Mapping[str, str] | None = None,
        run_id: str = "",
        call_id: str = "",
        files: FileTimes | None = None,
        on_progress: Callable[[str], None] = _no_progress,
        on_stream: Callable[[str, Stream], None] | None = None,
        on_spawn: Callable[..., Awaitable[str]] = _no_spawn,
        on_suspend: Callable[[Question], Awaitable[Any]] | None = None,
        on_ask: Callable[[Question], Awaitable[Any]] | None = None,
        on_resource: Callable[[Callable[[], Any]], Any] = _no_resource,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        """`on_spawn`: takes task and name, and a `SubagentWish` where there is one."""
        self.run_id = run_id
        self.call_id = call_id
        """`<run id>/<the model's id of the call>`."""
        self.cwd = cwd
        self.env: Mapping[str, str] = {} if env is None else env
        """For programs that the tool starts: without the secrets of ours, unless they were asked for."""
        self.files: FileTimes = FileTimes() if files is None else files
        self.request: Mapping[str, Any] = {} if request is None else request
        """Data the caller of the run passed along for its tools; the model does not see it."""
        self.cancelled = False
        """For code in a thread of its own, which cannot be interrupted: leave soon when this is true."""
        self._on_progress = on_progress
        self._on_stream = on_stream
        self.can_suspend: bool = on_suspend is not None
        """Whether a question can be answered here."""
        self._on_spawn = on_spawn
        self._on_resource = on_resource
        self._on_suspend = on_suspend or _no_answer
        self._on_ask = on_ask or _no_answer

    def progress(self, text: str, stream: Stream = "") -> None:
        """Show output of a call that is still running, from any thread; `stream`: stdout or stderr."""
        if stream and self._on_stream is not None:
            self._on_stream(text, stream)
        else:
            self._on_progress(text)

    async def spawn(self, task: str, name: str = "", wish: SubagentWish | None = None) -> str:
        """Give a task to a sub-agent, a run of its own, and wait for its answer. Raises ToolFailure."""
        return await (self._on_spawn(task, name) if wish is None else self._on_spawn(task, name, wish))

    def resource(self, make: Callable[[], Made]) -> Made:
        """What `make` returned at its first use in the run, until the run ends. Raises ToolFailure without a run."""
        resource: Made = self._on_resource(make)
        return resource

    async def suspend(
        self,
        payload: Any = None,
        *,
        kind: QuestionKind = "question",
        question: str = "",
        options: list[str] | None = None,
        schema: Any = None,
    ) -> Any:
        """Wait for the answer of a person, perhaps for days: the run ends, and the call is repeated with the answer.

        Args:
            payload: Data for the user interface that shows the question.
            kind: What is asked: a question, a plan to approve, or something of the tool's own.
            question: The question as text.
            options: Possible answers as text, if there is a choice.
            schema: The JSON Schema of the answer.

        Called a second time in the same call, it asks a second question. Raises ToolFailure when the question
        was refused, or not answered.

        """
        return await self._on_suspend(
            Question(kind=kind, payload=payload, question=question, options=options, schema=schema)
        )

    async def ask(
        self,
        payload: Any = None,
        *,
        kind: QuestionKind = "question",
        question: str = "",
        options: list[str] | None = None,
        schema: Any = None,
    ) -> Any:
        """Wait for the answer of a person within the call, which cannot be repeated; the run waits with it.

        `payload`, `kind`, `question`, `options` and `schema` are those of `suspend`.
        """
        return await self._on_ask(
            Question(kind=kind, payload=payload, question=question, options=options, schema=schema)
        )


def derived_permission(tool: str, arguments: Mapping[str, Any]) -> ToolPermission:
    """The default of `Tool.permission`: what begins with the same word, or the very same value, and no other
    arguments than these. Commands are offered as for any agent (`approvals.grants`).
    """
    params = {name: _pattern(spelled(value)) for name, value in arguments.items()}
    return ToolPermission(tool, params or None, closed=True)


def _pattern(text: str) -> str:
    """What is special in a glob is escaped: a grant never covers more than was seen when it was given.

    A text that could be several commands of a shell is taken as a whole: its first word says nothing of the others.
    So is one whose first word only says how something else is run (`env`, `sudo`, `A=b`).
    """
    first, space, _rest = text.partition(" ")
    if first and space and not SHELL_ACTIVE.search(text) and says_what_runs(first):
        return f"{escaped(first)} **"
    return escaped(text)
