"""What a run asks, as a request of ACP: a permission, a form, or a message; and the answer, as a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from harness.clients.commands import AnswerCommand, Approve, Command, Deny
from harness.events import Relay
from harness.formatting.approval import whole_text
from harness.formatting.fences import fenced

_KINDS = {"allow-once": "allow_once", "allow-always": "allow_always", "reject-once": "reject_once"}
_NO_CHOICES = (
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
)
_PLAN = (
    {"optionId": "allow", "name": "Approve the plan", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject the plan", "kind": "reject_once"},
)
_LONGEST_DIFF = 20_000
Fields = dict[str, Any]


class EditorQuestion(NamedTuple):
    relay: Relay
    method: str
    """Empty: it is asked as a message, and answered by the next prompt."""
    parameters: Fields
    updates: list[Fields]
    """What the client is told before it is asked."""
    last_updates: list[Fields]
    """And when it is answered."""

    @property
    def is_message(self) -> bool:
        return not self.method

    def answer(self, result: Mapping[str, Any]) -> Command | None:
        """The command for an answer; what is not clearly allowed is denied. None: the client leaves it open."""
        relay = self.relay
        if self.method == "elicitation/create":
            if result.get("action") != "accept":
                return Deny(relay_id=relay.id, reason="The user does not want to answer.")
            content = result.get("content")
            answer = content.get("answer") if isinstance(content, dict) else None
            return AnswerCommand(relay_id=relay.id, answer=answer)
        outcome = result.get("outcome")
        outcome = outcome if isinstance(outcome, dict) else {}
        option_id = outcome.get("optionId") if outcome.get("outcome") == "selected" else None
        if outcome.get("outcome") == "cancelled":
            return None  # the client has stopped the turn, or closed the dialogue: it stays open for others
        choice = next((option for option in relay.choices or () if option.id == option_id), None)
        if choice is not None and choice.kind != "reject-once":
            return Approve(relay_id=relay.id, option_id=choice.id, always=choice.kind == "allow-always")
        if choice is None and option_id == "allow" and not relay.choices:
            return Approve(relay_id=relay.id)
        return Deny(relay_id=relay.id)

    def answer_of_text(self, text: str) -> Command:
        return AnswerCommand(relay_id=self.relay.id, answer=text)


def question_of(relay: Relay, row: str, version: int, capabilities: Mapping[str, Any]) -> EditorQuestion:
    if relay.kind in {"permission", "plan"}:
        return _permission(relay, row, version)
    forms = capabilities.get("elicitation")
    if isinstance(forms, dict) and forms.get("form") is not None:
        return _form(relay, row)
    choices = "".join(f"\n- {option}" for option in relay.options or ())
    words = (
        f"{relay.question or 'The agent waits for an answer.'}{choices}\n\n(Your next message is the answer.)"
    )
    block = {"type": "text", "text": words}
    update = {"sessionUpdate": "agent_message_chunk", "messageId": f"ask-{relay.id}", "content": block}
    return EditorQuestion(relay, "", {}, [update], [])


def _permission(relay: Relay, row: str, version: int) -> EditorQuestion:
    choices = [
        {"optionId": choice.id, "name": choice.label, "kind": _KINDS[choice.kind]}
        for choice in relay.choices or ()
    ]
    choices = choices or list(_PLAN if relay.kind == "plan" else _NO_CHOICES)
    title = relay.question or relay.tool_name or "tool"
    who = f"{relay.subagent}: " if relay.subagent else ""
    call: Fields = {
        "toolCallId": row,
        "title": f"{who}{title}",
        "status": "pending",
        "rawInput": relay.input,
        "content": _preview(relay),
    }
    updates, last = [], []
    if relay.kind == "plan" or not relay.call_id:  # it has no row of a call
        kind = "tool_call" if version == 1 else "tool_call_update"
        updates.append({"sessionUpdate": kind, "kind": "other", **call})
        last.append({"sessionUpdate": "tool_call_update", "toolCallId": row, "status": "completed"})
    if version == 1:
        return EditorQuestion(
            relay, "session/request_permission", {"toolCall": call, "options": choices}, updates, last
        )
    subject = {"type": "tool_call", "toolCall": call}
    parameters = {"title": f"{who}{title}", "subject": subject, "options": choices}
    return EditorQuestion(relay, "session/request_permission", parameters, updates, last)


def _preview(relay: Relay) -> list[Fields]:
    """Why it is asked about, and all that an answer allows: editors do not show the arguments of a call."""
    texts = [relay.why] if relay.why else []
    if relay.kind == "permission":
        texts.append(fenced(whole_text(relay)))
    if relay.kind == "plan" and isinstance(relay.input, dict):
        texts += [str(relay.input["plan"])] if relay.input.get("plan") else []
    for change in relay.preview if isinstance(relay.preview, list) else ():
        diff = change.get("diff") if isinstance(change, dict) else None
        if diff:
            texts.append(f"```diff\n{str(diff)[:_LONGEST_DIFF]}\n```")
    return [{"type": "content", "content": {"type": "text", "text": text}} for text in texts]


def _form(relay: Relay, row: str) -> EditorQuestion:
    field: Fields = {"type": "string", "title": "Answer"}
    if relay.options:
        field["enum"] = relay.options
    schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
    about = {"toolCallId": row} if relay.call_id else {}
    message = relay.question or "The agent waits for an answer."
    parameters = {**about, "mode": "form", "message": message, "requestedSchema": schema}
    return EditorQuestion(relay, "elicitation/create", parameters, [], [])
