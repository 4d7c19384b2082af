"""Files beside a prompt: those that were named with `--attach`, and those that `@path` names in the text itself."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Sequence

from harness.clients.commands import Attached
from harness.contracts.model import Attachment
from harness.errors import UsageError
from harness.models.turn_cache import known_media_type

MOST_BYTES = 20 * 1024 * 1024
"""Of one file: providers take no more."""
MOST_MENTIONED = 20
MOST_MENTIONED_BYTES = 256 * 1024
_MENTION = re.compile(r"(?<![\w@/`])@(?:\"([^\"\n]+)\"|([^\s\"'`<>|@]+))")
_ENDINGS = ".,;:!?)]}"
"""After a name they are the end of a sentence, unless a file is called so."""


def attached_files(paths: Sequence[str]) -> tuple[Attached, ...]:
    """Raises UsageError for what cannot be read, and what no model could be shown."""
    return tuple(map(_attached, paths))


def as_attachments(files: Sequence[Attached]) -> tuple[Attachment, ...]:
    return tuple(Attachment(file.media_type, file.data, file.name) for file in files)


def mentioned_files(text: str, cwd: str) -> tuple[Attached, ...]:
    """The files below the folder that a prompt names as `@path`; other words with an `@` are just words.

    Nothing outside of the folder is taken: a prompt is often a text that somebody else has written.
    """
    root = os.path.realpath(cwd)
    names = [name for match in _MENTION.finditer(text) for name in [_name_of(match, root)] if name]
    files = (_mentioned(root, name) for name in list(dict.fromkeys(names))[:MOST_MENTIONED])
    return tuple(file for file in files if file is not None)


def _attached(path: str) -> Attached:
    name = os.path.basename(path) or path
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot attach {path!r}: {reason}", hint="name a file that can be read") from error
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"cannot attach {path!r}: it is larger than {MOST_BYTES >> 20} MB",
            hint="let the agent read it instead: name it in the prompt",
        )
    kind = _kind_of(data)
    if not kind:
        raise UsageError(
            f"cannot attach {path!r}: it is {'empty' if not data else 'no text, picture or PDF'}",
            hint="png, jpeg, gif, webp, pdf and UTF-8 text can be attached",
        )
    return Attached(media_type=kind, data=b64encode(data).decode(), name=name)


def _kind_of(data: bytes) -> str:
    """By what is in it; empty for what no model is shown."""
    if kind := known_media_type(data):
        return kind
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ""
    return "text/plain" if text and "\0" not in text else ""


def _name_of(match: re.Match[str], root: str) -> str:
    """Relative to the folder, or absolute; empty when no file has that name."""
    name = match[1] or match[2]
    while name and not os.path.isfile(os.path.join(root, name)):
        if match[1] or name[-1] not in _ENDINGS:
            return ""
        name = name[:-1]
    return name


def _mentioned(root: str, name: str) -> Attached | None:
    real = os.path.realpath(os.path.join(root, name))
    if not real.startswith(root.rstrip("/") + "/"):
        return None
    try:
        with open(real, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    kind = _kind_of(data)
    if not kind or len(data) > (MOST_MENTIONED_BYTES if kind.startswith("text/") else MOST_BYTES):
        return None  # the model can read what it needs of it
    return Attached(media_type=kind, data=b64encode(data).decode(), name=os.path.relpath(real, root))
