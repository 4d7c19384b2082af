"""Writes the generated documents: what can be read from the code is never typed twice.

usage: python docs/generate.py [--check]
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.agents.registry import load, names, names_with
from harness.cli import parser
from harness.clients import formats
from harness.config.settings import TABLE, to_toml
from harness.contracts.agent import Agent
from harness.events import AnyEvent
from harness.events.envelope import Event
from harness.events.operation import Operation
from harness.events.run import Task
from harness.events.usage import Usage

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PACKAGE = ROOT / "src" / "harness"
TREE_COLUMN = 24
LINE_LENGTH = 120
REVEALED = ("deltas", "reasoning", "tools", "sub_agents", "usage", "cost", "result")
OPTIONS = (
    "model",
    "resume",
    "continue_last",
    "max_turns",
    "max_budget_usd",
    "system_prompt",
    "append_system_prompt",
    "effort",
    "read-only",
    "agent-default",
)
FLAGS = {
    "continue_last": "--continue",
    "read-only": "--permissions read-only",
    "agent-default": "--permissions agent-default",
}


WHO = {
    "anyone": "any project, if it only narrows",
    "trusted": "you, or a trusted project",
    "user": "you alone",
}
TRUST_TEXT = (
    "## What a project may set\n",
    "A `harness.toml` comes with a project, whose author you may not know. By itself it can only narrow: fewer permissions",
    "than your own settings give, a shorter time, less money, more messages. Everything else in it (which program or model",
    "runs, arguments, prices by which a budget is counted, wider permissions) counts only once you trust the file:\n",
    "    harness trust DIR            shows what the file asks for, and asks you; --yes does not ask",
    "    harness trust --list         what you trust",
    "    harness trust --revoke DIR   no more\n",
    "Trust is bound to the path and to the content, also of programs in the project that the file names: after every",
    "change it is as untrusted as before. Until then `harness run` says in one warning what it leaves out, and `harness",
    "config show` lists it. What you trust is stored in `trusted.json` of your data directory (`~/.local/share/harness`),",
    "readable by you alone.\n",
    "No other file of a project starts a program or grants anything: `.mcp.json` is read only when you name it with",
    "`--mcp`, skills are text for the model (and your own go before a project's of the same name), plugins are",
    "installed Python packages. What a folder brings for agent programs is another matter: [trust.md](trust.md).\n",
    "## All settings\n",
)


def events_page() -> str:
    parts = [
        "# Events\n",
        "One line of a log is one event: a JSON object whose `type` is the name of its kind. Optional fields are",
        "left out, never null. Fields and kinds that a reader does not know are preserved when it writes them again.\n",
        "## On every event\n",
        _field_table(Event, own_only=False, skip={"unread"}),
    ]
    module = ""
    for cls in AnyEvent.__args__:
        if cls.__module__ != module:
            module = cls.__module__
            parts.append(f"\n## {_first_line(inspect.getdoc(import_module(module)))}\n")
        parts.append(f"\n### `{cls.__name__}`\n\n{_paragraph(cls.__doc__)}\n")
        table = _field_table(cls, own_only=True)
        if table:
            parts.append(table)
    parts.append(
        "\n## Operations\n\nWhat a tool call means (`operations` of `ToolStart` and `ToolEnd`), by `kind`.\n"
    )
    for cls in Operation.__args__:
        doc = "" if (cls.__doc__ or "").startswith(cls.__name__ + "(") else _paragraph(cls.__doc__)
        parts.append(f"\n### `{cls.__struct_config__.tag}`\n{doc}\n")
        table = _field_table(cls, own_only=True)
        if table:
            parts.append(table)
    for cls, title in ((Usage, "Usage"), (Task, "Task")):
        parts.append(f"\n## {title}\n\n{_field_table(cls, own_only=True)}")
    return "\n".join(parts)


TWO_WAY = ("approve", "ask", "plan", "steer", "files", "model", "fork")


def _conversations(agents: list[Agent]) -> list[str]:
    """The table of agents that are held in a conversation."""
    parts = [
        "\n## What it can do in a conversation\n",
        "With `--permissions ask`, in `harness chat`, on the page and in the `Harness` class: [two-way.md](two-way.md).\n",
        "| agent | since | " + " | ".join(f"`{name}`" for name in TWO_WAY) + " |",
        "|---" * (len(TWO_WAY) + 2) + "|",
    ]
    for agent in agents:
        if (two_way := agent.two_way) is not None:
            marks = " | ".join("✓" if name in two_way.capabilities else "" for name in TWO_WAY)
            since = ".".join(map(str, two_way.since)) or "–"
            if two_way.asks_since:
                since += f" (`ask`: {'.'.join(map(str, two_way.asks_since))})"
            parts.append(f"| {agent.name} | {since} | {marks} |")
    return parts


def agents_page() -> str:
    agents = [load(name) for name in names()]
    recorded = {agent.name: _versions(agent.name) for agent in agents}
    parts = [
        "# Agents\n",
        "What each agent can be asked, and what its stream reveals. `harness agents check NAME` says what is",
        "installed here.\n",
        "| agent | name | program | recorded versions |",
        "|---|---|---|---|",
    ]
    for agent in agents:
        versions = ", ".join(recorded[agent.name]) or "–"
        derived = " (from its documentation)" if agent.derived else ""
        programs = ", ".join(f"`{Path(binary).name}`" for binary in agent.binaries) or "–"
        parts.append(f"| {agent.title} | `{agent.name}` | {programs} | {versions}{derived} |")
    parts += [
        "\n## What it can be asked\n",
        "| agent | " + " | ".join(f"`{_flag(name)}`" for name in OPTIONS) + " |",
    ]
    parts.append("|---" * (len(OPTIONS) + 1) + "|")
    for agent in agents:
        marks = " | ".join("✓" if option in agent.supports else "" for option in OPTIONS)
        parts.append(f"| {agent.name} | {marks} |")
    parts.append(
        "\nAn option that an agent lacks gives one warning and is dropped; what `--permissions` narrows is refused\n"
        "instead. Limits on turns and money that an agent does not know are enforced by Harness itself."
    )
    parts += _conversations(agents)
    parts.append("\n## What its stream reveals")
    for agent in agents:
        ordered = [*REVEALED, *(key for key in agent.reveals if key not in REVEALED)]
        rows = [
            f"| {key.replace('_', ' ')} | {agent.reveals[key]} |" for key in ordered if key in agent.reveals
        ]
        parts += [f"\n### {agent.title}\n", "| | |\n|---|---|", *rows]
    return "\n".join(parts) + "\n"


def views_page() -> str:
    parts = ["# Views\n", "What `--format NAME` gives. Each is a pure fold of the log, live or later.\n"]
    for best, name in sorted((formats.BEST_NAMES.get(name, name), name) for name in formats.names()):
        module = f"harness.views.{name.replace('-', '_')}"
        also = {name, *(alias for alias, meant in formats.ALIASES.items() if meant == name)} - {best}
        spellings = f"\n\nAlso `{'`, `'.join(sorted(also))}`; in Python `{module}`." if also else ""
        parts.append(f"## `{best}`\n\n{inspect.getdoc(import_module(module)) or ''}{spellings}\n")
    return "\n".join(parts)


def cli_page() -> str:
    parts = ["# Command line\n", "```", parser.overview().rstrip(), "```"]
    for name in parser.names():
        command = parser.parser_of(name)
        parts.append(f"\n## `harness {name}`\n\n```\n{command.format_help().rstrip()}\n```")
        for action in getattr(parser.load(name), "ACTIONS", ()):
            # What every command takes is said above.
            help_text, _, _ = parser.action_of(command, action).format_help().partition("\n\nmessages:")
            parts.append(f"\n### `harness {name} {action}`\n\n```\n{help_text}\n```")
    return "\n".join(parts)


def settings_page() -> str:
    parts = [
        "# Settings\n",
        "Read from the nearest `harness.toml` above the current directory, then from the user's `config.toml`",
        "(`harness config path`). A flag beats an environment variable, which beats the project's file, which",
        "beats the user's. `harness config show --origin` shows where each value comes from.\n",
        *TRUST_TEXT,
        "| setting | what | value | variable | who may set it |",
        "|---|---|---|---|---|",
    ]
    for setting in TABLE:
        default = "" if setting.default is None else f", default `{to_toml(setting.default)}`"
        variable = f"`{setting.environment}`" if setting.environment else ""
        parts.append(
            f"| `{setting.key}` | {setting.summary} | {setting.expected}{default} | {variable} "
            f"| {WHO[setting.source]} |"
        )
    return "\n".join(parts)


def tree_picture() -> str:
    """The folders and top-level modules of the package, the lowest layer first, each with its own first sentence."""
    lines = ["src/harness/"]
    places = [PACKAGE / name for layer in reversed(_layers()) for name in sorted(layer)]
    for place in places:
        module = place.with_suffix(".py")
        lines += _branch(place, 1) if place.is_dir() else [_leaf(module.name, module, 1)]
    return "\n".join(["```", *lines, "```"])


def _branch(folder: Path, depth: int) -> Iterator[str]:
    yield _leaf(f"{folder.name}/", folder / "__init__.py", depth)
    for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
        # Deeper than this only folders that are a registry: where something is added by adding a file. Of the agents,
        # which are one too, no name is here: `docs/agents.md` has them.
        if folder.name == "agents":
            return
        if depth == 1 or _first_sentence(inner / "__init__.py").startswith("One file per"):
            yield from _branch(inner, depth + 1)


def _leaf(name: str, module: Path, depth: int) -> str:
    return f"{'   ' * depth + name:<{TREE_COLUMN}}{_first_sentence(module)}"


def _first_sentence(module: Path) -> str:
    doc = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return re.split(r"\.(?:\s|$)|;\s", " ".join(doc.split("\n\n")[0].split()))[0]


def layer_line() -> str:
    """The layers of import-linter, the highest first."""
    drawn = [f"({' ∥ '.join(layer)})" if len(layer) > 1 else layer[0] for layer in _layers()]
    return "    " + textwrap.fill(" › ".join(drawn), LINE_LENGTH - 4, subsequent_indent=" " * 8)


def _layers() -> list[list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def _versions(agent: str) -> list[str]:
    folder = ROOT / "tests/agents" / agent
    found = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(found, key=lambda text: [int(part) if part.isdigit() else 0 for part in text.split(".")])


def _flag(name: str) -> str:
    return FLAGS.get(name, "--" + name.replace("_", "-"))


def _field_table(cls: Any, *, own_only: bool, skip: set[str] = frozenset()) -> str:  # type: ignore[assignment]
    documented = _field_docs(cls)
    rows = [
        f"| `{name}` | {kind} | {doc} |"
        for name, (kind, doc) in documented.items()
        if name not in skip and (not own_only or name in cls.__annotations__)
    ]
    return "| field | type | |\n|---|---|---|\n" + "\n".join(rows) + "\n" if rows else ""


def _field_docs(cls: Any) -> dict[str, tuple[str, str]]:
    """Name → type and the docstring under the field."""
    tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
    (body,) = [
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    ]
    found = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            doc = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                doc = " ".join(inspect.cleandoc(str(following.value.value)).split())
            kind = ast.unparse(node.annotation).removesuffix(" | None")
            optional = ", optional" if ast.unparse(node.annotation) != kind else ""
            found[node.target.id] = (f"`{kind.replace('|', 'or')}`{optional}", doc)
    return found


def _paragraph(doc: str | None) -> str:
    return inspect.cleandoc(doc or "")


def _first_line(doc: str | None) -> str:
    return (doc or "").split("\n")[0].rstrip(".")


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "settings.md": settings_page,
    "events.md": events_page,
    "agents.md": agents_page,
    "views.md": views_page,
}


def agent_table() -> str:
    """The agents that were verified with a real program, and what Harness can do with each. Marks only: details are linked."""
    rows = [
        "| | runs | asks you first | can be steered | its history is read | continues others' sessions | version |"
    ]
    rows.append("|---" * 7 + "|")
    histories, writers = names_with("store"), names_with("writer")
    text = (DOCS / "verified.md").read_text(encoding="utf-8")
    for row in _table_rows(text.partition("## Held in a conversation")[2]):
        name = row["agent"]
        asks, steers = (row[column].startswith("✓") for column in ("approve", "steer"))
        marks = (True, asks, steers, name in histories, name in writers)
        rows.append(
            f"| {load(name).title} | {' | '.join('✓' if mark else '' for mark in marks)} | {row['version']} |"
        )
    return "\n".join(rows)


def _table_rows(text: str) -> list[dict[str, str]]:
    """The first table of a text."""
    lines = text.partition("\n| ")[2].partition("\n\n")[0].split("\n")
    header, _, *rows = [[cell.strip() for cell in line.strip(" |").split(" | ")] for line in lines]
    return [dict(zip(header, row, strict=True)) for row in rows]


_PIP, _NPM = "PyPI", "npm"
_ORACLES = (
    ("`atif`", "ATIF 1.8", _PIP, "atif", "test_atif_view"),
    ("`otel`", "OTLP, as JSON and as protobuf", _PIP, "opentelemetry-proto", "test_otel_view"),
    ("`--otlp`", "spans and metrics, as they are sent", _PIP, "opentelemetry-proto", "test_span_export"),
    ("`agui`", "AG-UI 1.0, each event", _PIP, "ag-ui-protocol", "test_agui_view"),
    ("`agui`", "AG-UI 1.0, the order of events", _NPM, "@ag-ui/client", "test_agui_client"),
    ("`/agui`", "AG-UI 1.0 over HTTP, interrupts and resume", _NPM, "@ag-ui/client", "test_agui_api"),
    ("`/v1/chat/completions`", "chunks and answers", _PIP, "openai", "test_openai_folds"),
    ("`/v1/responses`", "events and responses", _PIP, "openai", "test_openai_folds"),
    ("`/v1`", "its client over HTTP", _PIP, "openai", "test_openai_api"),
    ("`/acp`", "ACP 1 over WebSocket and HTTP", _PIP, "agent-client-protocol", "test_acp_api"),
    ("`/acp`", "ACP 1 over WebSocket and HTTP", _NPM, "@agentclientprotocol/sdk", "test_acp_api"),
    ("`acp`", "ACP 1, each update", _PIP, "agent-client-protocol", "test_acp_view"),
    ("`acp`", "ACP 1 and the draft of 2, JSON Schema", _NPM, "@agentclientprotocol/sdk", "test_acp_view"),
    ("`harness acp`", "ACP 1 over standard input", _PIP, "agent-client-protocol", "test_cli_acp"),
    ("`harness acp`", "ACP 1 and the draft of 2", _NPM, "@agentclientprotocol/sdk", "test_npm_clients"),
    ("`harness mcp`", "MCP of 2026-07-28, and as before", _PIP, "mcp", "test_cli_mcp"),
    (
        "`harness mcp`",
        "MCP of 2026-07-28, and as before",
        _NPM,
        "@modelcontextprotocol/client",
        "test_npm_clients",
    ),
    (
        "`harness mcp`",
        "its conformance suite, with tasks",
        _NPM,
        "@modelcontextprotocol/conformance",
        "test_mcp_conformance",
    ),
)


def format_table() -> str:
    """What each format is held against: the package, its version, and how many recordings."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    node = (ROOT / "web" / "package.json").read_text(encoding="utf-8")
    two_way = ROOT / "tests" / "recordings" / "two-way"
    held = (
        path
        for one in ("acp*", "claude", "codex-app-server", "pi-rpc")
        for path in two_way.glob(f"{one}/*/*.gz")
    )
    golden = (ROOT / "tests" / "agents").glob("*/*/*/events.ndjson")
    recorded = sum(1 for _ in golden) + sum("same-script" not in path.name for path in held)
    rows = ["| format | what | official package | version | recordings | test |", "|---" * 6 + "|"]
    for name, what, index, package, test in _ORACLES:
        pattern = rf"^{re.escape(package)}==(\S+)" if index == _PIP else rf'"{re.escape(package)}": "([^"]+)"'
        version = re.search(pattern, lock if index == _PIP else node, re.MULTILINE)
        assert version is not None, package
        (path,) = (ROOT / "tests").rglob(f"{test}.py")
        logs = f"{recorded:,}" if path.parent.name == "views" else "live"
        rows.append(f"| {name} | {what} | {index} `{package}` | {version[1]} | {logs} | `{test}.py` |")
    return "\n".join(rows)


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "docs/formats.md": {"formats": format_table},
    "ARCHITECTURE.md": {"tree": tree_picture, "layers": layer_line},
    "README.md": {"agents": agent_table},
}
"""Parts of documents, between `<!-- generated: NAME -->` and `<!-- end -->`."""


def pages() -> Iterator[tuple[Path, str]]:
    """Every document that is generated, whole or in parts, with the text that it should have."""
    for name, make in PAGES.items():
        yield DOCS / name, f"<!-- Generated by docs/generate.py; do not edit. -->\n\n{make().strip()}\n"
    for document, parts in PARTS.items():
        path = ROOT / document
        text = path.read_text(encoding="utf-8")
        for name, make in parts.items():
            before, start, rest = text.partition(f"<!-- generated: {name} -->\n")
            text = f"{before}{start}\n{make()}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
        yield path, text


def main(arguments: list[str]) -> int:
    os.environ["COLUMNS"] = "100"  # help texts are wrapped to the terminal, whose width must not matter here
    stale = []
    for path, text in pages():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"out of date: {', '.join(stale)} (make docs)", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
