"""What of a conversation is found in a request to a model, whatever its API."""

from __future__ import annotations

from typing import Any

import pytest

from harness.lab.hand_over_run import SentConversation, sent_conversation, unpaired_calls

CHAT = {
    "messages": [
        {"role": "system", "content": "instructions"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look", "tool_calls": [{"id": "a", "function": {"name": "sh"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "out"},
    ]
}
ANTHROPIC = {
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "I look"}, {"type": "tool_use", "id": "a", "name": "sh"}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "out"}]}
            ],
        },
    ]
}
RESPONSES = {
    "input": [
        {"type": "message", "role": "developer", "content": "instructions"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look"}]},
        {"type": "function_call", "call_id": "a", "name": "sh"},
        {"type": "function_call_output", "call_id": "a", "output": "out"},
    ]
}
GEMINI = {
    "contents": [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"text": "I look"}, {"functionCall": {"name": "sh", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "sh", "response": {"output": "out"}}}]},
    ]
}


@pytest.mark.parametrize("body", [CHAT, ANTHROPIC, RESPONSES, GEMINI])
def test_every_api_is_read_alike(body: Any) -> None:
    sent = sent_conversation(body)
    assert sent.texts == ["go", "I look"]
    assert [call.name for call in sent.calls] == ["sh"]
    assert [output for _id, output in sent.results] == ["out"]
    assert unpaired_calls(sent) == []


@pytest.mark.parametrize("body", [CHAT, ANTHROPIC, RESPONSES, GEMINI])
def test_a_call_without_its_result_is_found(body: Any) -> None:
    sent = sent_conversation(body)
    assert unpaired_calls(SentConversation(sent.texts, sent.calls, [])) != []
    assert unpaired_calls(SentConversation(sent.texts, [], sent.results)) != []
    assert unpaired_calls(SentConversation(sent.texts, sent.calls, sent.results * 2)) != []


@pytest.mark.parametrize("body", [None, 5, [], {"messages": 3}, {"contents": [{"role": "user", "parts": 1}]}])
def test_any_body_is_read(body: Any) -> None:
    assert sent_conversation(body) == SentConversation([], [], [])
