"""The blocks of one model answer."""

from __future__ import annotations

from typing import Any

from harness.sources.formats.fields import record_of, text_of


def with_one_text(blocks: list[Any]) -> list[Any]:
    """Several texts in one record are one; it stands where the first of them does.

    Not for an answer that was streamed before: there each text has a name of its own.
    """
    texts = [block for block in map(record_of, blocks) if text_of(block.get("text"))]
    if len(texts) < 2:
        return blocks
    whole = {**texts[0], "text": "".join(block["text"] for block in texts)}
    rest = {id(block) for block in texts[1:]}
    return [whole if block is texts[0] else block for block in blocks if id(block) not in rest]
