"""Typed results: an answer that is JSON of a schema, decoded, checked, and asked for again while it does not fit.

    outcome = await session.send_message(content=diff, output=Review)

How the model is told, by what can be done: with a schema of its API, or, where that API takes no schema beside
tools, with a tool `final_answer`. An agent program is given the schema in words. Whatever was asked, the answer is
decoded here, and an answer that does not fit is sent back with the reason.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

import msgspec

from harness.contracts.model import ToolSpec
from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # of the type checker alone: this default comes with Python 3.13

    Value = TypeVar("Value", default=None)
else:
    from typing import TypeVar

    Value = TypeVar("Value")

How: TypeAlias = Literal["auto", "schema", "tool"]
FINAL_ANSWER = "final_answer"
INVALID = "output_invalid"
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
_HINT = "give a pydantic model, a msgspec Struct, a dataclass, a TypedDict, a plain type or a JSON Schema"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output(Generic[Value]):
    """What an answer has to be, with more than its type.

    Args:
        type: A pydantic model, a msgspec Struct, a dataclass, a TypedDict, or any type that JSON can be read as.
        retries: How often an answer that does not fit is sent back.
        how: `schema` of the model's API, a `tool`, or whichever fits that API.
        check: More than types can say: called with the result, it returns what is wrong with it, or None. Plain or
            async.

    """

    type: type[Value]
    retries: int = 2
    how: How = "auto"
    check: Callable[[Value], str | Awaitable[str | None] | None] | None = None

    @staticmethod
    def json(
        schema: Mapping[str, Any],
        *,
        retries: int = 2,
        how: How = "auto",
        check: Callable[[Any], str | Awaitable[str | None] | None] | None = None,
    ) -> Output[dict[str, Any]]:
        """The same for a `schema` that is a JSON Schema of an object; needs the extra `schema`.

        `retries`, `how` and `check` are those of `Output`.
        """
        kind: Any = dict(schema)
        return Output(type=kind, retries=retries, how=how, check=check)


class OutputShape:
    """A type as a JSON Schema of an object, and its decoder. Raises UsageError for what cannot be one."""

    def __init__(self, kind: Any) -> None:
        try:
            schema, self._decode = _shape_of(kind)
            self.schema: dict[str, Any] = schema
        except (TypeError, ValueError, RecursionError) as error:
            why = str(error).rpartition("\n")[2]  # of several lines of msgspec, the last says it
            raise UsageError(f"output: this type cannot be asked for: {why}", hint=_HINT) from error
        self._is_wrapped = self.schema.get("type") != "object"
        if self._is_wrapped:  # APIs want an object at the top
            definitions = self.schema.pop("$defs", None)
            self.schema = {
                "type": "object",
                "properties": {"result": self.schema},
                "required": ["result"],
                **({"$defs": definitions} if definitions else {}),
            }

    def read(self, text: str) -> Any:
        """The result in a text: all of it, its last fenced block, or what is between braces. Raises ValueError."""
        problem = "" if text.strip() else "it is empty"
        for candidate in _candidates(text):
            try:
                data = msgspec.json.decode(candidate)
            except msgspec.DecodeError as error:
                not_json = f"it is no JSON: {error}"
                problem = problem or not_json
                continue
            try:
                return self.convert(data)
            except ValueError as error:
                problem = str(error)
        raise ValueError(problem)

    def convert(self, data: Any) -> Any:
        """The result of JSON data. Raises ValueError."""
        if self._is_wrapped and isinstance(data, dict) and set(data) == {"result"}:
            data = data["result"]
        return self._decode(data)


_STRICT_WORDS = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "title")
) | {"description", "$ref", "$defs"}


def strict_schema(schema: Any) -> dict[str, Any] | None:
    """The schema as providers take it that hold a model to one; None where theirs cannot say what this one says."""
    try:
        strict: dict[str, Any] = _strict(schema)
    except ValueError:
        return None
    return strict


def _strict(schema: Any) -> dict[str, Any]:
    """Raises ValueError: an optional field, a free mapping, or a word that not all of them know."""
    if not isinstance(schema, Mapping) or not _STRICT_WORDS.issuperset(schema):
        raise ValueError("it is not strict")
    strict = dict(schema)
    for name in ("properties", "$defs"):
        if name in schema:
            strict[name] = {key: _strict(inner) for key, inner in schema[name].items()}
    if "items" in schema:
        strict["items"] = _strict(schema["items"])
    if "anyOf" in schema:
        strict["anyOf"] = [_strict(inner) for inner in schema["anyOf"]]
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        if set(fields) != set(schema.get("required", ())) or schema.get("additionalProperties", False):
            raise ValueError("it is open")
        strict["additionalProperties"] = False
    return strict


class WantedOutput:
    """What the answer of one run has to be, and what it was. `value` is unset until an answer fits."""

    def __init__(self, output: Output[Any]) -> None:
        self.shape: OutputShape = OutputShape(output.type)
        self.how: How = output.how
        self.value: Any = msgspec.UNSET
        self.problem: str = ""
        """What was wrong with the last answer."""
        self._retries_left = output.retries
        self._check = output.check

    @classmethod
    def of(cls, value: Any) -> WantedOutput | None:
        """Raises UsageError for what is no output."""
        if value is None:
            return None
        output = value if isinstance(value, Output) else Output(type=value)
        if not isinstance(output.retries, int) or isinstance(output.retries, bool) or output.retries < 0:
            raise UsageError(f"output: retries cannot be {output.retries!r}", hint="give a whole number")
        if output.how not in ("auto", "schema", "tool"):
            raise UsageError(f"output: how cannot be {output.how!r}", hint="auto, schema or tool")
        if output.check is not None and not callable(output.check):
            raise UsageError("output: check cannot be called", hint="give a function of the result")
        return cls(output)

    @property
    def has_value(self) -> bool:
        return self.value is not msgspec.UNSET

    @property
    def is_exhausted(self) -> bool:
        return not self.has_value and self._retries_left < 0

    @property
    def is_settled(self) -> bool:
        """Whether no other answer is wanted."""
        return self.has_value or self.is_exhausted

    @property
    def words(self) -> str:
        """Why the run has failed."""
        return f"no answer fitted what was asked for; the last: {self.problem}"

    async def take(self, text: str) -> str:
        """Take an answer; returns what is wrong with it, else nothing."""
        return await self._take(lambda: self.shape.read(text))

    async def take_data(self, data: Any) -> str:
        """The same for an answer that is data already."""
        return await self._take(lambda: self.shape.convert(data))

    async def _take(self, read_answer: Callable[[], Any]) -> str:
        try:
            value = read_answer()
            problem = self._check(value) if self._check is not None else None
            if inspect.isawaitable(problem):
                problem = await problem
        except ValueError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 # a check of the application
            problem = f"the check of the result failed: {error!r}"
        if problem:
            self.problem = str(problem)[:2000]
            self._retries_left -= 1
            return self.problem
        self.value = value
        return ""

    def request(self) -> str:
        """What an agent is told that takes no schema."""
        schema = msgspec.json.encode(self.shape.schema).decode()
        return (
            "When the work is done, the last message must be JSON alone, without any other text, "
            f"which satisfies this JSON Schema:\n{schema}"
        )

    def again(self, problem: str) -> str:
        """The reminder after an answer that does not fit."""
        schema = msgspec.json.encode(self.shape.schema).decode()
        return (
            f"The answer does not fit: {problem}\nGive it again, corrected, as JSON alone that satisfies this JSON "
            f"Schema:\n{schema}"
        )


class FinalAnswerTool(Tool):
    """Takes the result where the model's API has no schema for answers."""

    def __init__(self, output: WantedOutput) -> None:
        self._output = output
        text = "Give the result, when the work is done. Nothing is called after it."
        self.spec = ToolSpec(FINAL_ANSWER, text, output.shape.schema)

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission(FINAL_ANSWER)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        if problem := await self._output.take_data(arguments):
            raise ToolFailure(f"the result does not fit: {problem}")
        return ToolOutput(text="The result was taken.")


