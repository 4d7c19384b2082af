"""What a key answers to the ask of a row, the same in `harness tui` and `harness top`; and the guard that keeps a key from
answering by accident.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from harness.clients.commands import AnswerCommand, Approve, Deny
from harness.clients.inbox.typed_answers import TypedReply, answering_command
from harness.folds.inbox.row import AskCall, InboxRow, RowAsk
from harness.formatting.escapes import revealed

SETTLED_S = 0.4
"""How long an ask must have been on the screen before a key can answer it."""
RESTED_S = 0.7
"""How long a key must not have been pressed before it answers again: a key that is held down repeats sooner."""
_ALWAYS_KEYS = ("a", "p")


class AskKey(NamedTuple):
    """Identifies an ask: an answer counts for this one only."""

    session: str
    ask: str
    arguments_hash: str


def key_of(row: InboxRow, ask: RowAsk) -> AskKey:
    return AskKey(row.id, ask.id, ask.arguments_hash)


class AnswerGuard:
    """Refuses keys that were typed too soon, or that repeat. Times are those of `time.monotonic`."""

    def __init__(self) -> None:
        self._last_shown: tuple[object, float] = (None, 0.0)
        self._pressed: dict[str, float] = {}

    def show(self, place: object, at_s: float) -> None:
        """An ask was drawn. `place`: which one, and where."""
        if self._last_shown[0] != place:
            self._last_shown = (place, at_s)

    def refuses(self, key: str, place: object, typed_s: float) -> str:
        """Why a key does not answer; empty: it does. `typed_s`: when it was typed, not when it is handled."""
        before = self._pressed.get(key, -RESTED_S)
        self._pressed[key] = typed_s
        last_shown, at_s = self._last_shown
        if last_shown != place or typed_s < at_s + SETTLED_S:
            return "Too quick to be an answer to this: look, then press again"
        if typed_s < before + RESTED_S:
            return "A key that repeats does not answer: release it, then press again"
        return ""


def relay_of(ask: RowAsk) -> dict[str, Any]:
    """The ask in the shape that a relay has in the state of a conversation."""
    return {
        "id": ask.id,
        "kind": ask.kind,
        "toolName": ask.tool_name,
        "input": None,
        "question": ask.question,
        "options": ask.options,
        "payload": ask.payload,
        "resumeSchema": ask.resume_schema,
        "subagent": ask.run_name,
        "why": ask.reason,
    }


def options_of(ask: RowAsk) -> dict[str, tuple[str, str]]:
    """Of a permission: key → the id of the option, and its label."""
    options = [option for option in ask.options or () if isinstance(option, dict)]
    always = [option for option in options if option.get("kind") == "allow-always"]
    by_key = {"y": ("", "once")}
    if not has_marks(ask):
        keys = zip(_ALWAYS_KEYS, always, strict=False)
        by_key |= {key: (str(option["id"]), _always(option)) for key, option in keys}
    return by_key


def _always(option: dict[str, Any]) -> str:
    label = revealed(str(option.get("label", "")), is_line=True)
    return f"always{label.removeprefix('Always allow')}" if label.startswith("Always allow") else label


def reply_to_key(ask: RowAsk, key: str) -> TypedReply | None:
    """The answer that a key gives; None: it is no answer to this ask."""
    if ask.kind == "permission":
        if key == "n":
            return TypedReply(False)
        option = options_of(ask).get(key)
        return None if option is None else TypedReply(True, option[0])
    if ask.kind == "plan" and key in ("y", "n"):
        return TypedReply(key == "y", answer={"action": "approved" if key == "y" else "rejected"})
    return None


def command_of(ask: RowAsk, reply: TypedReply) -> AnswerCommand | Approve | Deny:
    """The command for an answer. If the session asks something else by then, it is refused."""
    return replace(answering_command(relay_of(ask), reply), arguments_hash=ask.arguments_hash)


def answer_words(ask: RowAsk, reply: TypedReply) -> str:
    """What was answered: "allowed once", "sent back"."""
    if ask.kind == "permission":
        return ("allowed always" if reply.choice else "allowed once") if reply.approved else "denied"
    if ask.kind == "plan":
        return "approved" if reply.approved and reply.answer.get("action") == "approved" else "sent back"
    return "answered"


def has_marks(ask: RowAsk) -> bool:
    """Whether a call has characters that cannot be seen or look like others: it is allowed by a word, not by a key."""
    return bool(ask.marks) or any(call.marks for call in ask.further)


def is_command(ask: AskCall) -> bool:
    """Whether it asks to run a command."""
    return any(operation.get("kind") == "command" for operation in ask.operations)


def plan_text(ask: RowAsk) -> str:
    """The plan that is to be approved."""
    plan = ask.payload.get("plan") if isinstance(ask.payload, dict) else None
    return plan if isinstance(plan, str) else ask.subject
