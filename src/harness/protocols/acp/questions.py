"""What an ACP agent asks, as `Relay`s, and what is answered: permissions, plans, forms, and questions in disguise.

An answer is always for this once: options that allow for longer are never chosen, since some of them write a file of
the user's. A form (`elicitation/create`) is a JSON Schema; each of its properties is a question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harness.contracts.driver import AskedQuestion, Choice, answers_of, question_relay
from harness.contracts.translator import Record
from harness.events import Relay, RelayReply
from harness.events.operation import Spawn
from harness.formats.fields import first_text, items_of, record_of, text_of
from harness.protocols.acp.calls import AcpCall, text_of_content
from harness.protocols.acp.stream import AcpTranslator
from harness.protocols.json_rpc import RpcRequest

PLAN = "switch_mode"
"""The kind of a call that leaves the mode in which an agent only plans."""
_OF_A_PLAN = frozenset({"plan", "title", "plan_path", "planPath", "planFilePath", "plan_filename"})
CANCELLED: Record = {"outcome": {"outcome": "cancelled"}}
_OWN_WORDS = "_custom"
"""How the key of a field ends that takes words of the user's own beside the options."""
_PLAIN_WORDS = frozenset(
    (
        "allow",
        "allow once",
        "allow_once",
        "approve once",
        "yes",
        "proceed",
        "submit",
        "yes, proceed",
        "yes, send once",
    )
)
"""Names of an option that allow what is shown and nothing else."""


class AskedForm(RpcRequest, frozen=True):
    """A form, and the questions that it was made into."""

    questions: tuple[AskedQuestion, ...] = ()


class DisguisedQuestion(RpcRequest, frozen=True):
    """A question that comes as one for permission, with the answers beside the outcome."""

    questions: tuple[AskedQuestion, ...] = ()


def called_in(params: Record) -> Record:
    """The call that a question for permission is about; v2 wraps it."""
    return record_of(params.get("toolCall")) or record_of(record_of(params.get("subject")).get("toolCall"))


def is_plan(call: AcpCall, stated_name: str, names: type[AcpTranslator]) -> bool:
    """Whether a question is about a plan and nothing else. The kind alone would make one of any call: the tool must be one
    that only concerns the conversation, or the arguments those of a plan. `stated_name`: of the tool, where the agent says it.
    """
    if call.kind != PLAN:
        return False
    if stated_name in names.tools.tools:
        return stated_name in names.tools.names_of("own")
    arguments = record_of(call.input)
    return bool(arguments or call.text) and arguments.keys() <= _OF_A_PLAN


def permission_relay(
    params: Record,
    call: AcpCall,
    names: type[AcpTranslator],
    calls: Mapping[str, AcpCall],
    *,
    is_plan: bool = False,
) -> Relay:
    """`calls`: those that were announced and have not ended."""
    tool_call, name, tool_input = called_in(params), names.name_of(call), names.input_of(call)
    title = first_text(params, "title") or text_of(tool_call.get("title")) or call.title
    if title in ("", name):
        title = text_of_content(items_of(tool_call.get("content"))) or title
    if is_plan:
        plan = text_of(record_of(tool_input).get("plan")) or call.text
        return Relay(id="", kind="plan", call_id=call.id, question=title, payload={"plan": plan})
    text = text_of(_option(params, "allow_once").get("name"))
    if text and text.lower() not in _PLAIN_WORDS:
        title = f"{title} ({text})" if title else text
    subagent, spawn_call_id = _asker(call, names, calls)
    return Relay(
        id="",
        kind="permission",
        call_id=call.id,
        tool_name=name,
        input=tool_input,
        question=title,
        subagent=subagent,
        spawn_call_id=spawn_call_id,
    )


def _asker(call: AcpCall, names: type[AcpTranslator], calls: Mapping[str, AcpCall]) -> tuple[str, str]:
    """Which sub-agent asks, and the call that spawned it: where several work at once, only that it is one of them."""
    if name := text_of(call.meta.get("subagentType")):
        return name, text_of(call.meta.get("parentToolCallId"))
    if not names.is_of_subagent(call, is_announced=call.id in calls):
        return "", ""
    runs_begun = (
        (each.id, names.tools.start(each.id, names.name_of(each), names.input_of(each), "", {})[0].operation)
        for each in calls.values()
        if not names.is_of_subagent(each, is_announced=True)
    )
    spawns = [(id, spawn) for id, spawn in runs_begun if isinstance(spawn, Spawn)]
    if len(spawns) != 1:
        return "sub-agent", ""
    ((id, spawn),) = spawns
    return spawn.name or "sub-agent", id


def is_for_several(params: Record) -> bool:
    """Whether an answer is for more calls than the one that is shown, by the words of the options."""
    texts = (
        text_of(record_of(option).get("name")).lower().split() for option in items_of(params.get("options"))
    )
    return any({"both", "all"} & {*words} for words in texts)


def refusal_of(request: RpcRequest, reason: str) -> str:
    """A refusal in words, for the model."""
    tool_call = called_in(request.params)
    title = text_of(tool_call.get("title"))
    if tool_call.get("kind") == PLAN:
        return f"The plan was not approved: {reason}"
    if isinstance(request, AskedForm | DisguisedQuestion):
        return f"The question was not answered: {reason}"
    return f"This was not allowed: {title}\nReason: {reason}" if title else f"Not allowed: {reason}"


