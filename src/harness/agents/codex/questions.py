"""What Codex asks, as questions of the run, and the answers in the form that it expects.

Five requests wait for an answer: a command, a change of files, more permissions, questions of the model, and what an
MCP server asks, which is also how Codex asks whether a tool of that server may be called. The driver says who asks.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from harness.contracts.driver import AskedCall, AskedQuestion, Choice, answers_of, question_relay
from harness.contracts.translator import Record
from harness.events import Relay, RelayReply
from harness.formats.fields import items_of, record_of, text_of
from harness.protocols.json_rpc import RpcRequest

_ABOUT_COMMAND = ("command", "cwd", "networkApprovalContext", "additionalPermissions")
_MOST_LINES = 400
_LONGEST_LINE = 2_000
_CHANGES = {"add": "create", "delete": "delete"}


class CodexRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of request: the question that it is, and its answers."""

    relay: Callable[[Record, Record], Relay]
    """(params, the item that it is about) → the question."""
    accept: Callable[[Record, RelayReply], Any]
    decline: Callable[[Record, RelayReply], Any]
    cancel: Any
    """The answer where the turn is being interrupted."""
    says_reason: bool = False
    """Whether `decline` has a place for the reason."""


def is_approval_of_tool(params: Record) -> bool:
    """Whether Codex itself asks about a call of an MCP server's tool, and not the server something of its own."""
    return record_of(params.get("_meta")).get("codex_approval_kind") == "mcp_tool_call"


def _command(params: Record, item: Record) -> Relay:
    command = {name: params[name] for name in _ABOUT_COMMAND if params.get(name)}
    if "command" not in command and item.get("command"):
        command["command"] = item["command"]
    if params.get("kind") == "writeStdin":
        command["kind"] = "writeStdin"
    return Relay(id="", tool_name="shell", input=command, question=text_of(params.get("reason")))


def _change(params: Record, item: Record) -> Relay:
    changes = items_of(item.get("changes"))
    change_input: Record = {"changes": changes}
    if params.get("grantRoot"):
        change_input["grantRoot"] = params["grantRoot"]
    return Relay(
        id="",
        tool_name="file_change",
        input=change_input,
        question=text_of(params.get("reason")),
        preview=[_shown_change(record_of(change)) for change in changes] or None,
    )


def _shown_change(change: Record) -> Record:
    """Of a new or deleted file Codex gives the content, of another one the difference."""
    kind, text = text_of(record_of(change.get("kind")).get("type")), text_of(change.get("diff"))
    lines = text.removesuffix("\n").split("\n") if text else []
    mark = {"add": "+", "delete": "-"}.get(kind, "")
    lines = [f"{mark}{line[:_LONGEST_LINE]}" for line in lines]
    return {
        "path": text_of(change.get("path")),
        "change": _CHANGES.get(kind, "update"),
        "added": sum(line.startswith("+") for line in lines),
        "removed": sum(line.startswith("-") for line in lines),
        "diff": "\n".join(lines[:_MOST_LINES]),
        "hidden_lines": max(0, len(lines) - _MOST_LINES),
    }


def _permissions(params: Record, _item: Record) -> Relay:
    permissions = {name: params[name] for name in ("permissions", "cwd") if params.get(name)}
    return Relay(
        id="", tool_name="request_permissions", input=permissions, question=text_of(params.get("reason"))
    )


def _granted(params: Record, _reply: RelayReply) -> Record:
    permissions = record_of(params.get("permissions"))
    return {"permissions": {name: what for name, what in permissions.items() if what}, "scope": "turn"}


def _questions_of(params: Record) -> list[AskedQuestion]:
    return [
        AskedQuestion(
            id=text_of(question.get("id")),
            question=text_of(question.get("question")),
            header=text_of(question.get("header")),
            options=[
                Choice(
                    label=text_of(option.get("label")),
                    description=text_of(option.get("description")),
                )
                for option in map(record_of, items_of(question.get("options")))
            ],
        )
        for question in map(record_of, items_of(params.get("questions")))
    ]


def _user_input(params: Record, _item: Record) -> Relay:
    return question_relay(_questions_of(params), tool_name="request_user_input")


def _user_answers(params: Record, reply: RelayReply) -> Record:
    answers = answers_of(_questions_of(params), reply.answer)
    return {"answers": {name: {"answers": values} for name, values in answers.items()}}


def _user_refusal(params: Record, reply: RelayReply) -> Record:
    """Without a reason, no answer. With one, the reason is the answer: any text may be given."""
    if not reply.reason:
        return {"answers": {}}
    lines = [f"The user did not answer: {reply.reason}"]
    return {"answers": {question.id: {"answers": lines} for question in _questions_of(params)}}


def _elicitation(params: Record, item: Record) -> Relay:
    server, message = text_of(params.get("serverName")), text_of(params.get("message"))
    if is_approval_of_tool(params):
        tool_input = record_of(params.get("_meta")).get("tool_params")
        name = "__".join(filter(None, ("mcp", server, text_of(item.get("tool")))))
        return Relay(id="", tool_name=name, input=tool_input, question=message)
    url, schema = text_of(params.get("url")), record_of(params.get("requestedSchema"))
    fields = record_of(schema.get("properties"))
    return Relay(
        id="",
        kind="question",
        tool_name=f"mcp__{server}",
        question=f"{server} asks: {message}" + (f"\n{url}" if url else ""),
        options=_options(record_of(next(iter(fields.values())))) if len(fields) == 1 else None,
        payload={"server": server, **({"url": url} if url else {})},
        # A form with one field is a plain question, whose answer is read by `filled_in`.
        resume_schema=schema if len(fields) > 1 else None,
    )


