"""Hands a conversation over to a real agent, lets it continue, and looks at the request that reached the model.

The agent first holds the conversation itself. What came of it is written as a session of that agent, as if another
agent had held it, and is resumed. In the next request every call must have its result, and nothing may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from harness.contracts.conversation import HandedConversation
from harness.contracts.history import Home
from harness.contracts.request import Request
from harness.contracts.writer import HandoverWriter, with_origin
from harness.errors import HarnessError
from harness.events import Event, Result
from harness.events.operation import Command
from harness.folds.handed_conversation import conversation_of
from harness.formats.fields import record_of, text_of
from harness.histories.handover.budget import within_budget
from harness.histories.handover.delivery import HandoverFolder, Target
from harness.histories.handover.registry import load
from harness.lab.doctor_report import Finding
from harness.lab.offline_agent import OfflineAgent
from harness.lab.request_log import RequestEntry
from harness.log.stores.files import FileStore
from harness.models.script_file import parse_script
from harness.models.wires.wire import JsonObject, plain_text, records
from harness.runs.program_conversation import ProgramConversation
from harness.runs.run import start

ANOTHER = "another-agent"
"""Who has held the conversation, so that its calls are named by their meaning."""
CONTINUED = "The hand-over was continued."
_ANSWERED = ("answered", "over")
_LONGEST_SHOWN = 100


class SentCall(NamedTuple):
    id: str
    name: str


class SentConversation(NamedTuple):
    """What a request to a model holds of a conversation, whatever its API."""

    texts: list[str]
    calls: list[SentCall]
    results: list[tuple[str, str]]
    """Id of the call and output; or the name of the tool, where the API has no ids."""


def hand_over_to_itself(
    offline: OfflineAgent, request: Request, prompt: str, version: str, folder: str
) -> list[Finding]:
    """`request`: of the conversation that is handed over. `prompt`: what the agent is asked after it."""
    store = FileStore(os.path.join(folder, "sessions"))
    live = start(request, store=store, redact=False)
    live.wait()
    conversation = replace(conversation_of(live), agent=ANOTHER, version="1.0")
    return hand_over(conversation, offline, replace(request, prompt=prompt), version, folder)


def hand_over(
    conversation: HandedConversation, offline: OfflineAgent, request: Request, version: str, folder: str
) -> list[Finding]:
    """Write it for the agent of the request, continue it, and compare. Raises HandoverFailed."""
    writer = load(offline.agent)
    if writer is None:
        raise HarnessError(f"no conversation can be handed over to {offline.agent}")
    conversation = with_origin(within_budget(conversation))
    delivered = _deliver(writer, conversation, offline, request, version, folder)
    offline.use(
        parse_script({"turns": [{"text": CONTINUED}], "order": "arrival", "repeat_last": True}, "", "")
    )
    before = len(offline.server.requests)
    events = _continued(delivered, folder)
    entries = [entry for entry in offline.server.requests[before:] if entry.outcome in _ANSWERED]
    findings = list(_judge(conversation, writer, events, entries, request.prompt))
    if findings or not writer.is_held:
        return findings
    delivered = _deliver(writer, conversation, offline, request, version, folder)
    before = len(offline.server.requests)
    events = _continued(delivered, folder, is_held=True)
    entries = [entry for entry in offline.server.requests[before:] if entry.outcome in _ANSWERED]
    return [
        replace(entry, what=f"held in a conversation: {entry.what}")
        for entry in _judge(conversation, writer, events, entries, request.prompt)
    ]


def _continued(request: Request, folder: str, *, is_held: bool = False) -> list[Event]:
    """`is_held`: by a process that stays for the next prompt, as in a conversation of the `Harness` class."""
    store = FileStore(os.path.join(folder, "sessions"))
    if not is_held:
        run = start(request, store=store, redact=False)
        run.wait()
        return list(run)
    conversation = ProgramConversation()
    try:
        run = start(replace(request, two_way=True), store=store, redact=False, conversation=conversation)
        run.wait()
        return list(run)
    finally:
        conversation.close()


def _deliver(
    writer: HandoverWriter,
    conversation: HandedConversation,
    offline: OfflineAgent,
    request: Request,
    version: str,
    folder: str,
) -> Request:
    env = {**os.environ, **offline.config.env}
    target = Target(
        at_ms=conversation.ended_ms + 1,
        source=conversation.agent,
        cwd=request.cwd,
        home=Home(env.get("HOME", offline.context.home), env, (request.cwd,)),
        binary=request.binary,
        version=version,
        model=offline.config.model,
    )
    folder = os.path.join(folder, "hand-overs")
    return writer.resumed(request, HandoverFolder(folder).deliver(writer, conversation, target))


def _judge(
    conversation: HandedConversation,
    writer: HandoverWriter,
    events: list[Event],
    entries: list[RequestEntry],
    prompt: str,
) -> Iterator[Finding]:
    result = events[-1]
    if not isinstance(result, Result) or result.outcome != "completed":
        text = getattr(result, "text", "") or [getattr(event, "message", "") for event in events][-3:]
        yield Finding(
            kind="broken", what="the session that was handed over cannot be resumed", example=str(text)[:300]
        )
        return
    requests = [entry for entry in entries if prompt in str(entry.body)]
    if not requests:
        yield Finding(kind="broken", what="no request for the model held the next prompt")
        return
    conversation_sent = sent_conversation(requests[-1].body)
    yield from (
        Finding(kind="wrong", what=what) for what in _missing(conversation, writer, conversation_sent)
    )


def _missing(
    conversation: HandedConversation, writer: HandoverWriter, conversation_sent: SentConversation
) -> Iterator[str]:
    """In words: what of the conversation is not in the request as it should be."""
    all_texts = "\n".join(conversation_sent.texts)
    for turn in conversation.turns:
        if turn.text and turn.text not in all_texts:
            yield f"hand-over: a text did not reach the model: {turn.text[:_LONGEST_SHOWN]!r}"
    calls = conversation.calls
    if writer.as_text:
        yield from (
            f"hand-over: an output did not reach the model: {call.output[:_LONGEST_SHOWN]!r}"
            for call in calls
            if call.output not in all_texts
        )
        return
    if len(conversation_sent.calls) != len(calls):
        yield f"hand-over: {len(conversation_sent.calls)} of {len(calls)} calls reached the model"
    if unpaired := unpaired_calls(conversation_sent):
        yield f"hand-over: calls without exactly one result: {', '.join(unpaired)[:_LONGEST_SHOWN]}"
    outputs = [text for _id, text in conversation_sent.results]
    for call, output in zip(calls, outputs, strict=False):
        is_compared = writer.keeps_outputs or any(
            isinstance(operation, Command) for operation in call.operations
        )
        if is_compared and call.output.strip() not in output:
            yield f"hand-over: an output did not reach the model: {call.output[:_LONGEST_SHOWN]!r}"


def unpaired_calls(conversation_sent: SentConversation) -> list[str]:
    answered = [call_id for call_id, _text in conversation_sent.results]
    names = [call.id or call.name for call in conversation_sent.calls]
    return sorted({name for name in {*names, *answered} if names.count(name) != answered.count(name)})


def sent_conversation(body: Any) -> SentConversation:
    """Of the body of a request, of any of the APIs. The user's, the model's and the tools' parts; no instructions."""
    conversation_sent = SentConversation([], [], [])
    request = record_of(body)
    for item in [
        *records(request.get("messages")),
        *records(request.get("input")),
        *records(request.get("contents")),
    ]:
        _take_item(item, conversation_sent)
    return conversation_sent


