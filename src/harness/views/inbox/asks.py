"""What waits for a person, as the inbox shows it: in words, with the marks and the hash that an answer must name."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec

from harness.errors import UsageError
from harness.events import Operation, Relay, ToolEnd, ToolStart
from harness.events.operation import Command, Fetch, List, Read, Search, Skill, Spawn, Tasks, Write
from harness.log.codec import storable
from harness.views.changes.edits import Edit, edits_of
from harness.views.changes.lines import lines_of, regions
from harness.views.formatting.approval import choices_data, preview_data
from harness.views.formatting.calls import bare_command, short_path
from harness.views.formatting.escapes import single_line
from harness.views.formatting.json_text import compact
from harness.views.formatting.marks import Mark, marks_of, utf16_length
from harness.views.inbox.row import RowAsk

# What a call that waits for permission would change in files, as far as its arguments say.


_MOST_LINES = 400
_LONGEST_LINE = 2_000
_SOMEWHERE = "@@ … @@"
"""Before a part of a file: the arguments do not say where it is."""


def asked_preview(relay: Relay, operations: Sequence[Operation]) -> list[dict[str, Any]] | None:
    """As `preview_data`; where the question has no preview, from the arguments of the call."""
    if relay.kind != "permission" or relay.preview:
        return preview_data(relay)
    start = ToolStart(
        call_id=relay.call_id, tool_name=relay.tool_name, input=relay.input, operations=list(operations)
    )
    edits = edits_of(start, ToolEnd(call_id=relay.call_id, tool_name=relay.tool_name, success=True))
    left = _MOST_LINES
    found: list[dict[str, Any]] = []
    for edit in edits:
        if not edit.passages and edit.content is None and edit.before is None:
            continue
        lines = _lines(edit)
        shown = lines[:left]
        left -= len(shown)
        found.append(
            {
                "path": edit.path,
                "change": edit.change or "update",
                "added": sum(line.startswith("+") for line in lines),
                "removed": sum(line.startswith("-") for line in lines),
                "diff": "\n".join(shown),
                "hiddenLines": len(lines) - len(shown),
            }
        )
    return found or None


def _lines(edit: Edit) -> list[str]:
    found: list[str] = []
    for one in edit.passages:
        found += [_SOMEWHERE, *_differences(lines_of(one.old), lines_of(one.new))]
    found = found or _differences(lines_of(edit.before or ""), lines_of(edit.content or ""))
    return [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in found]


def _differences(old: Sequence[str], new: Sequence[str]) -> list[str]:
    found: list[str] = []
    at = 0
    for region in regions(old, new):
        found += [f" {line}" for line in old[at : region.old_start]]
        found += [f"-{line}" for line in old[region.old_start : region.old_end]]
        found += [f"+{line}" for line in new[region.new_start : region.new_end]]
        at = region.old_end
    return [line.rstrip("\n") for line in [*found, *(f" {line}" for line in old[at:])]]


# The ask with its words, marks and hash.


_LONGEST_SUBJECT = 2_000
_LONGEST_TITLE = 120
_PATHS = ("file_path", "filePath", "path", "notebook_path", "target_file", "absolute_path")
_COMMANDS = ("command", "cmd", "script")
_NEW_TEXTS = ("content", "new_string", "newString", "file_text", "new_str", "edits", "contents")
_TEXTS = (*_NEW_TEXTS, "old_string", "oldString", "old_str", "changes", "patch", "diff")
_WORDS_OF_AGENT = ("description", "explanation", "justification", "reason", "title")
"""Arguments with which a model says why it makes a call."""
_LONGEST_VALUE = 400
_WHOLE_TEXTS = ("content", "contents", "file_text")
_DELETING = frozenset(("rm", "rmdir", "unlink", "shred", "truncate", "del", "trash"))
_VERBS = {"create": "create", "update": "edit", "delete": "delete", "move": "move", "": "write"}
CHANGED = "It changed, look again"
_MARKED = "it has characters that cannot be seen or look like others"
_DELETES = "it deletes"
_ONE_CALL = "only this call can be allowed"


def arguments_hash(relay: Relay) -> str:
    """Of run, call, tool and arguments: the same for the same ask in every process."""
    asked = [relay.run_id, relay.call_id, relay.tool_name, storable(relay.input)]
    if relay.kind != "permission":
        asked += [relay.kind, relay.question, storable(relay.payload)]
    canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def check_shown(relay: Relay, shown_hash: str) -> None:
    """Raises UsageError where an answer was meant for another ask than the one that is open. Empty: for any."""
    if shown_hash and shown_hash != arguments_hash(relay):
        raise UsageError(CHANGED, hint="what is asked now is not what was shown")


def ask_of(
    relay: Relay,
    operations: Sequence[Operation],
    *,
    cwd: str,
    project: str,
    run_name: str = "",
    why: str = "",
) -> RowAsk:
    """`operations`: of the call, where it is in the log already. `project`: what `alike` is bound to."""
    operations = operations or derived_operations(relay)
    preview = asked_preview(relay, operations)
    title, whole = _words(relay, operations, cwd)
    subject, marks = _cut(whole)
    no_always_why = _no_always(relay, operations, has_marks=bool(marks))
    return RowAsk(
        id=relay.id,
        kind=relay.kind,
        run_id=relay.run_id,
        call_id=relay.call_id,
        arguments_hash=arguments_hash(relay),
        asked_ms=max(0, relay.timestamp_ms),
        run_name=relay.subagent or run_name,
        tool_name=relay.tool_name,
        category=relay.category,
        operations=tuple(msgspec.to_builtins(one) for one in operations),
        title=title,
        subject=subject,
        cwd=_directory(operations, cwd),
        more=_more(relay, operations, has_preview=bool(preview)),
        why=why,
        question=relay.question,
        options=_options(relay, is_always=not no_always_why),
        payload=relay.payload,
        resume_schema=relay.resume_schema,
        preview=preview,
        marks=tuple(mark.data() for mark in marks),
        no_always_why=no_always_why,
        alike="" if marks else _alike(relay, operations, project),
    )


def derived_operations(relay: Relay) -> list[Operation]:
    """What a call means of which only the arguments are known: the preview says it, or the usual names do."""
    if files := preview_data(relay):
        return [Write(path=str(one.get("path", "")), change=str(one.get("change", ""))) for one in files]
    given = relay.input
    if not isinstance(given, dict):
        return []
    if command := _text_at(given, _COMMANDS):
        return [Command(command=command)]
    if path := _text_at(given, _PATHS):
        is_written = relay.category == "edit" or any(name in given for name in _NEW_TEXTS)
        return [Write(path=path) if is_written else Read(path=path)]
    if url := _text_at(given, ("url",)):
        return [Fetch(url=url)]
    return []


def _text_at(given: Mapping[str, Any], names: Sequence[str]) -> str:
    for name in names:
        value = given.get(name)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            value = " ".join(value)
        if isinstance(value, str) and value:
            return value
    return ""


def _options(relay: Relay, *, is_always: bool) -> Any:
    if relay.kind != "permission":
        return relay.options
    choices = choices_data(relay)
    if choices is None or is_always:
        return choices
    return [choice for choice in choices if choice["kind"] != "allow-always"]


def _words(relay: Relay, operations: Sequence[Operation], cwd: str) -> tuple[str, str]:
    """Title and subject."""
    if relay.kind == "question":
        return "answer a question", relay.question
    if relay.kind == "plan":
        return "approve a plan", relay.question or _plan_of(relay)
    if relay.kind == "tool" or not operations:
        return _tool_words(relay)
    title, subject = _operation_words(operations[0], cwd)
    if title.startswith(("edit ", "write ")):
        title = f"{_verb_of_change(relay, operations[0])} {subject}"
    if len(operations) > 1:
        title = f"{title} and {len(operations) - 1} more"
        subject = "\n".join(_operation_words(one, cwd)[1] for one in operations)
    return _titled(title), subject


def _verb_of_change(relay: Relay, operation: Operation) -> str:
    """Whether a part of a file is replaced or all of it, where the arguments say so."""
    given = relay.input if isinstance(relay.input, dict) else {}
    is_update = isinstance(operation, Write) and operation.change == "update"
    if any(name in given for name in _WHOLE_TEXTS):
        return "overwrite" if is_update else "write"
    return "edit" if is_update or any(name in given for name in _NEW_TEXTS) else "write"


def _plan_of(relay: Relay) -> str:
    given = relay.payload if isinstance(relay.payload, dict) else relay.input
    plan = given.get("plan") if isinstance(given, dict) else None
    return plan if isinstance(plan, str) else ""


def _tool_words(relay: Relay) -> tuple[str, str]:
    name = relay.tool_name
    if name.startswith("mcp__") and name.count("__") >= 2:
        _, server, tool = name.split("__", 2)
        title = f"use {tool} of the MCP server {server}"
    else:
        title = f"use {name}" if name else "continue"
    given = relay.input if relay.input is not None else relay.payload
    subject = given if isinstance(given, str) else "" if given is None else compact(given)
    return _titled(title), subject or relay.question


def _operation_words(operation: Operation, cwd: str) -> tuple[str, str]:
    match operation:
        case Command():
            return "run a command", bare_command(operation.command)
        case Write():
            path = short_path(operation.path, cwd)
            return f"{_VERBS.get(operation.change, 'write')} {path}", path
        case Read() | Skill():
            path = short_path(operation.path, cwd)
            return f"read {path}", path
        case List():
            path = short_path(operation.path, cwd) or "."
            return f"list {path}", path
        case Search():
            return "search files", operation.query
        case Fetch():
            return ("fetch a page", operation.url) if operation.url else ("search the web", operation.query)
        case Spawn():
            return f"start the sub-agent {operation.name}".rstrip(), operation.task or operation.name
        case Tasks():
            return "change its to-do list", ""
        case _:
            assert_never(operation)


def _no_always(relay: Relay, operations: Sequence[Operation], *, has_marks: bool) -> str:
    if relay.kind != "permission":
        return ""
    if has_marks:
        return _MARKED
    if any(map(_is_deleting, operations)):
        return _DELETES
    is_offered = relay.choices is None or any(one.kind == "allow-always" for one in relay.choices)
    return "" if is_offered else _ONE_CALL


def _is_deleting(operation: Operation) -> bool:
    if isinstance(operation, Write):
        return operation.change == "delete"
    if not isinstance(operation, Command):
        return False
    words = bare_command(operation.command).replace(";", " ").replace("&", " ").replace("|", " ").split()
    return any(word.rpartition("/")[2] in _DELETING for word in words) or "git clean" in operation.command


def _alike(relay: Relay, operations: Sequence[Operation], project: str) -> str:
    """The kind of operation, the narrowest rule that an answer could grant, and the project."""
    if relay.kind != "permission" or not operations:
        return ""
    always = [choice for choice in relay.choices or () if choice.kind == "allow-always"]
    if not always or any(map(_is_deleting, operations)):
        return ""
    kinds = sorted({type(one).__name__.lower() for one in operations})
    rule = msgspec.to_builtins(always[-1].grants)
    text = json.dumps([kinds, rule, project], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _directory(operations: Sequence[Operation], cwd: str) -> str:
    """As the agent's own translator says: an argument of that name may have no effect."""
    if not operations or not isinstance(operations[0], Command):
        return ""
    named = operations[0].cwd
    return posixpath.join(cwd, named) if named else cwd


