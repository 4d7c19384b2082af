"""What the user said, in the sessions that Claude Code stores, and whether the model was done with it."""

from __future__ import annotations

import re
from typing import Any

from harness.contracts.translator import Record
from harness.formats.fields import items_of, record_of, text_of

INTERRUPTION = "[Request interrupted by user"
UNFINISHED = frozenset({"", "tool_use", "pause_turn"})
_COMMAND = re.compile(
    r"\s*<command-name>(.*?)</command-name>.*?(?:<command-args>(.*?)</command-args>|\Z)", re.DOTALL
)
_SHELL_INPUT = re.compile(r"\s*<bash-input>(.*)</bash-input>\s*", re.DOTALL)
_NOT_TYPED = ("<task-notification>", "<local-command-", "<bash-stdout>", INTERRUPTION)


def prompt_of(record: Record, content: Any) -> str | None:
    """What the user asked for; None if the record is no prompt."""
    blocks = [record_of(block) for block in items_of(content)]
    if record.get("isMeta") is True or record.get("isCompactSummary") is True:
        return None
    if any(text_of(block.get("type")).endswith("tool_result") for block in blocks):
        return None
    text = words_of(content)
    if command := _COMMAND.match(text):
        return " ".join(filter(None, (command[1].strip(), (command[2] or "").strip())))
    if shell := _SHELL_INPUT.fullmatch(text):
        return f"!{shell[1].strip()}"
    if text.lstrip().startswith(_NOT_TYPED):
        return None
    return text or ("" if blocks else None)


def words_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = map(record_of, items_of(content))
    return "\n".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
