"""Tasks of Terminal-Bench: a folder with `task.yaml`, a Dockerfile, and `run-tests.sh`.

Of YAML, what these files use is read: top-level keys with a scalar, a block of text, or a list of scalars.
"""

from __future__ import annotations

import os
import re

from harness.errors import UsageError
from harness.fleet.plans.plan import FleetTask
from harness.fleet.tasks.harbor import read_text, without_canary

FILE = "task.yaml"
_KEY = re.compile(r"([A-Za-z_][\w-]*):(?:\s+(.*))?$")
_BLOCK = re.compile(r"([|>])([+-]?)\d*\s*(?:#.*)?$")
_ABOUT = ("difficulty", "category", "parser_name")


def read(folder: str) -> FleetTask:
    """Raises UsageError."""
    path = os.path.join(folder, FILE)
    fields = scalars(read_text(path))
    if not fields.get("instruction", "").strip():
        raise UsageError(f"{path}: there is no instruction")
    tests = {
        "tests": os.path.join(folder, "tests"),
        "tests/run-tests.sh": os.path.join(folder, "run-tests.sh"),
    }
    return FleetTask(
        id=os.path.basename(folder),
        prompt=without_canary(fields["instruction"]),
        context=folder,
        check="rm -rf /tests && cp -r tests /tests && TEST_DIR=/tests bash /tests/run-tests.sh",
        files={there: here for there, here in tests.items() if os.path.exists(here)},
        timeout_s=_seconds(fields, "max_agent_timeout_sec"),
        check_timeout_s=_seconds(fields, "max_test_timeout_sec") or 600.0,
        refusal=_refusal(folder),
        source="terminal-bench",
        metadata={name: fields[name] for name in _ABOUT if name in fields},
    )


def _refusal(folder: str) -> str:
    """Its own container is described there as the service `client`; others cannot be had."""
    path = os.path.join(folder, "docker-compose.yaml")
    if not os.path.isfile(path):
        return ""
    _before, _, services = read_text(path).partition("services:\n")
    names = re.findall(
        r"^ {2}([\w-]+):", re.split(r"^\S", services, maxsplit=1, flags=re.MULTILINE)[0], re.MULTILINE
    )
    others = [name for name in names if name != "client"]
    return f"it needs services beside its container ({', '.join(others)})" if others else ""


def scalars(text: str) -> dict[str, str]:
    """The top-level keys whose value is one scalar or block of text."""
    lines = text.split("\n")
    values: dict[str, str] = {}
    at = 0
    while at < len(lines):
        match = _KEY.match(lines[at])
        at += 1
        if match is None:
            continue
        end = next(
            (n for n in range(at, len(lines)) if lines[n].strip() and lines[n][0] not in " \t"), len(lines)
        )
        value = (match[2] or "").strip()
        if block := _BLOCK.fullmatch(value):
            values[match[1]] = _block(lines[at:end], block[1], block[2])
            at = end
        elif value:
            values[match[1]] = _scalar(" ".join([value, *(line.strip() for line in lines[at:end])]).strip())
            at = end
    return values


def _block(lines: list[str], style: str, chomping: str) -> str:
    indents = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    text = "\n".join(line[min(indents, default=0) :] for line in lines).rstrip("\n")
    if style == ">":  # lines are joined, empty ones end a paragraph
        text = re.sub(r"(?<!\n)\n(?!\n)", " ", text).replace("\n\n", "\n")
    return text if chomping == "-" else f"{text}\n"


def _scalar(text: str) -> str:
    if text[0] == text[-1] == "'" and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if text[0] == text[-1] == '"' and len(text) > 1:
        return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text[1:-1])
    return text.partition(" #")[0].strip()


def _seconds(fields: dict[str, str], name: str) -> float | None:
    try:
        value = float(fields.get(name, ""))
    except ValueError:
        return None
    return value if value > 0 else None