def _options(field: Record) -> list[str] | None:
    if field.get("type") == "boolean":
        return ["yes", "no"]
    return [option for option in items_of(field.get("enum")) if isinstance(option, str)] or None


def _filled_in(params: Record, reply: RelayReply) -> Record:
    """An answer that does not fit the form cancels the question: the server would take nonsense for an answer."""
    # Only here: MCP servers rarely ask, and it would be imported with every agent.
    from harness.contracts.elicitation import filled_in

    fields = record_of(record_of(params.get("requestedSchema")).get("properties"))
    if is_approval_of_tool(params) or not fields:
        return _accepted(None if params.get("mode") == "url" else {})
    schema = {**params["requestedSchema"], "properties": fields}
    schema["required"] = [name for name in items_of(schema.get("required")) if isinstance(name, str)]
    content = filled_in(schema, reply.answer)
    return _CANCELLED if content is None else _accepted(content)


def _accepted(content: Record | None) -> Record:
    return {"action": "accept", "content": content, "_meta": None}


_CANCELLED: Record = {"action": "cancel", "content": None, "_meta": None}
_DECLINED: Record = {"action": "decline", "content": None, "_meta": None}
_NOTHING_GRANTED: Record = {"permissions": {}, "scope": "turn"}


def _always(answer: Any) -> Callable[[Record, RelayReply], Any]:
    return lambda _params, _reply: answer


_Decision: TypeAlias = dict[str, str]
_ACCEPT: _Decision = {"decision": "accept"}
_DECLINE: _Decision = {"decision": "decline"}
_CANCEL: _Decision = {"decision": "cancel"}

CODEX_REQUESTS: dict[str, CodexRequest] = {
    "item/commandExecution/requestApproval": CodexRequest(
        relay=_command, accept=_always(_ACCEPT), decline=_always(_DECLINE), cancel=_CANCEL
    ),
    "item/fileChange/requestApproval": CodexRequest(
        relay=_change, accept=_always(_ACCEPT), decline=_always(_DECLINE), cancel=_CANCEL
    ),
    "item/permissions/requestApproval": CodexRequest(
        relay=_permissions, accept=_granted, decline=_always(_NOTHING_GRANTED), cancel=_NOTHING_GRANTED
    ),
    "item/tool/requestUserInput": CodexRequest(
        relay=_user_input,
        accept=_user_answers,
        decline=_user_refusal,
        cancel={"answers": {}},
        says_reason=True,
    ),
    "mcpServer/elicitation/request": CodexRequest(
        relay=_elicitation, accept=_filled_in, decline=_always(_DECLINED), cancel=_CANCELLED
    ),
}
"""Method of a request → what it asks. None of the answers makes Codex write a rule into the user's files."""


_SHELLS = frozenset(
    f"{folder}{name}"
    for folder in ("/bin/", "/usr/bin/", "/usr/local/bin/", "")
    for name in ("bash", "sh", "zsh")
)
_MORE_RIGHTS = "it asks for more rights than the command has by itself"


def calls_of(request: RpcRequest, item: Record, relay: Relay, cwd: str) -> tuple[AskedCall, ...]:
    """The call that a request is about, as the request states it."""
    if relay.kind != "permission":
        return ()
    params, shown_input, doubt = request.params, relay.input, ""
    if request.method == "item/commandExecution/requestApproval":
        line = params.get("command")
        shown_input = {"command": _script_of(line), "cwd": params.get("cwd") or cwd}
        if not isinstance(line, str) or not line:
            doubt = "it does not repeat the command that it asks about"
        elif params.get("networkApprovalContext") or params.get("additionalPermissions"):
            doubt = _MORE_RIGHTS
        elif params.get("kind") not in ("command", None):
            doubt = "it writes to a program that runs already"
    elif request.method == "item/fileChange/requestApproval" and (params.get("grantRoot") or not item):
        doubt = _MORE_RIGHTS if item else "it does not say which files it changes"
    server = text_of(params.get("serverName")) if request.method == "mcpServer/elicitation/request" else ""
    return (
        AskedCall(
            tool=relay.tool_name,
            input=shown_input,
            id=relay.call_id,
            server=server,
            doubt=doubt,
            announced=relay.input,
        ),
    )


def _script_of(line: Any) -> Any:
    """The line that Codex gives to a shell of the system, without that shell; anything else as it is."""
    try:
        words = shlex.split(line) if isinstance(line, str) else []
    except ValueError:
        return line
    is_wrapped = len(words) == 3 and words[0] in _SHELLS and words[1] in ("-c", "-lc")
    return words[2] if is_wrapped else line


def relay_of(request: RpcRequest, item: Record, usual_cwd: str) -> Relay:
    """The question. Where a command would run is said only if it is elsewhere."""
    params = request.params
    if usual_cwd and params.get("cwd") == usual_cwd:
        params = {name: value for name, value in params.items() if name != "cwd"}
    return CODEX_REQUESTS[request.method].relay(params, item)
