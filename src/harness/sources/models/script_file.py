"""Reads script files, and says of a mistake where it is, what it is, and what would be right."""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.sources.models.file_positions import Path, Positions
from harness.sources.models.script import (
    FAULTS,
    INTENTS,
    MAIN,
    Fault,
    ReadIntent,
    Script,
    ScriptConversation,
    ScriptPart,
    ScriptReasoning,
    ScriptText,
    ScriptToolCall,
    ScriptTurn,
    SideRequests,
    Stop,
    Tokens,
    TurnOrder,
    wrong_expression,
)


def read_script(path: str) -> Script:
    """Raises UsageError: which file, which line, what is wrong, and what would be right."""
    import tomllib

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 (byte {error.start})", hint="save the script as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UsageError(f"cannot read the script {path!r}: {reason}") from error
    try:
        data = msgspec.json.decode(text) if path.endswith(".json") else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError) as error:
        raise _syntax_error(path, text, error) from None
    return _Reader(os.path.basename(path), Positions(text)).script(data)


def parse_script(data: dict[str, Any], name: str = "script", text: str = "") -> Script:
    """The same from a value that was made in a program, or is a part of the file with this text."""
    return _Reader(name, Positions(text)).script(data)


def _syntax_error(path: str, text: str, error: Exception) -> UsageError:
    reason = str(error)
    kind = "JSON" if isinstance(error, msgspec.DecodeError) else "TOML"
    if found := re.search(r"\(at line (\d+), column (\d+)\)", reason):
        line, reason = int(found[1]), reason[: found.start()].strip()
    elif found := re.search(r"\(byte (\d+)\)", reason):
        line, reason = text.encode()[: int(found[1])].count(b"\n") + 1, reason[: found.start()].strip()
    else:
        line = text.rstrip().count("\n") + 1
    return UsageError(f"{os.path.basename(path)}:{line}: not {kind}: {reason}", hint="see docs/lab.md")


