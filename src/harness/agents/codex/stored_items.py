"""The items of a rollout of Codex, as the stream writes them."""

from __future__ import annotations

import re
from typing import Any

from harness.contracts.translator import Record
from harness.formats.fields import (
    arguments_of,
    decoded,
    exit_code_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)

SHELLS = frozenset(
    {"exec_command", "shell", "shell_command", "local_shell", "container.exec", "unified_exec"}
)
PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.MULTILINE)

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_EXIT_CODE = re.compile(r"(?:Process exited with code|Exit code:?) (-?\d+)")
_OUTPUT = re.compile(r"\A(?:Chunk ID|Exit code|Wall time).*?\nOutput:\n", re.DOTALL)


def as_streamed(item: Record) -> Record:
    """An item of the store as the stream writes it: names with underscores, texts as texts."""
    kind = _CAPITAL.sub("_", text_of(item.get("type"))).lower()
    match kind:
        case "agent_message":
            parts = map(record_of, items_of(item.get("content")))
            return {**item, "type": kind, "text": "".join(text_of(part.get("text")) for part in parts)}
        case "reasoning":
            texts = [text_of(text) for text in items_of(item.get("summary_text"))]
            return {"id": item.get("id"), "type": kind, "text": "\n".join(texts)}
        case "command_execution":
            words = [word for word in items_of(item.get("command")) if isinstance(word, str)]
            line = " ".join(map(_quoted, words)) or text_of(item.get("command"))
            return {**item, "type": kind, "command": line}
        case "file_change":
            changes = record_of(item.get("changes"))
            arguments = [
                {"path": path, "kind": record_of(change).get("type")} for path, change in changes.items()
            ]
            return {"id": item.get("id"), "type": kind, "changes": arguments, "status": item.get("status")}
        case "collab_agent_tool_call":
            states = record_of(item.get("agents_states"))
            agents = {thread: _state_of(state) for thread, state in states.items()}
            return {**item, "type": "collab_tool_call", "agents_states": agents}
    return {**item, "type": kind}


def as_started(item: Record) -> Record | None:
    """How the stream announced a call; None for what it only shows when it is complete."""
    match item.get("type"):
        case "command_execution":
            return {**item, "status": "in_progress", "aggregated_output": "", "exit_code": None}
        case "collab_tool_call":
            threads = [] if item.get("tool") == "spawn_agent" else item.get("receiver_thread_ids")
            return {**item, "status": "in_progress", "receiver_thread_ids": threads, "agents_states": {}}
        case "file_change" | "mcp_tool_call":
            return {**item, "status": "in_progress", "result": None, "error": None}
    return None


def _state_of(state: Any) -> Record:
    """`"running"`, or `{"completed": "its last words"}`."""
    if isinstance(state, str):
        return {"status": state, "message": None}
    status, message = next(iter(record_of(state).items()), ("", None))
    return {"status": status, "message": message}


def _quoted(word: str) -> str:
    """As Codex writes a word of a command line."""
    from shlex import quote

    if "'" in word and not any(character in word for character in '"$`\\!^'):
        return f'"{word}"'
    return quote(word)


def item_of_call(call_id: str, call: Record, output: Any) -> Record:
    """A call that only the model's items show. `output` is None while it has no result."""
    name = text_of(call.get("name"))
    arguments = arguments_of(call.get("arguments", call.get("input", call.get("action"))))
    fields, text = record_of(arguments), _text_of_output(output)
    status = "in_progress" if output is None else "completed"
    if name in SHELLS or call.get("type") == "local_shell_call":
        command = fields.get("cmd", fields.get("command"))
        line = (
            " ".join(map(_quoted, map(text_of, command))) if isinstance(command, list) else text_of(command)
        )
        code = _exit_code_of(output, text)
        item = {"type": "command_execution", "command": line, "aggregated_output": _OUTPUT.sub("", text)}
        return {"id": call_id, **item, **({"exit_code": code} if code is not None else {}), "status": status}
    if name == "update_plan":
        steps = map(record_of, items_of(fields.get("plan")))
        plan = [{"text": step.get("step"), "completed": step.get("status") == "completed"} for step in steps]
        return {"id": call_id, "type": "todo_list", "items": plan}
    if name == "apply_patch":
        patch = text_of(arguments) or first_text(fields, "input", "patch")
        changes = [{"path": path.strip(), "kind": kind.lower()} for kind, path in PATCHED.findall(patch)]
        is_done = output is None or _exit_code_of(output, text) == 0 or text.startswith("Success")
        return {
            "id": call_id,
            "type": "file_change",
            "changes": changes,
            "status": status if is_done else "failed",
        }
    return {
        "id": call_id,
        "type": "function_call",
        "name": name,
        "arguments": arguments,
        "output": None if output is None else text,
        "status": status,
    }


def _text_of_output(output: Any) -> str:
    data = record_of(decoded(output)) if isinstance(output, str) else record_of(output)
    return output_of(data["output"]) if "output" in data else output_of(output)


def _exit_code_of(output: Any, text: str) -> int | None:
    data = record_of(decoded(output)) if isinstance(output, str) else record_of(output)
    code = exit_code_of(record_of(data.get("metadata")).get("exit_code"))
    if code is not None:
        return code
    match = _EXIT_CODE.search(text[:1_000])
    return int(match[1]) if match is not None else None
