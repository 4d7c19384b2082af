"""Reads script files. A mistake is reported with its file and line, what is wrong, and what is allowed.

Files of the older spelling of `scripted/FILE` (`[[responses]]` with `events`) are read too: the names that begin with
`_OLD` say how. docs/scripts.md has both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from harness.contracts.script import (
    FAULTS,
    INTENTS,
    MAIN,
    Fault,
    ReadIntent,
    Script,
    ScriptConversation,
    ScriptError,
    ScriptOrder,
    ScriptPart,
    ScriptReasoning,
    ScriptStop,
    ScriptText,
    ScriptToolCall,
    ScriptTurn,
    ScriptUsage,
    SideRequests,
    wrong_expression,
)
from harness.errors import UsageError
from harness.events import Usage
from harness.formats.fields import besides

# The line of each value in a TOML or JSON file, so that an error message can name it.
#
# The parsers of the standard library do not record positions. This reader assumes that the file has already
# been parsed successfully: it only follows brackets, keys and strings, and stops silently where it cannot.


Path: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(
    r'(?P<string>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<mark>[\[\]{},=:])"
    r"|(?P<bare>[^\s\[\]{},=:\#\"']+)",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int
    offset: int


class Positions:
    """Contract: `line` never raises; an unknown path has the line of the enclosing value."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {(): 1}
        self._tokens = list(_tokens(text))
        self._at = 0
        self._repeated: dict[Path, int] = {}
        """`[[name]]` → how many of these tables have been seen."""
        try:
            self._document()
        except IndexError:
            return

    def line(self, path: Path) -> int:
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def _document(self) -> None:
        if self._skip_newlines().text == "{":
            self._value(())
            return
        table: Path = ()
        while True:
            token = self._skip_newlines()
            if token.text == "[" and token.kind == "mark":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        first = self._take()
        is_repeated = self._peek().text == "[" and self._peek().offset == first.offset + 1
        if is_repeated:
            self._take()
        path = self._resolve(self._key("]"))
        for _ in range(1 + is_repeated):
            self._take()
        if is_repeated:
            number = self._repeated.get(path, 0)
            self._repeated[path] = number + 1
            path = (*path, number)
        self._lines.setdefault(path, first.line)
        return path

    def _resolve(self, keys: list[str]) -> Path:
        path: Path = ()
        for number, key in enumerate(keys):
            path = (*path, key)
            if path in self._repeated and number < len(keys) - 1:
                path = (*path, self._repeated[path] - 1)
        return path

    def _pair(self, table: Path) -> None:
        line = self._peek().line
        path = (*table, *self._key("=:"))
        self._take()
        self._value(path, line)

    def _key(self, ends: str) -> list[str]:
        keys: list[str] = []
        while (token := self._skip_newlines()).text not in ends or token.kind == "string":
            self._take()
            keys += [token.text[1:-1]] if token.kind == "string" else filter(None, token.text.split("."))
        return keys

    def _value(self, path: Path, line: int = 0) -> None:
        token = self._skip_newlines()
        self._lines[path] = line or token.line
        self._take()
        if token.kind != "mark":
            return
        if token.text == "[":
            number = 0
            while self._next_member("]"):
                self._value((*path, number))
                number += 1
        elif token.text == "{":
            while self._next_member("}"):
                self._pair(path)

    def _next_member(self, end: str) -> bool:
        """Skip commas; False when the end was reached and skipped too."""
        while (token := self._skip_newlines()).text in (",", end) and token.kind == "mark":
            self._take()
            if token.text == end:
                return False
        return True

    def _skip_newlines(self) -> _Token:
        while self._peek().kind == "newline":
            self._at += 1
        return self._peek()

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]


def _tokens(text: str) -> Iterator[_Token]:
    line, position = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        if match.lastgroup != "comment":
            yield _Token(str(match.lastgroup), match.group(), line, match.start())


_FIELDS = ("turns", "repeat_last", "start_over", "order", "usage", "pause_ms", "side", "lanes")
_CONVERSATION_FIELDS = ("marker", "turns", "repeat_last", "start_over", "order")
_PART_KEYS = ("call", "fault", "usage", "stop", "error", "tool", "reasoning", "text")
_PARTS = {"tool": ScriptToolCall, "reasoning": ScriptReasoning, "text": ScriptText, "error": ScriptError}

