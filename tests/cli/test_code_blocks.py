"""Every block of code in README and the documents is tested; what is not says here why."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from code_blocks import CodeBlock, all_blocks, blocks_of
from harness.config.files import read_file
from harness.fleet.plans.plan_file import PlanText
from harness.lab import parse_script
from harness.lab.scenario import read_scenario
from harness.native.additions.hooks import read_hooks
from harness.native.mcp.config import load_servers
from shown_commands import bare_command, commands_in, is_accepted
from source_tree import ROOT, expect_none
from test_cli_transcripts import TRANSCRIPTS

BLOCKS = all_blocks()
GENERATED = {
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "docs").glob("*.md")
    if page.read_text(encoding="utf-8").startswith("<!-- Generated")
}
"""`make check` compares them with the code that they are made from."""
ELSEWHERE = {
    **{
        f"docs/{page.name}": "tests/session/test_harness_documents.py"
        for page in (ROOT / "docs").glob("harness*.md")
        if "```" in page.read_text(encoding="utf-8")
    },
    "docs/sql.md": "tests/cli/test_cli_query.py",
    "docs/lab.md": "tests/lab/test_lab_docs.py",
    "docs/scripts.md": "tests/lab/test_lab_docs.py",
    "docs/python.md": "tests/cli/test_cli_documents.py",
}
"""Pages whose programs and scripts have a test of their own, which names them."""
UNTESTED = {
    "$ harness run --agent claude --prompt": "abridged output of an agent that costs money",
    "$ harness chat --agent native --model scripted/demo": "typed on a terminal, with times and a folder of its own",
    "$ harness run --agent claude --permissions ask": "a line on a terminal; its id is another one each time",
    "$ harness sessions show last --format requests": "a real conversation; tests/gateway has the columns",
    "Played to its end": "a real conversation; tests/gateway has the sentences",
    "$ harness lab serve hello.toml": "a server on a port of its own, abridged",
    "$ harness lab serve lab.toml": "a server on a port that may be taken",
    "There are no three colours": "what a small model said once",
    "$ harness sessions show last --format log": "waits that a provider has asked for",
    "$ harness run --agent native --model ollama/qwen3": "whether something listens is of the machine",
    "$ harness usage --by model": "runs with models that cost money",
    "$ harness run --agent native --model anthropic/": "a model that costs money",
    "$ harness run --agent codex --sandbox": "which sandbox there is, is of the machine",
    "$ harness trust -a claude": "asks on a terminal; tests/cli/commands/test_cli_trust.py has the sentences",
    "$ harness undo": "asks on a terminal; tests/cli/commands/test_cli_undo.py has the words",
    "agent   window": "windows of a subscription",
    "harness  2 need you": "a screen; tests/tui has its parts",
    "edit  failed": "shortened messages of tools; tests/native/tools has them whole",
    "bash         {": "shortened calls of tools; tests/native/tools has them whole",
    "stdout:": "a sandbox of the machine; tests/sandbox",
    "server {": "lines for nginx: tests/server/test_behind_nginx.py",
    "# Caddyfile": "lines for Caddy, which is not here",
    "const agent": "lines for a library of others; tests/server has the same requests",
    "client = openai": "lines for a library of others; tests/server/api/test_openai_api.py makes the same calls",
    '{"kind":"start"': "a shortened raw log; tests/log has whole ones",
    "ToolSpec(": "printed by the program above it, which docs/tools.md's own test runs",
    "count_lines True": "compared by tests/test_documents.py",
}
"""By how the block begins, with the reason."""
PICTURES = {"ARCHITECTURE.md": "drawings; the tree is compared by tests/test_documents.py"}
OTHERS = (
    "claude",
    "codex",
    "docker",
    "echo",
    "export",
    "gh",
    "ln",
    "pip",
    "pipx",
    "python",
    "python3",
    "ray",
    "scp",
    "ssh",
    "uv",
)
"""Programs of others, of which nothing is known here but that a shell can read the line."""
SETTINGS = (
    "docs/gateway.md",
    "docs/models.md",
    "docs/native.md",
    "docs/permissions.md",
    "docs/protocol.md",
    "docs/usage.md",
)


def _is_commands(block: CodeBlock) -> bool:
    return block.kind in ("", "sh") and all(_is_command(line) for line in block.lines)


def _is_command(line: str) -> bool:
    words = re.sub(r"^\$ |^\(umask \d+; .*?\) && ", "", line.strip()).split()
    first = words[0].rpartition("/")[2]
    return first in ("harness", "make", "printf", "openssl", *OTHERS) or line.startswith("#")


def _take_commands(block: CodeBlock, folder: Path) -> None:
    """Those of Harness are accepted, and a shell can read all of it. What `make` makes is compared elsewhere."""
    assert [command for command in commands_in(block.text) if not is_accepted(command)] == []
    text = "\n".join(bare_command(line) if "harness " in line else line for line in block.lines)
    done = subprocess.run(["sh", "-n", "-c", text.replace("$ ", "")], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def _take_settings(block: CodeBlock, folder: Path) -> None:
    (folder / "config.toml").write_text(block.text)
    layer = read_file(str(folder / "config.toml"), is_personal=True)
    assert (layer.problems, bool(layer.values)) == ([], True)


def _take_script(block: CodeBlock, folder: Path) -> None:
    assert parse_script(tomllib.loads(block.text)).conversations["main"].turns


def _take_scenario(block: CodeBlock, folder: Path) -> None:
    (folder / "own.toml").write_text(block.text)
    assert read_scenario(str(folder / "own.toml")).script.conversations


def _take_plan(block: CodeBlock, folder: Path) -> None:
    """A part of a plan is put behind what every plan has."""
    whole = block.text if "agents = [" in block.text else f'agents = [{{ agent = "native" }}]\n{block.text}'
    (folder / "plan.toml").write_text(whole)
    plan = PlanText(str(folder / "plan.toml"))
    assert plan.variants()
    plan.own_tasks(), plan.limits(), plan.container()


def _take_json(block: CodeBlock, folder: Path) -> None:
    data = json.loads(block.text)
    if "mcpServers" in data:
        warnings: list[str] = []
        (folder / "mcp.json").write_text(block.text)
        environ = {"SEARCH_TOKEN": "x"}
        found = load_servers([str(folder / "mcp.json")], environ, warnings.append, with_users_own=False)
        assert (sorted(found), warnings) == (sorted(data["mcpServers"]), [])
    elif "hooks" in data:
        hooks, notes = read_hooks("hooks.json", block.text)
        assert (len(hooks), notes) == (len(data["hooks"]), [])
    else:
        assert is_accepted(" ".join(data["args"]))


def _take_types(block: CodeBlock, folder: Path) -> None:
    """Each field is a name that the server writes or the page reads."""
    names = set(re.findall(r"\b(\w+)\??:(?!//)", re.sub(r"//.*|\"[^\"]*\"", "", block.text)))
    expect_none(sorted(names - _known_names()))


def _take_yaml(block: CodeBlock, folder: Path) -> None:
    """What is given to the action are inputs of it."""
    given = block.text.partition("uses: OWNER/harness")[2].partition("env:")[0]
    inputs = re.findall(
        r"^  ([\w-]+):$",
        (ROOT / "action.yml").read_text(encoding="utf-8").partition("runs:")[0],
        re.MULTILINE,
    )
    named = re.findall(r"^          ([\w-]+):", given, re.MULTILINE)
    assert named
    assert set(named) <= set(inputs)


def _take_python(block: CodeBlock, folder: Path) -> None:
    """Programs are type-checked, and run, elsewhere; a fragment is a part of a program of its page."""
    if "import " in block.text:
        return
    programs = [other.text for other in BLOCKS if other.page == block.page and "import " in other.text]
    assert any(_code(block.text) in _code(program) for program in programs)


def _code(text: str) -> str:
    return re.sub(r" +# .*", "", text).strip()


def _take_skill(block: CodeBlock, folder: Path) -> None:
    front = block.text.split("---\n")[1]
    assert re.findall(r"^(\w+): \S", front, re.MULTILINE) == ["name", "description"]


@cache
def _known_names() -> set[str]:
    files = [*(ROOT / "web/client/src").rglob("*.ts"), *(ROOT / "web/src").rglob("*.ts*")]
    files += [*(ROOT / "src/harness").rglob("*.py")]
    words = set(re.findall(r"\w+", " ".join(file.read_text(encoding="utf-8") for file in files)))
    return words | {re.sub(r"_(\w)", lambda match: match[1].upper(), word) for word in words}


READERS: tuple[tuple[Callable[[CodeBlock], bool], Callable[[CodeBlock, Path], None]], ...] = (
    (_is_commands, _take_commands),
    (
        lambda block: block.kind == "toml" and block.page in SETTINGS and "turns" not in block.text,
        _take_settings,
    ),
    (lambda block: block.kind == "toml" and block.page == "docs/fleet.md", _take_plan),
    (lambda block: block.kind == "toml" and block.page == "docs/doctor.md", _take_scenario),
    (lambda block: block.kind == "toml" and "turns" in block.text, _take_script),
    (lambda block: block.kind == "json", _take_json),
    (lambda block: block.kind == "ts", _take_types),
    (lambda block: block.kind == "yaml", _take_yaml),
    (lambda block: block.kind == "python", _take_python),
    (lambda block: block.first == "---", _take_skill),
)
"""What takes a block, and how it is tried."""


def _is_named(block: CodeBlock) -> bool:
    is_of_page = block.page in GENERATED or block.page in PICTURES or (block.page in ELSEWHERE and block.kind)
    return bool(is_of_page) or block.first in TRANSCRIPTS or bool(_reason(block))


def _reason(block: CodeBlock) -> str:
    return next((reason for start, reason in UNTESTED.items() if block.first.startswith(start)), "")


def _reader(block: CodeBlock) -> Callable[[CodeBlock, Path], None] | None:
    return next((take for takes, take in READERS if takes(block)), None)


TRIED = [block for block in BLOCKS if not _is_named(block) and _reader(block)]


@pytest.mark.parametrize("block", TRIED, ids=lambda block: block.name)
def test_a_block_is_what_it_says(block: CodeBlock, tmp_path: Path) -> None:
    take = _reader(block)
    assert take is not None
    take(block, tmp_path)


def test_no_block_is_forgotten() -> None:
    """Who adds one says how it is tested, or why it is not."""
    expect_none(
        [f"{block.name}: {block.first}" for block in BLOCKS if not _is_named(block) and not _reader(block)]
    )


def test_nothing_is_named_that_is_not_there() -> None:
    firsts = [block.first for block in BLOCKS]
    expect_none([start for start in UNTESTED if not any(first.startswith(start) for first in firsts)])
    pages = {block.page for block in BLOCKS}
    expect_none([page for page in (*ELSEWHERE, *PICTURES) if page not in pages])
    expect_none(
        [
            page
            for page, test in ELSEWHERE.items()
            if Path(page).name not in (ROOT / test).read_text(encoding="utf-8")
        ]
    )


def test_blocks_are_found_wherever_they_stand() -> None:
    page = "```\na\n```\n\n- item\n  ```toml\n  b = 1\n  ```\n\n      not code\n\ntext\n\n    c\n\n    d\n"
    assert [(block.kind, block.text.split(), block.line) for block in blocks_of("p.md", page)] == [
        ("", ["a"], 1),
        ("toml", ["b", "=", "1"], 6),
        ("", ["c", "d"], 14),
    ]
