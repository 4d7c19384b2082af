"""Settings that a folder brings, as plain sentences: what an agent would start, connect to and allow by them.

    `.claude/settings.json`: runs `./setup.sh` (SessionStart)
    `.mcp.json`: starts `npx evil`

What is not recognised is not left out: "and settings that Harness cannot read" says that there is more.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from harness.approvals.folder_settings import FolderSettings

_UNREAD = "and settings that Harness cannot read"
_STARTS = re.compile(r": (?:… )?(?:runs|starts|loads) `|: a program|: packages|: a skill|= `")
_NOT_BOUND = "what these programs load in turn may change without another question"
_SERVERS = frozenset({"mcpservers", "mcp", "mcp_servers", "servers", "lspservers", "lsp"})
_RUNS = frozenset(
    {
        *(
            "apikeyhelper",
            "statusline",
            "awsauthrefresh",
            "awscredentialexport",
            "otelheadershelper",
            "filesuggestion",
        ),
        *("discoverycommand", "callcommand", "notify", "lint-cmd", "test-cmd", "runner", "linker", "command"),
    }
)
_LOADS = frozenset({"plugin", "plugins", "extensions", "packages", "enabledplugins", "preload"})
_ALLOWS = frozenset(
    {"allow", "defaultmode", "permission", "permissions", "approval_policy", "sandbox_mode", "trust"}
)
_SAYS_LITTLE = frozenset(
    {
        *(
            "$schema",
            "version",
            "model",
            "theme",
            "name",
            "description",
            "deny",
            "ask",
            "instructions",
            "language",
        ),
        *(
            "enableallprojectmcpservers",
            "includecoauthoredby",
            "cleanupperioddays",
            "hooksconfig",
            "type",
            "enabled",
        ),
        *("timeout", "matcher", "features", "security", "tools"),
    }
)
_CODE = (".js", ".cjs", ".mjs", ".ts", ".py", ".sh", ".bash", ".rb", ".pl", ".ps1")
_TEXT = (".md", ".mdc")
_LONGEST = 200
_MOST_SENTENCES = 60
_VARIABLE = re.compile(r"^\s*(?:export\s+)?(\w+)\s*=", re.MULTILINE)
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def sentences(settings: FolderSettings) -> list[str]:
    """One for each thing that would happen, the most telling first; never none if the folder brings something."""
    lines = [line for name, data in settings.contents.items() for line in _of_file(name, data)]
    lines += [f"`.git/config`: {setting.name} = `{_cut(setting.value)}`" for setting in settings.git]
    lines = list(dict.fromkeys(lines))
    lines.sort(key=lambda line: _UNREAD in line)
    if len(lines) > _MOST_SENTENCES:
        lines = [*lines[:_MOST_SENTENCES], f"and {len(lines) - _MOST_SENTENCES} more"]
    if not settings.is_whole:
        lines.append("and more files than Harness looks at")
    if settings.programs or any(map(_STARTS.search, lines)):
        lines.append(_NOT_BOUND)
    return lines


def _of_file(name: str, data: bytes) -> Iterator[str]:
    base = name.rpartition("/")[2]
    name = _cut(name)
    if base == ".env" or base.startswith(".env."):
        variables = _VARIABLE.findall(data.decode("utf-8", "replace"))
        yield f"`{name}`: sets {', '.join(variables[:10]) or 'variables'}"
    elif "node_modules" in name.split("/"):
        yield f"`{name}`: packages, which are not looked into"
    elif name.endswith(_TEXT):
        yield f"`{name}`: a skill, command or agent that may run commands"
    elif name.endswith(_CODE) or data.startswith(b"#!"):
        yield f"`{name}`: a program that may be run"
    else:
        tables = _parsed(name, data)
        lines = list(_told(tables, ())) if isinstance(tables, dict) else []
        yield from (f"`{name}`: {line}" for line in lines)
        if not isinstance(tables, dict) or not _is_understood(tables):
            yield f"`{name}`: {_UNREAD}" if not lines else f"`{name}`: … {_UNREAD}"


def _parsed(name: str, data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    try:
        if name.endswith(".toml"):
            return tomllib.loads(text)
        return json.loads(_COMMENT.sub("", text) if name.endswith("c") else text)
    except (ValueError, RecursionError):
        return None


def _told(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for key, value in table.items():
        low = key.lower()
        within = (*path, low)
        if low in _SERVERS and isinstance(value, dict):
            yield from _servers(value)
        elif low == "hooks":
            yield from _hooks(value, "")
        elif low in _RUNS:
            yield from (f"runs `{_cut(command)}` ({key})" for command in _commands(value))
        elif low in _LOADS and value:
            names = list(value) if isinstance(value, dict | list) else [value]
            yield f"loads {', '.join(f'`{_cut(str(name))}`' for name in names[:8])}"
        elif low == "env" and isinstance(value, dict):
            yield f"sets {', '.join(map(_cut, list(value)[:10]))}"
        elif low in _ALLOWS and not isinstance(value, dict):
            items = value if isinstance(value, list) else [value]
            yield f"asks less: {key} {', '.join(f'`{_cut(str(item))}`' for item in items[:8])}"
        elif low == "permission" and isinstance(value, dict):
            allowed = [name for name, answer in value.items() if answer == "allow"]
            yield f"asks less: allows {', '.join(map(_cut, allowed)) or 'what it names'}"
        elif isinstance(value, dict) and len(path) < 4:
            yield from _told(value, within)


def _servers(servers: dict[str, Any]) -> Iterator[str]:
    for name, server in servers.items():
        if not isinstance(server, dict):
            continue
        command = server.get("command", server.get("cmd"))
        words = [command] if isinstance(command, str) else command if isinstance(command, list) else []
        arguments = server.get("args", [])
        words = [*words, *(arguments if isinstance(arguments, list) else [])]
        if words:
            yield f"starts `{_cut(' '.join(map(str, words)))}` (server {_cut(name)})"
        elif address := server.get("url", server.get("httpUrl")):
            yield f"connects to `{_cut(str(address))}` (server {_cut(name)})"


def _hooks(value: Any, event: str) -> Iterator[str]:
    """Whatever the nesting: each command, with the event that starts it."""
    if isinstance(value, str):
        yield f"runs `{_cut(value)}`{f' ({_cut(event)})' if event else ''}"
    elif isinstance(value, list):
        for item in value:
            yield from _hooks(item, event) if not isinstance(item, str) else ()
    elif isinstance(value, dict):
        named = str(value.get("event", event))
        for key, inner in value.items():
            if key in ("command", "bash", "powershell", "cmd", "run", "script") and isinstance(
                inner, str | list
            ):
                text = inner if isinstance(inner, str) else " ".join(map(str, inner))
                yield f"runs `{_cut(text)}`{f' ({_cut(named)})' if named else ''}"
            elif isinstance(inner, dict | list):
                yield from _hooks(inner, named or key)


def _commands(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield " ".join(map(str, value))
    elif isinstance(value, dict) and isinstance(value.get("command"), str):
        yield value["command"]


def _is_understood(table: dict[str, Any]) -> bool:
    keys = _SERVERS | _RUNS | _LOADS | _ALLOWS | _SAYS_LITTLE | {"hooks", "env"}
    return all(key.lower() in keys for key in table)


def _cut(text: str) -> str:
    """On one line, with everything written out that a terminal would hide or obey."""
    text_shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return text_shown if len(text_shown) <= _LONGEST else f"{text_shown[:_LONGEST]}…"
