"""What waits for a person, as the inbox shows it: in words, with the marks and the hash that an answer must name."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec

from harness.errors import QuestionChanged
from harness.events import Operation, Relay, ToolStart
from harness.events.operation import Command, Fetch, List, Read, Search, Skill, Spawn, Tasks, Write
from harness.folds.inbox.previews import TextReader, asked_preview, has_hidden_lines
from harness.folds.inbox.row import AskCall, RowAsk
from harness.formatting.approval import calls_of, choices_data, preview_data
from harness.formatting.calls import bare_command, short_path
from harness.formatting.escapes import single_line
from harness.formatting.json_text import compact
from harness.formatting.marks import Mark, marks_of, utf16_length
from harness.log.codec import storable

_LONGEST_SUBJECT = 2_000
_UNLIMITED = 10**9
_LONGEST_TITLE = 120
_PATHS = ("file_path", "filePath", "path", "notebook_path", "target_file", "absolute_path")
_COMMANDS = ("command", "cmd", "script")
_DIRECTORIES = ("workdir", "cwd", "directory")
_NEW_TEXTS = ("content", "new_string", "newString", "file_text", "new_str", "edits", "contents")
_TEXTS = (*_NEW_TEXTS, "old_string", "oldString", "old_str", "changes", "patch", "diff")
_WORDS_OF_AGENT = ("description", "explanation", "justification", "reason", "title")
"""Arguments with which a model says why it makes a call."""
_OFF_BY_DEFAULT = frozenset(("replace_all", "replaceAll", "run_in_background", "is_background"))
"""Arguments that say nothing when they are false."""
_LONGEST_VALUE = 400
_WHOLE_TEXTS = ("content", "contents", "file_text")
_DELETING = frozenset(("rm", "rmdir", "unlink", "shred", "truncate", "del", "trash"))
_VERBS = {"create": "create", "update": "edit", "delete": "delete", "move": "move", "": "write"}
CHANGED = "It changed, look again"
_MARKED = "it has characters that cannot be seen or look like others"
_DELETES = "it deletes"
_ONE_CALL = "only this call can be allowed"


def arguments_hash(relay: Relay) -> str:
    """Of run, call, tool and arguments of every call: the same for the same ask in every process."""
    identity = [relay.run_id, relay.call_id, relay.tool_name, storable(relay.input)]
    if relay.kind != "permission":
        identity += [relay.kind, relay.question, storable(relay.payload)]
    identity += [
        [further_call.tool_name, storable(further_call.input)] for further_call in calls_of(relay)[1:]
    ]
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def check_shown(relay: Relay, shown_hash: str) -> None:
    """Raises QuestionChanged where an answer was meant for another ask than the one that is open. Empty: for any."""
    if shown_hash and shown_hash != arguments_hash(relay):
        raise QuestionChanged(CHANGED, hint="what is asked now is not what was shown")


def ask_of(
    relay: Relay,
    call: ToolStart | None = None,
    *,
    cwd: str,
    project: str,
    run_name: str = "",
    why: str = "",
    text_of: TextReader = lambda _path: None,
    is_whole: bool = False,
) -> RowAsk:
    """`call`: as it is in the log already; its operations count only where it is the call that is asked for.

    `project`: what `alike` is bound to. `text_of`: the files as they are, for the lines around a change.
    `is_whole`: however long it is.
    """
    calls = calls_of(relay)
    operations = [_operations_of(call, relay), *map(derived_operations, calls[1:])]
    parts = [
        _call(call, some, cwd=cwd, text_of=text_of, is_whole=is_whole)
        for call, some in zip(calls, operations, strict=True)
    ]
    first, *further = parts
    everything = [operation for some in operations for operation in some]
    has_marks = any(part.marks for part in parts)
    is_cut = any(part.is_cut for part in parts)
    no_always_why = _no_always(relay, everything, has_marks=has_marks)
    is_alone = has_marks or is_cut or bool(further)
    return RowAsk(
        **{name: getattr(first, name) for name in AskCall.__struct_fields__} | {"is_cut": is_cut},
        id=relay.id,
        kind=relay.kind,
        run_id=relay.run_id,
        call_id=relay.call_id,
        arguments_hash=arguments_hash(relay),
        asked_ms=max(0, relay.timestamp_ms),
        run_name=relay.subagent or run_name,
        why=why,
        question=relay.question,
        options=_options(relay, is_always=not no_always_why),
        payload=relay.payload,
        resume_schema=relay.resume_schema,
        no_always_why=no_always_why,
        alike="" if is_alone else _alike(relay, everything, project),
        further=tuple(further),
    )


def _operations_of(call: ToolStart | None, relay: Relay) -> Sequence[Operation]:
    """What the call means: as its translator says, if the call in the log is the one that is asked for. What was written
    under the same id, but with another tool or other arguments, says nothing about this question.
    """
    derived = derived_operations(relay)
    if call is None or not call.operations:
        return derived
    is_same = call.tool_name == relay.tool_name and storable(call.input) == storable(relay.input)
    if (
        is_same
        or not relay.input
        or sorted(map(_object_of, call.operations)) == sorted(map(_object_of, derived))
    ):
        return call.operations
    return derived


def _object_of(operation: Operation) -> tuple[str, str]:
    """What an operation is done with: the same in the words of two readers of one call."""
    kind = type(operation).__name__
    if isinstance(operation, Command):
        return kind, bare_command(operation.command)
    return kind, str(getattr(operation, "path", "")) or compact(msgspec.to_builtins(operation))


def _call(
    relay: Relay, operations: Sequence[Operation], *, cwd: str, text_of: TextReader, is_whole: bool
) -> AskCall:
    preview = asked_preview(relay, operations, text_of=text_of, is_whole=is_whole)
    title, whole = _words(relay, operations, cwd)
    subject, marks = _cut(whole, _UNLIMITED if is_whole else _LONGEST_SUBJECT)
    has_all_lines = bool(preview) and not has_hidden_lines(preview)
    longest = _UNLIMITED if is_whole else _LONGEST_VALUE
    values = _more(relay, operations, has_preview=bool(preview) if not is_whole else has_all_lines)
    return AskCall(
        tool_name=relay.tool_name,
        category=relay.category,
        operations=tuple(msgspec.to_builtins(operation) for operation in operations),
        title=title,
        subject=subject,
        cwd=_directory(operations, cwd),
        more=tuple((name, _shortened(text, longest)) for name, text in values),
        preview=preview,
        marks=tuple(mark.data() for mark in marks),
        reason=relay.why,
        is_cut=not is_whole
        and (
            subject != whole
            or any(len(text) > longest for _name, text in values)
            or (bool(preview) and not has_all_lines)
        ),
    )


def derived_operations(relay: Relay) -> list[Operation]:
    """What a call means of which only the arguments are known: the preview says it, or the usual names do."""
    if files := preview_data(relay):
        return [
            Write(path=str(change.get("path", "")), change=str(change.get("change", ""))) for change in files
        ]
    arguments = relay.input
    if not isinstance(arguments, dict):
        return []
    if command := _text_at(arguments, _COMMANDS):
        return [Command(command=command, cwd=_text_at(arguments, _DIRECTORIES))]
    if path := _text_at(arguments, _PATHS):
        is_written = relay.category == "edit" or any(name in arguments for name in _NEW_TEXTS)
        return [Write(path=path) if is_written else Read(path=path)]
    if url := _text_at(arguments, ("url",)):
        return [Fetch(url=url)]
    return []


def _text_at(mapping: Mapping[str, Any], names: Sequence[str]) -> str:
    for name in names:
        value = mapping.get(name)
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
        subject = "\n".join(_operation_words(operation, cwd)[1] for operation in operations)
    return _titled(title), subject


def _verb_of_change(relay: Relay, operation: Operation) -> str:
    """Whether a part of a file is replaced or all of it, where the arguments say so."""
    arguments = relay.input if isinstance(relay.input, dict) else {}
    is_update = isinstance(operation, Write) and operation.change == "update"
    if any(name in arguments for name in _WHOLE_TEXTS):
        return "overwrite" if is_update else "write"
    return "edit" if is_update or any(name in arguments for name in _NEW_TEXTS) else "write"


def _plan_of(relay: Relay) -> str:
    proposal = relay.payload if isinstance(relay.payload, dict) else relay.input
    plan = proposal.get("plan") if isinstance(proposal, dict) else None
    return plan if isinstance(plan, str) else ""


def _tool_words(relay: Relay) -> tuple[str, str]:
    name = relay.tool_name
    if name.startswith("mcp__") and name.count("__") >= 2:
        _, server, tool = name.split("__", 2)
        title = f"use {tool} of the MCP server {server}"
    else:
        title = f"use {name}" if name else "continue"
    arguments = relay.input if relay.input is not None else relay.payload
    subject = arguments if isinstance(arguments, str) else "" if arguments is None else compact(arguments)
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
    is_offered = relay.choices is None or any(choice.kind == "allow-always" for choice in relay.choices)
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
    kinds = sorted({type(operation).__name__.lower() for operation in operations})
    rule = msgspec.to_builtins(always[-1].grants)
    text = json.dumps([kinds, rule, project], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _directory(operations: Sequence[Operation], cwd: str) -> str:
    """As the agent's own translator says, to which an argument of that name may have no effect; else as the call says,
    and that argument is shown with the others.
    """
    if not operations or not isinstance(operations[0], Command):
        return ""
    folder = operations[0].cwd
    return posixpath.join(cwd, folder) if folder else cwd


def _more(relay: Relay, operations: Sequence[Operation], *, has_preview: bool) -> list[tuple[str, str]]:
    """Name and value of every argument that says more than subject and preview do."""
    if relay.kind != "permission" or not operations or not isinstance(relay.input, dict):
        return []  # the subject has all of it
    hidden = {*_COMMANDS, *_PATHS, *_WORDS_OF_AGENT, "url", *(_TEXTS if has_preview else ())}
    return [
        (single_line(name), value if isinstance(value, str) else compact(storable(value)))
        for name, value in relay.input.items()
        if name not in hidden and not (value is False and name in _OFF_BY_DEFAULT)
    ]


def _shortened(text: str, longest: int) -> str:
    rest = len(text) - longest
    return text if rest <= 0 else f"{text[:longest]}… ({rest:,} more characters)"


def _titled(title: str) -> str:
    line = single_line(title)
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1]}…"


def _cut(whole: str, longest: int) -> tuple[str, list[Mark]]:
    """What is shown of a subject, and its marks; those of the rest are one mark on the words in its place."""
    marks = marks_of(whole)
    if len(whole) <= longest:
        return whole, marks
    head = whole[:longest]
    rest = f"… ({len(whole) - longest:,} more characters)"
    end = utf16_length(head)
    visible = [mark for mark in marks if mark.end <= end]
    if hidden := len(marks) - len(visible):
        label = f"{rest} ⟨{hidden} of them marked⟩"
        visible.append(Mark(end, end + utf16_length(rest), "invisible", label))
    return head + rest, visible