def _more(relay: Relay, operations: Sequence[Operation], *, has_preview: bool) -> tuple[tuple[str, str], ...]:
    if relay.kind != "permission" or not operations or not isinstance(relay.input, dict):
        return ()  # the subject has all of it
    hidden = {*_COMMANDS, *_PATHS, *_WORDS_OF_AGENT, "url", *(_TEXTS if has_preview else ())}
    return tuple(
        (single_line(name), _value(value)) for name, value in relay.input.items() if name not in hidden
    )


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else compact(storable(value))
    rest = len(text) - _LONGEST_VALUE
    return text if rest <= 0 else f"{text[:_LONGEST_VALUE]}… ({rest:,} more characters)"


def _titled(title: str) -> str:
    line = single_line(title)
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1]}…"


def _cut(whole: str) -> tuple[str, list[Mark]]:
    """What is shown of a subject, and its marks; those of the rest are one mark on the words in its place."""
    marks = marks_of(whole)
    if len(whole) <= _LONGEST_SUBJECT:
        return whole, marks
    shown = whole[:_LONGEST_SUBJECT]
    rest = f"… ({len(whole) - _LONGEST_SUBJECT:,} more characters)"
    end = utf16_length(shown)
    seen = [mark for mark in marks if mark.end <= end]
    if hidden := len(marks) - len(seen):
        label = f"{rest} ⟨{hidden} of them marked⟩"
        seen.append(Mark(end, end + utf16_length(rest), "invisible", label))
    return shown + rest, seen
