"""A question as text for a terminal, and what the typed answer means: the same for every program in a terminal.

A question has the shape that it has in a state (`folds/page_state/shapes.py`). Its text comes from an agent: nothing
in it can move the cursor, and no line of it can look like one of ours, for it is indented.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from harness.clients.commands import AnswerCommand, Approve, Deny
from harness.formatting.approval import bounded, is_short, lines_of, title
from harness.formatting.columns import columns
from harness.formatting.escapes import neutralised, revealed, single_line

Data = dict[str, Any]

SHOW = "/show"
_ALL_OF_IT = "This is all of it: answer again"
_MOST_LINES = 20
_WIDEST_KEYS = 78
"""Wider answers are written one below the other."""
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


class _Question(NamedTuple):
    """One of the questions that an agent may ask at once."""

    id: str
    text: str
    options: Sequence[tuple[str, str]]
    """Label and description of each."""
    is_multiple: bool


class Asking:
    """A question, in as many steps as it takes: `text` is shown, what is typed goes to `take`.

    Several questions at once are asked one after the other. What is too long to be shown at once is shown whole before
    it can be allowed.
    """

    def __init__(self, relay: Data, folder: str = "") -> None:
        """`folder`: where the agent works; it is shown with a permission."""
        self.relay = relay
        self._folder = folder
        self._questions = _questions(relay)
        self._answers: dict[str, Any] = {}
        self._is_whole_shown = False
        self._is_insisting = False
        """It was to be allowed before all of it was shown: it is shown now."""

    @property
    def id(self) -> str:
        return str(self.relay["id"])

    def text(self, *, is_whole: bool = False) -> str:
        """What is asked now; `is_whole`: however long it is."""
        if len(self._questions) > 1:
            number = len(self._answers) + 1
            return _question_text(self._next, _who(self.relay), f"({number} of {len(self._questions)}) ")
        is_whole = is_whole or self._is_insisting
        self._is_whole_shown = self._is_whole_shown or is_whole
        text = question_text(self.relay, is_whole=is_whole, folder=self._folder)
        return f"{text}\n  {_ALL_OF_IT}" if self._is_insisting else text

    @property
    def question(self) -> str:
        """The question that is asked now."""
        return self._next.text if self._questions else str(self.relay["question"])

    @property
    def options(self) -> list[str]:
        """The labels that can be chosen by their number now."""
        return [label for label, _description in self._next.options] if self._questions else []

    def take(self, text: str) -> TypedReply | None:
        """The answer; None: another step follows."""
        if len(self._questions) <= 1:
            reply = reply_to(self.relay, text)
            self._is_insisting = reply.approved and not self._can_be_allowed
            return None if self._is_insisting else reply
        self._answers[self._next.id] = _chosen(self._next, text)
        if len(self._answers) < len(self._questions):
            return None
        answers, self._answers = self._answers, {}
        return TypedReply(True, answer=answers)

    @property
    def _can_be_allowed(self) -> bool:
        """Whether all of it was shown."""
        return self._is_whole_shown or question_text(self.relay) == question_text(self.relay, is_whole=True)

    @property
    def _next(self) -> _Question:
        return self._questions[len(self._answers)]


def is_yes_or_no(text: str) -> bool:
    """Whether it can only be meant for a question."""
    return text.lower() in _WORDS or text.lower() in _NO


def question_text(relay: Data, *, is_whole: bool = False, folder: str = "") -> str:
    """What is asked; `is_whole`: however long it is."""
    most = 10**9 if is_whole else _MOST_LINES
    who = _who(relay)
    if relay["kind"] == "permission":
        lines = _permission(relay, most, is_whole=is_whole)
        place = [f"  in {revealed(folder, is_line=True)}"] if folder else []
        return "\n".join([f"? {who}{lines}", *_reason_lines(relay), *place, _keys(relay)])
    if relay["kind"] == "plan":
        plan = relay["payload"].get("plan", "") if isinstance(relay["payload"], dict) else ""
        plan_lines = bounded(neutralised(str(plan)).split("\n"), most, f"{SHOW} shows all of it")
        heading = _indented(relay["question"] or "Is this plan good?")
        return "\n".join(
            [f"? {who}{heading}", *(f"  {line}" for line in plan_lines), "  [y]es, or what to change"]
        )
    questions = _questions(relay)
    if len(questions) == 1:
        return _question_text(questions[0], who)
    return "\n".join(_question_text(question, who) for question in questions)


def reply_to(relay: Data, text: str) -> TypedReply:
    """The answer that was typed to a question."""
    word = text.lower()
    if relay["kind"] in ("permission", "plan"):
        choice = _WORDS.get(word, "")
        if relay["kind"] == "plan" and choice == "once":
            return TypedReply(True, answer={"action": "approved"})
        reason = "" if word in _NO else text
        if relay["kind"] == "plan":
            feedback = {"feedback": text} if reason else {}
            return TypedReply(False, reason=reason, answer={"action": "rejected", **feedback})
        if choice in _offered(relay):
            return TypedReply(True, choice if choice != "once" else "")
        return TypedReply(False, reason=reason)
    questions = _questions(relay)
    choice_id = _chosen(questions[0], text) if len(questions) == 1 else text
    return TypedReply(True, answer=choice_id if choice_id != text else _answer(relay, text))


def answering_command(relay: Data, reply: TypedReply) -> AnswerCommand | Approve | Deny:
    """The same answer as a command to a conversation."""
    if relay["kind"] != "permission":
        return AnswerCommand(relay_id=relay["id"], answer=reply.answer)
    if reply.approved:
        return Approve(relay_id=relay["id"], option_id=reply.choice)
    return Deny(relay_id=relay["id"], reason=reply.reason)


def _who(relay: Data) -> str:
    return f"{single_line(relay['subagent'])} asks: " if relay.get("subagent") else ""


def _permission(relay: Data, most: int, *, is_whole: bool) -> str:
    arguments, preview, further = relay["input"], relay.get("preview"), relay.get("further") or ()
    if not relay["toolName"] and arguments is None and relay["question"]:
        return _indented(relay["question"])
    if is_short(arguments) and not preview and not further:
        return f"may it call {title(relay['toolName'], arguments)}"
    hint = f"{SHOW} shows all of it"
    lines = lines_of(arguments, preview)
    for call in further:
        lines += [f"and: {title(call['toolName'], None)}", *lines_of(call["input"])]
    lines_shown = lines if is_whole else bounded(lines, most, hint)
    return "\n".join(
        [f"may it call {title(relay['toolName'], None)}", *(f"  {line}" for line in lines_shown)]
    )


def _reason_lines(relay: Data) -> list[str]:
    """The reason that the agent gives: it is not what would run."""
    reason, arguments = relay["question"], relay["input"]
    is_shown = isinstance(arguments, dict) and reason in arguments.values()
    lines = [f"  reason: {_indented(reason)}"] if reason and relay["toolName"] and not is_shown else []
    return [*lines, f"  asked because: {_indented(relay['why'])}"] if relay.get("why") else lines


def _offered(relay: Data) -> dict[str, str]:
    """The ids of what can be allowed, with what each grants."""
    options = relay["options"] or [{"id": "once", "kind": "allow-once", "label": "Allow once"}]
    return {option["id"]: option["label"] for option in options if option["kind"] != "reject-once"}


def _keys(relay: Data) -> str:
    answers = _offered(relay).items()
    keys = [f"[{_KEYS[id]}] {revealed(label, is_line=True)}" for id, label in answers if id in _KEYS]
    keys.append("[n] No, or why not")
    is_short_enough = sum(map(columns, keys)) + 3 * len(keys) <= _WIDEST_KEYS
    return f"  {'   '.join(keys)}" if is_short_enough else "\n".join(f"  {key}" for key in keys)


def _questions(relay: Data) -> list[_Question]:
    """Those of a question: an agent program may ask several at once. None for a permission or a plan."""
    if relay["kind"] in ("permission", "plan"):
        return []
    payload = relay["payload"] if isinstance(relay["payload"], dict) else {}
    several = payload.get("questions")
    if (
        questions := [_question(question) for question in several if isinstance(question, dict)]
        if isinstance(several, list)
        else []
    ):
        return questions
    options = payload.get("options") if isinstance(payload.get("options"), list) else relay["options"]
    is_multiple = payload.get("selectionMode") == "multi_select"
    return [_Question("", relay["question"], _options(options), is_multiple)]


def _question(data: Data) -> _Question:
    header = f"{data['header']}: " if data.get("header") else ""
    text = str(data.get("question", ""))
    options = _options(data.get("options"))
    return _Question(str(data.get("id", "")), f"{header}{text}", options, data.get("multiple") is True)


def _options(options: Any) -> list[tuple[str, str]]:
    choices = [option if isinstance(option, dict) else {"label": option} for option in options or ()]
    return [(str(option.get("label", "")), str(option.get("description") or "")) for option in choices]


def _question_text(question: _Question, who: str, place: str = "") -> str:
    lines = [f"? {who}{place}{_indented(question.text)}"]
    for number, (label, description) in enumerate(question.options, 1):
        more = f": {single_line(description)}" if description else ""
        lines.append(f"  [{number}] {single_line(label)}{more}")
    if question.options:
        several = ", several as 1,2" if question.is_multiple else ""
        lines.append(f"  a number{several}, or your own words")
    return "\n".join(lines)


def _chosen(question: _Question, text: str) -> Any:
    """The labels that were meant by numbers, else the text itself."""
    labels = [label for label, _ in question.options]
    if text in labels:
        return [text] if question.is_multiple else text
    numbers = [word.strip() for word in text.split(",")]
    places = [int(word) for word in numbers if word.isascii() and word.isdecimal() and len(word) < 4]
    if len(places) != len(numbers) or not all(0 < place <= len(labels) for place in places):
        return text
    if question.is_multiple:
        return [labels[place - 1] for place in dict.fromkeys(places)]
    return labels[places[0] - 1] if len(places) == 1 else text


def _answer(relay: Data, text: str) -> Any:
    """As text, unless only something else is an answer."""
    from harness.questions.open_questions import problems_of

    schema = relay["resumeSchema"]
    if schema is None or not list(problems_of(text, schema)):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _indented(text: str) -> str:
    """Text of an agent: none of its lines begins where ours do."""
    return neutralised(text).replace("\n", "\n  ")