def _take_item(item: JsonObject, conversation_sent: SentConversation) -> None:
    kind, role = text_of(item.get("type")), text_of(item.get("role"))
    if kind in ("function_call", "custom_tool_call"):
        conversation_sent.calls.append(SentCall(text_of(item.get("call_id")), text_of(item.get("name"))))
    elif kind.endswith("_call_output"):
        conversation_sent.results.append((text_of(item.get("call_id")), plain_text(item.get("output"))))
    elif role == "tool":
        conversation_sent.results.append((text_of(item.get("tool_call_id")), plain_text(item.get("content"))))
    elif role in ("user", "assistant", "model"):
        content = item.get("content")
        if isinstance(content, str):
            conversation_sent.texts.append(content)
        _take_blocks([*records(content), *records(item.get("parts"))], conversation_sent)
        for call in records(item.get("tool_calls")):
            name = text_of(record_of(call.get("function")).get("name"))
            conversation_sent.calls.append(SentCall(text_of(call.get("id")), name))


def _take_blocks(blocks: Iterable[JsonObject], conversation_sent: SentConversation) -> None:
    for block in blocks:
        if block.get("type") == "tool_use":
            conversation_sent.calls.append(SentCall(text_of(block.get("id")), text_of(block.get("name"))))
        elif block.get("type") == "tool_result":
            conversation_sent.results.append(
                (text_of(block.get("tool_use_id")), plain_text(block.get("content")))
            )
        elif "functionCall" in block:
            call = record_of(block["functionCall"])
            conversation_sent.calls.append(SentCall("", text_of(call.get("name"))))
        elif "functionResponse" in block:
            response = record_of(block["functionResponse"])
            result = record_of(response.get("response"))
            output = "\n".join(map(str, result.values()))
            conversation_sent.results.append((text_of(response.get("name")), output))
        elif text := text_of(block.get("text")):
            conversation_sent.texts.append(text)