def _shape_of(kind: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    if isinstance(kind, Mapping):
        return dict(kind), _json_schema_decoder(dict(kind))
    if isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_json_schema"):
        return _inlined(kind.model_json_schema()), _pydantic_decoder(kind)
    msgspec.json.Decoder(kind)  # raises TypeError for a type that it cannot read

    def decode(data: Any) -> Any:
        return msgspec.convert(data, kind, strict=False, str_keys=True)

    return _inlined(msgspec.json.schema(kind)), decode


def _pydantic_decoder(kind: Any) -> Callable[[Any], Any]:
    def decode(data: Any) -> Any:
        return kind.model_validate_json(msgspec.json.encode(data))

    return decode


def _json_schema_decoder(schema: dict[str, Any]) -> Callable[[Any], Any]:
    try:
        import jsonschema
    except ImportError as error:
        raise MissingExtra("a JSON Schema needs the package jsonschema", "schema") from error
    validator = jsonschema.validators.validator_for(schema)
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(error.message) from error
    problems_of = validator(schema).iter_errors

    def decode(data: Any) -> Any:
        places = [("/".join(map(str, error.absolute_path)), error.message) for error in problems_of(data)]
        if places:
            raise ValueError(
                "; ".join(f"{place}: {message}" if place else message for place, message in places)
            )
        return data

    return decode


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose top is an object and not a reference to one, which most APIs refuse."""
    reference, definitions = schema.get("$ref", ""), schema.get("$defs", {})
    name = str(reference).removeprefix("#/$defs/")
    if not reference or name not in definitions:
        return schema
    rest = {key: value for key, value in definitions.items() if key != name}
    is_recursive = f'"#/$defs/{name}"'.encode() in msgspec.json.encode(definitions)
    kept_definitions = definitions if is_recursive else rest
    return {**definitions[name], **({"$defs": kept_definitions} if kept_definitions else {})}


def _candidates(text: str) -> list[str]:
    whole = text.strip()
    fenced = [block.strip() for block in reversed(_FENCED.findall(text))]
    first, last = whole.find("{"), whole.rfind("}")
    braces = [whole[first : last + 1]] if 0 <= first < last else []
    return [candidate for candidate in (whole, *fenced, *braces) if candidate]
