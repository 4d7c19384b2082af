"""JSON-RPC as ACP has it: errors with their codes, the parameters of a request, and the blocks of a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from harness.clients.commands import Attached
from harness.errors import HarnessError, LogLocked, UnknownSession, UsageError

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD = -32700, -32600, -32601
INVALID_PARAMETERS, INTERNAL_ERROR = -32602, -32603
CANCELLED, NO_SESSION = -32800, -32002
LONGEST_MESSAGE = 64 * 1024 * 1024
"""Of one message, in bytes: an image or a large file fits."""
LONGEST_PROMPT = 8 * 1024 * 1024
"""Of the text of a prompt, in characters."""


class RpcError(Exception):
    """What a request is answered with instead of a result."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    @property
    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": str(self), **({"data": self.data} if self.data else {})}


def as_rpc_error(error: HarnessError, session_id: str = "") -> RpcError:
    if isinstance(error, UnknownSession):
        return RpcError(NO_SESSION, error.words, {"sessionId": session_id} if session_id else None)
    code = INVALID_PARAMETERS if isinstance(error, UsageError) else INTERNAL_ERROR
    if isinstance(error, LogLocked) and error.holder:
        return RpcError(INTERNAL_ERROR, error.words, {"holder": error.holder})
    return RpcError(code, error.words)


def text_field(parameters: Mapping[str, Any], name: str) -> str:
    """Raises RpcError."""
    value = parameters.get(name)
    if not isinstance(value, str) or not value or len(value) > 4096:
        raise RpcError(INVALID_PARAMETERS, f"{name} must be a text")
    return value


def absolute_path(parameters: Mapping[str, Any], name: str = "cwd") -> str:
    path = text_field(parameters, name)
    if not path.startswith("/") or "\0" in path:
        raise RpcError(INVALID_PARAMETERS, f"{name} must be an absolute path")
    return path


_LAST_FIELDS = re.compile(
    r'"id"\s*:\s*(?P<id>-?[0-9]{1,18}|"(?:[^"\\]|\\.)*")\s*(?:,\s*"(?:jsonrpc|method)"\s*:\s*"[^"]*"\s*)*\}\s*$'
)


def id_of_part(start: bytes, end: bytes) -> str | int | None:
    """The id of a request of which only the first and the last bytes were kept. Programs write it before or behind `params`."""
    decoder, text = json.JSONDecoder(), start.decode("utf-8", "replace")
    at = text.find("{") + 1
    try:
        while at:
            name, at = decoder.raw_decode(text, _behind(text, at, ", \t"))
            value, at = decoder.raw_decode(text, _behind(text, at, ": \t"))
            if name == "id":
                return value if isinstance(value, str | int) and not isinstance(value, bool) else None
    except (ValueError, RecursionError):  # the beginning ends here
        pass
    match = _LAST_FIELDS.search(end.decode("utf-8", "replace"))
    value = json.loads(match["id"]) if match else None
    return value if isinstance(value, str | int) else None


def _behind(text: str, at: int, skipped: str) -> int:
    while text[at : at + 1] and text[at] in skipped:
        at += 1
    return at


class EditorPrompt(NamedTuple):
    text: str
    files: tuple[Attached, ...]


def prompt_of(blocks: Any) -> EditorPrompt:
    """The text and the files of `session/prompt`. Raises RpcError."""
    if not isinstance(blocks, Sequence) or isinstance(blocks, str):
        raise RpcError(INVALID_PARAMETERS, "prompt must be a list of content blocks")
    texts: list[str] = []
    files: list[Attached] = []
    for block in blocks:
        if not isinstance(block, dict):
            raise RpcError(INVALID_PARAMETERS, "a content block must be an object")
        _add_block(block, texts, files)
    text = "\n\n".join(part for part in texts if part)
    if len(text) > LONGEST_PROMPT:
        raise RpcError(
            INVALID_PARAMETERS,
            f"the prompt has {len(text)} characters, and at most {LONGEST_PROMPT} are taken: "
            "put large texts into files, and name those",
        )
    if not text.strip() and not files:
        raise RpcError(INVALID_PARAMETERS, "the prompt is empty")
    return EditorPrompt(text, tuple(files))


def _add_block(block: dict[str, Any], texts: list[str], files: list[Attached]) -> None:
    kind = block.get("type")
    if kind == "text":
        texts.append(_text(block, "text"))
    elif kind in ("image", "audio"):
        files.append(Attached(media_type=_text(block, "mimeType"), data=_text(block, "data")))
    elif kind == "resource_link":
        name, uri = block.get("name"), _text(block, "uri")
        texts.append(f"[{name}]({uri})" if isinstance(name, str) and name else uri)
    elif kind == "resource":
        resource = block.get("resource")
        if not isinstance(resource, dict):
            raise RpcError(INVALID_PARAMETERS, "a resource must be an object")
        if isinstance(resource.get("text"), str):
            texts.append(f'<context uri="{resource.get("uri", "")}">\n{resource["text"]}\n</context>')
        else:
            media_type = resource.get("mimeType")
            media_type = media_type if isinstance(media_type, str) else "application/octet-stream"
            files.append(Attached(media_type=media_type, data=_text(resource, "blob")))
    else:
        raise RpcError(INVALID_PARAMETERS, f"unknown kind of content: {str(kind)[:60]!r}")


def _text(block: dict[str, Any], name: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMETERS, f"a content block of this type needs `{name}`")
    return value
