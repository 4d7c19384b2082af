"""Harmless answers to requests beside the conversation: a title, a check, a summary."""

from __future__ import annotations

from typing import Any

from harness.lab.exchange import AnswerPart, Asked, Called, Record, Said, encode, record_of, records

_DEEPEST = 8


def harmless(asked: Asked, text: str, id: str) -> tuple[AnswerPart, ...]:
    """The tool that must be called, the JSON that must come, or else a short text."""
    if asked.forced_tool:
        sample = record_of(sample_of(asked.tools.get(asked.forced_tool, {}), text))
        return (Called(id, asked.forced_tool, sample, encode(sample).decode()),)
    if asked.schema:
        return (Said(encode(sample_of(asked.schema, text)).decode()),)
    return (Said(text),)


def sample_of(schema: Record, text: str, depth: int = 0) -> Any:
    """The smallest value that a JSON schema asks for, as far as such schemas go."""
    if "const" in schema:
        return schema["const"]
    if isinstance(chosen := schema.get("enum"), list) and chosen:
        return chosen[0]
    for name in ("anyOf", "oneOf", "allOf"):
        if options := records(schema.get(name)):
            return sample_of(options[0], text, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind.lower() if isinstance(kind, str) else "object":
        case "string":
            return text
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "array":
            count = schema.get("minItems", 0) if depth < _DEEPEST else 0
            return [sample_of(record_of(schema.get("items")), text, depth + 1)] * count
        case "null":
            return None
        case _:
            properties = record_of(schema.get("properties")) if depth < _DEEPEST else {}
            wanted = schema.get("required", list(properties))
            return {
                name: sample_of(record_of(properties[name]), text, depth + 1)
                for name in properties
                if name in wanted
            }
