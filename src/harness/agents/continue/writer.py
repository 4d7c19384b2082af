"""Continue (`cn`): a file in `~/.continue/sessions/`, which `--fork ID` takes. Its list of sessions need not name it."""

from __future__ import annotations

from typing import Any

from harness.contracts.conversation import HandedAnswer, HandedConversation, HandedPrompt
from harness.contracts.own_tools import OwnTool
from harness.contracts.writer import (
    HandoverPlace,
    HandoverWriter,
    NewFile,
    SessionText,
    json_text,
    title_of,
)

_TOOLS = {
    "command": OwnTool("Bash", {"command": "{command}"}),
    "read": OwnTool("Read", {"filepath": "{path}"}),
    "write": OwnTool("Write", {"filepath": "{path}", "content": "{content}"}),
    "edit": OwnTool("Edit", {"file_path": "{path}", "old_string": "{old}", "new_string": "{new}"}),
    "search": OwnTool("Search", {"pattern": "{query}", "path": "{path}"}),
    "list": OwnTool("List", {"dirpath": "{path}"}),
}


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    text = SessionText(conversation, place, "continue", _TOOLS)
    history: list[dict[str, Any]] = []
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            history.append({"message": {"role": "user", "content": turn.text}, "contextItems": []})
        else:
            history.append(_answer(turn, text))
    session = {
        "sessionId": place.session_id,
        "title": title_of(conversation),
        "workspaceDirectory": place.cwd,
        "history": history,
        "usage": {"totalCost": 0, "promptTokens": 0, "completionTokens": 0},
    }
    path = place.home.folder(".continue", "sessions", f"{place.session_id}.json")
    return [NewFile(path, json_text(session).encode())]


def _answer(turn: HandedAnswer, text: SessionText) -> dict[str, Any]:
    states = []
    for call in turn.calls:
        name, arguments = text.object_call(call)
        function = {"name": name, "arguments": json_text(arguments)}
        new_call = {"id": text.ids.named("call_"), "type": "function", "function": function}
        output = {"content": call.output, "name": "Tool Result", "description": "Tool execution result"}
        status = "errored" if call.has_failed else "done"
        state = {
            "toolCallId": new_call["id"],
            "toolCall": new_call,
            "status": status,
            "parsedArgs": arguments,
        }
        states.append({**state, "output": [output]})
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if not states:
        return {"message": message, "contextItems": []}
    message["toolCalls"] = [state["toolCall"] for state in states]
    return {"message": message, "contextItems": [], "toolCallStates": states}


WRITER = HandoverWriter(
    agent="continue",
    tools=_TOOLS,
    files=_files,
    resume_args=("--fork", "{id}"),
    since=(1, 5),
    proven=(1, 5, 47),
)
