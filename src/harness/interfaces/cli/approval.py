"""What a person at a terminal is asked, and what the answer means: the same for `harness run` and `harness attach`.

A question is told in the shape that it has in a state (`rendering/state/shapes.py`).
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from harness.rendering.approval import bounded, is_short, lines_of, title
from harness.rendering.escapes import neutralised

Data = dict[str, Any]

SHOW = "/show"
_MOST_LINES = 20
_KEYS = {"once": "y", "always": "a", "pattern": "p"}
"""The option's id → what is typed for it."""
_WORDS = {"y": "once", "yes": "once", "a": "always", "always": "always", "p": "pattern", "pattern": "pattern"}
_NO = ("n", "no")


class TypedReply(NamedTuple):
    approved: bool
    choice: str = ""
    """The id of an option; empty: once, or not at all."""
    reason: str = ""
    answer: Any = None


def is_yes_or_no(text: str) -> bool:
    """Whether it can only be meant for a question."""
    return text.lower() in _WORDS or text.lower() in _NO


def question_text(relay: Data, *, is_whole: bool = False) -> str:
    """What is asked; `is_whole`: however long it is."""
    most = 10**9 if is_whole else _MOST_LINES
    who = f"{neutralised(relay['subagent'])} asks: " if relay.get("subagent") else ""
    if relay["kind"] == "permission":
        return "\n".join([f"? {who}{_permission(relay, most, is_whole=is_whole)}", _keys(relay)])
    if relay["kind"] == "plan":
        plan = relay["payload"].get("plan", "") if isinstance(relay["payload"], dict) else ""
        shown = bounded(neutralised(str(plan)).split("\n"), most, f"{SHOW} shows all of it")
        return "\n".join([f"? {who}{neutralised(relay['question'])}", *shown, "  [y]es, or what to change"])
    choices = f" ({', '.join(map(neutralised, relay['options']))})" if relay["options"] else ""
    return f"? {who}{neutralised(relay['question'])}{choices}"


def reply_to(relay: Data, text: str) -> TypedReply:
    """What somebody says to a question that was shown."""
    word = text.lower()
    if relay["kind"] in ("permission", "plan"):
        choice = _WORDS.get(word, "")
        if relay["kind"] == "plan" and choice == "once":
            return TypedReply(True, answer={"action": "approved"})
        if relay["kind"] == "plan":
            feedback = {} if word in _NO else {"feedback": text}
            return TypedReply(False, answer={"action": "rejected", **feedback})
        if choice in _offered(relay):
            return TypedReply(True, choice if choice != "once" else "")
        return TypedReply(False, reason="" if word in _NO else text)
    return TypedReply(True, answer=_answer(relay, text))


def _permission(relay: Data, most: int, *, is_whole: bool) -> str:
    arguments, preview = relay["input"], relay.get("preview")
    if is_short(arguments) and not preview:
        return f"may it: {title(relay['toolName'], arguments)}"
    hint = f"{SHOW} shows all of it"
    lines = lines_of(arguments, preview)
    shown = lines if is_whole else bounded(lines, most, hint)
    return "\n".join([f"may it: {title(relay['toolName'], None)}", *(f"  {line}" for line in shown)])


def _offered(relay: Data) -> dict[str, str]:
    """The ids of what can be allowed, with what each grants."""
    options = relay["options"] or [{"id": "once", "kind": "allow-once", "label": "Allow once"}]
    return {one["id"]: one["label"] for one in options if one["kind"] != "reject-once"}


def _keys(relay: Data) -> str:
    keys = [f"[{_KEYS[id]}] {label}" for id, label in _offered(relay).items() if id in _KEYS]
    return f"  {'   '.join(keys)}   or why not"


def _answer(relay: Data, text: str) -> Any:
    """As text, unless only something else is an answer."""
    from harness.sources.loop.approvals import problems_of

    schema = relay["resumeSchema"]
    if schema is None or not list(problems_of(text, schema)):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