_OLD_FIELDS = ("responses", "lanes", "pause_ms", "goes_by")
_OLD_TURN_FIELDS = ("events", "stop_reason")
_OLD_PARTS = {
    "text": {"content": "text", "pieces": "pieces"},
    "reasoning": {"content": "reasoning", "pieces": "pieces"},
    "tool_call": {"name": "tool", "input": "input", "id": "id"},
    "error": {"message": "error", "code": "code"},
}
"""Kind → the old name of each field, and its current name. The first is required."""
_OLD_USAGE = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens", "reasoningTokens")
_OLD_ORDERS: dict[str, dict[str, Any]] = {"call": {"order": "arrival"}, "conversation": {"start_over": True}}

_LANE_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
_PATH_IN_REASON = re.compile(r" - at `\$([^`]*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def read_script(path: str) -> Script:
    """Raises UsageError: which file, which line, what is wrong, and what is allowed."""
    import tomllib

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 (byte {error.start})", hint="save the script as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UsageError(f"cannot read the script {path!r}: {reason}") from error
    is_json = path.endswith(".json") or (not path.endswith(".toml") and text.lstrip().startswith("{"))
    try:
        data = msgspec.json.decode(text) if is_json else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise _syntax_error(path, text, "JSON" if is_json else "TOML", error) from None
    return _Reader(os.path.basename(path), Positions(text)).script(data)


def parse_script(data: dict[str, Any], name: str = "script", text: str = "") -> Script:
    """Parse a script from a value built in Python, or from the part of a file with this text."""
    return _Reader(name, Positions(text)).script(data)


def parse_turn(data: Any, name: str = "script") -> ScriptTurn:
    """Parse one turn built in Python: a text, a part, a list of parts, or a response in the old spelling."""
    if isinstance(data, str):
        data = {"text": data}
    plain = dict(data) if isinstance(data, Mapping) else list(data) if isinstance(data, tuple) else data
    return _Reader(name, Positions("")).turn(plain, ())


def _syntax_error(path: str, text: str, kind: str, error: Exception) -> UsageError:
    reason = str(error)
    if match := re.search(r"\(at line (\d+), column (\d+)\)", reason):
        line, reason = int(match[1]), reason[: match.start()].strip()
    elif match := re.search(r"\(byte (\d+)\)", reason):
        line, reason = text.encode()[: int(match[1])].count(b"\n") + 1, reason[: match.start()].strip()
    else:
        line = text.rstrip().count("\n") + 1
    return UsageError(f"{os.path.basename(path)}:{line}: not {kind}: {reason}", hint="see docs/scripts.md")


class _ConversationOptions(msgspec.Struct, frozen=True, kw_only=True):
    marker: str = ""
    repeat_last: bool = False
    start_over: bool = False


class _Reader:
    """Checks a script's data against the tables of this module."""

    def __init__(self, name: str, positions: Positions) -> None:
        self._name = name
        self._positions = positions
        self._usage = ScriptUsage()

    def script(self, data: Any) -> Script:
        is_old = isinstance(data, dict) and (
            "responses" in data or "goes_by" in data or isinstance(data.get("lanes"), list)
        )
        self._table(data, (), _OLD_FIELDS if is_old else _FIELDS)
        try:
            msgspec.json.encode(data)
        except (UnicodeEncodeError, TypeError, ValueError) as error:
            raise self._error((), f"it holds what JSON cannot carry: {error}") from None
        self._usage = self._convert(data.get("usage", {}), ScriptUsage, ("usage",))
        pause_ms = self._convert(data.get("pause_ms", 0), int, ("pause_ms",), "a number of milliseconds")
        if pause_ms < 0:
            raise self._error(("pause_ms",), "`pause_ms` must not be negative")
        conversations = self._old_conversations(data) if is_old else self._conversations(data)
        side = self._convert(data.get("side", {}), SideRequests, ("side",))
        return Script(conversations=conversations, side=side, pause_ms=pause_ms, name=self._name)

    def _conversations(self, data: dict[str, Any]) -> dict[str, ScriptConversation]:
        conversations = {}
        if "turns" in data:
            conversations[MAIN] = self._conversation(data, ())
        for name, value in self._table(data.get("lanes", {}), ("lanes",)).items():
            path: Path = ("lanes", name)
            if name == MAIN or not _LANE_NAME.fullmatch(name):
                allowed = f"up to 20 small letters, digits and -, and not {MAIN!r}"
                raise self._error(path, f"no name for a lane: {name!r}", allowed)
            self._table(value, path, _CONVERSATION_FIELDS)
            if not isinstance(value.get("marker"), str) or not value["marker"].strip():
                raise self._error(path, "a lane needs a `marker`", "a text that begins its conversation")
            conversations[name] = self._conversation(value, path)
        if not conversations:
            raise self._error((), "there is no turn", "`turns = [ … ]`, or lanes with turns")
        return conversations

    def _conversation(self, data: dict[str, Any], path: Path) -> ScriptConversation:
        turns = data.get("turns")
        if not isinstance(turns, list) or not turns:
            raise self._error((*path, "turns"), "`turns` must be a list of turns, at least one")
        options_of_table = {
            name: data[name] for name in ("marker", "repeat_last", "start_over") if name in data
        }
        options = self._convert(options_of_table, _ConversationOptions, path)
        order = data.get("order", "conversation")
        return ScriptConversation(
            turns=tuple(self.turn(turn, (*path, "turns", number)) for number, turn in enumerate(turns)),
            marker=options.marker,
            repeat_last=options.repeat_last,
            start_over=options.start_over,
            order=self._convert(order, ScriptOrder, (*path, "order"), "conversation, arrival"),
        )

    def _old_conversations(self, data: dict[str, Any]) -> dict[str, ScriptConversation]:
        goes_by = data.get("goes_by", "call")
        if goes_by not in _OLD_ORDERS:
            raise self._error(("goes_by",), f"{goes_by!r} is no way to go", ", ".join(_OLD_ORDERS))
        order = _OLD_ORDERS[goes_by]
        main = self._old_turns(data, ())
        conversations = {MAIN: ScriptConversation(turns=main, **order)}
        for number, value in enumerate(self._list(data.get("lanes", []), ("lanes",))):
            path: Path = ("lanes", number)
            self._table(value, path, ("marker", "responses"))
            marker = self._convert(value.get("marker"), str, (*path, "marker"), "a text")
            turns = self._old_turns(value, path)
            conversations[f"lane-{number + 1}"] = ScriptConversation(turns=turns, marker=marker, **order)
        return conversations

    def _old_turns(self, data: dict[str, Any], path: Path) -> tuple[ScriptTurn, ...]:
        path = (*path, "responses")
        responses = self._list(data.get("responses", []), path)
        return tuple(self.turn(turn, (*path, number)) for number, turn in enumerate(responses))

    def turn(self, data: Any, path: Path) -> ScriptTurn:
        stop: str | None = None
        if isinstance(data, dict) and "events" in data:
            self._table(data, path, _OLD_TURN_FIELDS)
            if "stop_reason" in data:
                stop = self._convert(data["stop_reason"], str, (*path, "stop_reason"), "a text")
            path = (*path, "events")
            data = self._list(data["events"], path)
        values = list(enumerate(data)) if isinstance(data, list) else [(-1, data)]
        parts: list[ScriptPart] = []
        faults: list[Fault] = []
        usage: Usage | None = None
        for number, value in values:
            where = path if number < 0 else (*path, number)
            if isinstance(value, dict) and value.get("type") == "usage":
                usage = self._old_usage(value, where).plus(usage or Usage())
                continue
            kind, part = self._part(value, where)
            if kind == "fault":
                faults.append(part)
            elif kind == "usage":
                usage = part
            elif kind == "stop":
                stop = part
            else:
                parts.append(part)
        return ScriptTurn(
            parts=tuple(parts),
            faults=tuple(faults),
            usage=_as_usage(self._usage) if usage is None else usage,
            stop=stop,
            place=f"{self._name}:{self._positions.line(path)}",
        )

    def _part(self, value: Any, path: Path) -> tuple[str, Any]:
        if not isinstance(value, dict):
            raise self._error(
                path, f"a part must be a table, not {value!r:.60}", f"{{ text = {value!r:.40} }}"
            )
        if "type" in value:
            value = self._new_part(value, path)
        kind = next((key for key in _PART_KEYS if key in value), "")
        entry = value.get(kind)
        match kind:
            case "call":
                part = self._convert(value, self._named(INTENTS, entry, (*path, kind), "a call"), path)
                if isinstance(part, ReadIntent) and part.lines and not 1 <= part.lines[0] <= part.lines[1]:
                    raise self._error((*path, "lines"), "`lines` must be [first, last], from 1")
                return kind, part
            case "fault":
                name = str(entry) if isinstance(entry, int) else entry
                fault = self._named(FAULTS, name, (*path, kind), "a fault")
                return kind, self._convert(value | {kind: name}, fault, path)
            case "usage":
                self._table(value, path, ("usage",))
                table = self._table(entry, (*path, kind))
                both = msgspec.structs.asdict(self._usage) | table
                return kind, _as_usage(self._convert(both, ScriptUsage, (*path, kind)))
            case "stop":
                self._table(value, path, ("stop",))
                return kind, self._convert(entry, ScriptStop, (*path, kind), "length or refusal")
            case "":
                keys = ", ".join(sorted(map(str, value))) or "nothing"
                allowed = f"exactly one of {', '.join(reversed(_PART_KEYS))}"
                raise self._error(path, f"this part has {keys}, and so says nothing", allowed)
            case _:
                part = self._convert(value, _PARTS[kind], path)
                is_filled = isinstance(part, ScriptToolCall) and not part.literal
                if is_filled and (mistake := wrong_expression(part.input)):
                    raise self._error((*path, "input"), mistake)
                return kind, part

    def _new_part(self, value: dict[str, Any], path: Path) -> dict[str, Any]:
        """Convert a part from the old spelling to the current one."""
        kind = value["type"]
        if not isinstance(kind, str) or kind not in _OLD_PARTS:
            raise self._error((*path, "type"), f"{kind!r} is not an event", ", ".join([*_OLD_PARTS, "usage"]))
        names = _OLD_PARTS[kind]
        self._table(value, path, ("type", *names))
        required = next(iter(names))
        if required not in value:
            raise self._error(path, f"`{required}` is missing", ", ".join(names))
        literal = {"literal": True} if kind == "tool_call" else {}
        return {names[name]: inner for name, inner in value.items() if name != "type"} | literal

    def _old_usage(self, value: dict[str, Any], path: Path) -> Usage:
        self._table(value, path, ("type", *_OLD_USAGE))
        counts = [self._convert(value.get(name), int | None, (*path, name)) for name in _OLD_USAGE]
        whole_input, whole_output, cache_read, cache_write, reasoning = counts
        return Usage(
            input=besides(whole_input, cache_read, cache_write),
            output=besides(whole_output, reasoning),
            cache_read=cache_read,
            cache_write=cache_write,
            reasoning=reasoning,
        )

    def _named(self, table: dict[str, type[Any]], name: Any, path: Path, what: str) -> type[Any]:
        if not isinstance(name, str) or name not in table:
            raise self._error(path, f"{name!r} is not {what}", ", ".join(table))
        return table[name]

    def _table(self, value: Any, path: Path, allowed: tuple[str, ...] = ()) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(path, f"a table was expected, not {value!r:.60}")
        for key in value:
            if allowed and key not in allowed:
                raise self._error((*path, key), f"unknown field {key!r}", ", ".join(allowed))
        return value

    def _list(self, value: Any, path: Path) -> list[Any]:
        if not isinstance(value, list):
            raise self._error(path, f"a list was expected, not {value!r:.60}")
        return value

    def _convert(self, value: Any, kind: Any, path: Path, allowed: str = "") -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            reason = str(error)
            match = _PATH_IN_REASON.search(reason)
            steps: Path = ()
            if match:
                reason = reason[: match.start()]
                steps = tuple(name or int(number) for name, number in _STEP.findall(match[1]))
            if not allowed and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                tag = kind.__struct_config__.tag_field
                names = ([tag] if tag else []) + [field.name for field in msgspec.structs.fields(kind)]
                allowed = ", ".join(names)
            raise self._error((*path, *steps), reason, allowed) from None

    def _error(self, path: Path, reason: str, allowed: str = "") -> UsageError:
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        where = f"{self._name}:{self._positions.line(path)}: {steps}: ".replace(": : ", ": ")
        return UsageError(where + reason, hint=f"allowed: {allowed}" if allowed else "see docs/scripts.md")


def _as_usage(usage: ScriptUsage) -> Usage:
    return Usage(**msgspec.structs.asdict(usage))