_FIELDS = ("turns", "repeat_last", "order", "usage", "side", "lanes")
_LANE_FIELDS = ("marker", "turns", "repeat_last", "order")
_PART_KEYS = ("call", "fault", "usage", "stop", "tool", "reasoning", "text")
_LANE_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
_PATH_IN_REASON = re.compile(r" - at `\$([^`]*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


class _LaneOptions(msgspec.Struct, frozen=True, kw_only=True):
    marker: str = ""
    repeat_last: bool = False


class _Reader:
    """Checks a script's data against the tables of this module."""

    def __init__(self, name: str, positions: Positions) -> None:
        self._name = name
        self._positions = positions
        self._tokens = Tokens()

    def script(self, data: Any) -> Script:
        self._table(data, (), _FIELDS)
        try:
            msgspec.json.encode(data)
        except (UnicodeEncodeError, TypeError, ValueError) as error:
            raise self._error((), f"it holds what JSON cannot carry: {error}") from None
        self._tokens = self._convert(data.get("usage", {}), Tokens, ("usage",))
        lanes = {}
        if "turns" in data:
            lanes[MAIN] = self._lane(data, ())
        for name, value in self._table(data.get("lanes", {}), ("lanes",)).items():
            path: Path = ("lanes", name)
            if name == MAIN or not _LANE_NAME.fullmatch(name):
                allowed = f"up to 20 small letters, digits and -, and not {MAIN!r}"
                raise self._error(path, f"no name for a lane: {name!r}", allowed)
            self._table(value, path, _LANE_FIELDS)
            if not isinstance(value.get("marker"), str) or not value["marker"].strip():
                raise self._error(path, "a lane needs a `marker`", "a text that begins its conversation")
            lanes[name] = self._lane(value, path)
        if not lanes:
            raise self._error((), "there is no turn", "`turns = [ … ]`, or lanes with turns")
        side = self._convert(data.get("side", {}), SideRequests, ("side",))
        return Script(lanes=lanes, side=side, name=self._name)

    def _lane(self, data: dict[str, Any], path: Path) -> ScriptConversation:
        turns = data.get("turns")
        if not isinstance(turns, list) or not turns:
            raise self._error((*path, "turns"), "`turns` must be a list of turns, at least one")
        named = {name: data[name] for name in ("marker", "repeat_last") if name in data}
        options = self._convert(named, _LaneOptions, path)
        order = data.get("order", "conversation")
        return ScriptConversation(
            turns=tuple(self._turn(turn, (*path, "turns", number)) for number, turn in enumerate(turns)),
            marker=options.marker,
            repeat_last=options.repeat_last,
            order=self._convert(order, TurnOrder, (*path, "order"), "conversation, arrival"),
        )

    def _turn(self, data: Any, path: Path) -> ScriptTurn:
        values = list(enumerate(data)) if isinstance(data, list) else [(-1, data)]
        parts: list[ScriptPart] = []
        faults: list[Fault] = []
        tokens, stop = self._tokens, None
        for number, value in values:
            where = path if number < 0 else (*path, number)
            kind, part = self._part(value, where)
            if kind == "fault":
                faults.append(part)
            elif kind == "usage":
                tokens = part
            elif kind == "stop":
                stop = part
            else:
                parts.append(part)
        place = f"{self._name}:{self._positions.line(path)}"
        return ScriptTurn(parts=tuple(parts), faults=tuple(faults), tokens=tokens, stop=stop, place=place)

    def _part(self, value: Any, path: Path) -> tuple[str, Any]:
        if not isinstance(value, dict):
            raise self._error(
                path, f"a part must be a table, not {value!r:.60}", f"{{ text = {value!r:.40} }}"
            )
        kind = next((key for key in _PART_KEYS if key in value), "")
        named = value.get(kind)
        match kind:
            case "call":
                part = self._convert(value, self._named(INTENTS, named, (*path, kind), "a call"), path)
                if isinstance(part, ReadIntent) and part.lines and not 1 <= part.lines[0] <= part.lines[1]:
                    raise self._error((*path, "lines"), "`lines` must be [first, last], from 1")
                return kind, part
            case "fault":
                name = str(named) if isinstance(named, int) else named
                fault = self._named(FAULTS, name, (*path, kind), "a fault")
                return kind, self._convert(value | {kind: name}, fault, path)
            case "usage":
                self._table(value, path, ("usage",))
                given = self._table(named, (*path, kind))
                return kind, self._convert(
                    msgspec.structs.asdict(self._tokens) | given, Tokens, (*path, kind)
                )
            case "stop":
                self._table(value, path, ("stop",))
                return kind, self._convert(named, Stop, (*path, kind), "length or refusal")
            case "tool" | "reasoning" | "text":
                kinds = {"tool": ScriptToolCall, "reasoning": ScriptReasoning, "text": ScriptText}
                part = self._convert(value, kinds[kind], path)
                if isinstance(part, ScriptToolCall) and (mistake := wrong_expression(part.input)):
                    raise self._error((*path, "input"), mistake)
                return kind, part
            case _:
                keys = ", ".join(sorted(map(str, value))) or "nothing"
                allowed = f"exactly one of {', '.join(reversed(_PART_KEYS))}"
                raise self._error(path, f"this part has {keys}, and so says nothing", allowed)

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

    def _convert(self, value: Any, kind: Any, path: Path, allowed: str = "") -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            reason = str(error)
            found = _PATH_IN_REASON.search(reason)
            steps: Path = ()
            if found:
                reason = reason[: found.start()]
                steps = tuple(name or int(number) for name, number in _STEP.findall(found[1]))
            if not allowed and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                tag = kind.__struct_config__.tag_field
                names = ([tag] if tag else []) + [field.name for field in msgspec.structs.fields(kind)]
                allowed = ", ".join(names)
            raise self._error((*path, *steps), reason, allowed) from None

    def _error(self, path: Path, reason: str, allowed: str = "") -> UsageError:
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        where = f"{self._name}:{self._positions.line(path)}: {steps}: ".replace(": : ", ": ")
        return UsageError(where + reason, hint=f"allowed: {allowed}" if allowed else "see docs/lab.md")