def permission_answer(params: Record, *, approved: bool) -> Record | None:
    """The outcome of a question for permission; None where it cannot be allowed for this once."""
    kinds = ("allow_once",) if approved else ("reject_once", "reject_always")
    option = next((match for kind in kinds if (match := _option(params, kind))), {})
    if "optionId" in option:
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
    return None if approved else CANCELLED


def _option(params: Record, kind: str) -> Record:
    options = map(record_of, items_of(params.get("options")))
    return next((option for option in options if option.get("kind") == kind), {})


def disguised_questions(params: Record) -> tuple[AskedQuestion, ...]:
    """The questions in a question for permission, as Qwen asks them."""
    meta = record_of(called_in(params).get("_meta"))
    if meta.get("qwenInteractionKind") != "user_question":
        return ()
    questions = items_of(meta.get("qwenQuestions")) or items_of(
        record_of(called_in(params).get("rawInput")).get("questions")
    )
    return tuple(
        AskedQuestion(
            id=str(number),
            question=text_of(question.get("question")),
            header=text_of(question.get("header")),
            options=[_choice(option, "label") for option in items_of(question.get("options"))],
            multiple=question.get("multiSelect") is True,
        )
        for number, question in enumerate(map(record_of, questions))
    )


def disguised_answer(form: DisguisedQuestion, reply: RelayReply) -> Record:
    outcome = permission_answer(form.params, approved=reply.approved) or CANCELLED
    if not reply.approved:
        return outcome
    answers = answers_of(form.questions, reply.answer)
    return {**outcome, "answers": {key: ", ".join(values) for key, values in answers.items()}}


def form_relay(request: RpcRequest) -> tuple[AskedForm, Relay]:
    """A form as questions. One without any fields, or a link to open, is a question to be answered with yes."""
    params, schema = request.params, record_of(request.params.get("requestedSchema"))
    message, call_id = text_of(params.get("message")), text_of(params.get("toolCallId"))
    fields = {key: record_of(field) for key, field in record_of(schema.get("properties")).items()}
    visible = {key: field for key, field in fields.items() if not _is_own_words(key, fields)}
    questions = tuple(
        AskedQuestion(
            id=key,
            question=message if len(visible) == 1 else first_text(field, "description", "title") or key,
            header=text_of(field.get("title")),
            options=_choices(field),
            multiple=field.get("type") == "array",
        )
        for key, field in visible.items()
    )
    native = AskedForm(request.id, request.method, params, questions)
    if not questions:
        text = "\n".join(filter(None, (message, text_of(params.get("url")))))
        return native, Relay(id="", kind="question", call_id=call_id, question=text)
    return native, question_relay(questions, call_id=call_id)


def own_words(form: AskedForm, reply: RelayReply) -> str:
    """An answer that the form has no place for, as a message: it takes its options alone, and something else was said."""
    fields = record_of(record_of(form.params.get("requestedSchema")).get("properties"))
    answers = answers_of(form.questions, reply.answer)
    is_lost = any(
        not option_labels.issuperset(answers[question.id]) and f"{question.id}{_OWN_WORDS}" not in fields
        for question in form.questions
        if (option_labels := {option.label for option in question.options})
        and record_of(fields.get(question.id)).get("type") != "boolean"
    )
    if not is_lost:
        return ""
    answered = [
        (question.question, ", ".join(answers[question.id]))
        for question in form.questions
        if answers[question.id]
    ]
    return "\n".join(f"Your question: {question}\nMy answer: {answer}" for question, answer in answered)


def form_answer(form: AskedForm, reply: RelayReply) -> Record:
    if not reply.approved:
        return {"action": "decline"}
    fields = record_of(record_of(form.params.get("requestedSchema")).get("properties"))
    content: Record = {}
    for question in form.questions:
        values = answers_of(form.questions, reply.answer)[question.id]
        own = f"{question.id}{_OWN_WORDS}"
        labels = {option.label for option in question.options}
        if values and own in fields and labels and not labels.issuperset(values):
            content[own] = ", ".join(values)
        elif values:
            content[question.id] = _typed(values, record_of(fields.get(question.id)))
    return {"action": "accept", "content": content}


def _is_own_words(key: str, fields: Record) -> bool:
    return key.endswith(_OWN_WORDS) and key.removesuffix(_OWN_WORDS) in fields


def _choices(field: Record) -> list[Choice]:
    items = record_of(field.get("items")) if field.get("type") == "array" else field
    options = items_of(items.get("oneOf")) or items_of(items.get("anyOf"))
    if options:
        return [_choice(option, "const") for option in options]
    if field.get("type") == "boolean":
        return [Choice(label="true"), Choice(label="false")]
    return [Choice(label=value) for value in items_of(items.get("enum")) if isinstance(value, str)]


def _choice(option: Any, key: str) -> Choice:
    data = record_of(option)
    label = text_of(data.get(key)) or text_of(option)
    return Choice(label=label, description=text_of(data.get("description")))


def _typed(values: Sequence[str], field: Record) -> Any:
    """The answer as the form wants it. Words that are no number stay words: the agent says what is wrong with them."""
    match field.get("type"):
        case "array":
            return list(values)
        case "boolean":
            return values[0].strip().lower() in ("true", "yes", "1", "y")
        case "number" | "integer":
            try:
                return msgspec.json.decode(values[0], type=int | float)
            except msgspec.DecodeError:
                return values[0]
        case _:
            return ", ".join(values)
