"""The commands of Harness that documents show are called, page by page, on a machine that has what they speak of."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from cli_machine import CliMachine
from code_blocks import all_blocks
from harness.lab import LabServer, ScriptRun, parse_script
from shown_commands import commands_in
from source_tree import ROOT, expect_none
from test_cli_transcripts import TRANSCRIPTS

NOT_CALLED = {
    "chat": "a terminal: tests/cli/chat",
    "demo": "tests/cli/demonstration/test_cli_demo.py",
    "doctor": "asks real agents: tests/lab",
    "fleet try --apply": "needs the id of a case: tests/cli/fleet/test_cli_fleet.py",
    "lab serve": "runs until it is interrupted: tests/cli/commands/test_cli_lab.py",
    "models fetch local": "98 MB from the network",
    "replay": "plays what a real agent has sent: tests/gateway",
    "run --agent claude --permissions ask --on-ask wait": "waits for a person: tests/cli/test_cli_questions.py",
    "run --agent codex --sandbox": "which wall there is, is of the machine: tests/sandbox",
    "run --agent native --model local/": "98 MB from the network",
    "run --agent remote": "a runner elsewhere: tests/server/runner/test_runner.py",
    "run --agent rlm": "a model that writes programs: tests/native/rlm",
    "run -a claude --sealed": "which wall there is, is of the machine: tests/gateway",
    'run -a "acp:my-agent': "an agent that is called that: tests/session",
    "runner": "runs until it is interrupted: tests/server/runner/test_runner.py",
    "service install": "systemd of whoever runs the tests: tests/cli/commands/test_cli_service.py",
    "service uninstall": "the same",
    "sessions keep ID": "of agents' own stores: tests/cli/test_cli_histories.py",
    "tui": "a screen: tests/tui",
    "wait --for needs-you": "waits for an hour: tests/cli/commands/test_cli_wait.py",
}
"""How commands begin that are not called here, with the reason and the place of their tests."""
CONSENT = {
    "erase": "--yes",
    "fleet run": "--trust",
    "sessions delete": "--yes",
    "trust DIR": "--yes",
    "trust -a": "--yes",
    "undo": "--yes",
}
"""What these ask on a terminal, and the option that answers it."""
CODES = {"service": 1}
"""0 for all others. No service is installed."""
PLACEHOLDERS = {
    "examples/fleet/plan.toml": shlex.quote(f"{ROOT}/examples/fleet/plan.toml"),
    "PLAN.toml": "plan.toml",
    "NAME:": "plan:",
    "NAME": "plan",
    "anthropic/…": "anthropic/claude-sonnet-4-6",
    "DIR": ".",
    "--repeats 5": "--repeats 1",
}
PLAN = """\
agents = [
  { name = "A", agent = "native", model = "scripted/talk.toml" },
  { name = "B", agent = "native", model = "scripted/talk.toml", max_output_tokens = 9 },
]
[[task]]
id = "answer"
prompt = "Write the answer."
check = "true"
"""
FILES = {
    "plan.toml": PLAN,
    "talk.toml": """\
turns = [
  [{ text = "Let me look." }, { tool = "write", input = { file_path = "a.txt", content = "1" } }],
  { text = "Done." },
]
""",
    "tasks/one.toml": '[[task]]\nid = "one"\nprompt = "Go."\ncheck = "true"\n',
    "stream.txt": '{"type":"RUN_STARTED","threadId":"t","runId":"r"}\n{"type":"RUN_FINISHED","threadId":"t","runId":"r"}\n',
    "trajectory.json": '{"schema_version":"ATIF-v1.6","session_id":"s","agent":{"name":"a","version":"1"},'
    '"steps":[{"step_id":1,"source":"user","message":"hi"}]}',
    "mcp.json": '{"mcpServers": {}}',
}
SETTINGS_OF_A_FOLDER = '{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"./setup.sh"}]}]}}'


def _shown() -> dict[str, list[str]]:
    """The commands of each page, once each, but for those whose output a test compares."""
    pages: dict[str, list[str]] = {}
    for block in all_blocks():
        is_generated = (ROOT / block.page).read_text(encoding="utf-8").startswith("<!-- Generated")
        if block.kind in ("", "sh") and not is_generated and block.first not in TRANSCRIPTS:
            pages.setdefault(block.page, []).extend(commands_in(block.text))
    return {page: list(dict.fromkeys(commands)) for page, commands in pages.items() if commands}


PAGES = _shown()


def _is_called(command: str) -> bool:
    return not command.startswith(tuple(NOT_CALLED))


@pytest.fixture
def machine(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> Iterator[CliMachine]:
    """Three agents, a provider of models on loopback, and two sessions."""
    monkeypatch.setenv("PATH", f"{cli.bin}:/usr/local/bin:/usr/bin:/bin")
    cli.install("claude")
    cli.install("codex")
    cli.script("npm", "exit 0\n")
    for name, text in FILES.items():
        (cli.project / name).parent.mkdir(parents=True, exist_ok=True)
        (cli.project / name).write_text(text)
    assert cli.call("run", "-a", "claude", "-p", "off by one").code == 0
    assert cli.call("run", "-a", "native", "-m", "scripted/talk.toml", "-p", "Write it.").code == 0
    with LabServer(ScriptRun(parse_script({"turns": [{"text": "Hello."}]}))) as lab:
        for name, value in {
            "ANTHROPIC_API_KEY": "x",
            "ANTHROPIC_BASE_URL": lab.url,
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": f"{lab.url}/v1",
            "OLLAMA_HOST": lab.url,
        }.items():
            monkeypatch.setenv(name, value)
        yield cli


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(_is_called, PAGES[page]))])
def test_the_commands_of_a_page_work_one_after_the_other(machine: CliMachine, page: str) -> None:
    if page == "docs/trust.md":
        (machine.project / ".claude").mkdir()
        (machine.project / ".claude/settings.json").write_text(SETTINGS_OF_A_FOLDER)
    failed = []
    for command in filter(_is_called, PAGES[page]):
        answer = machine.call(*_words(machine, command))
        code = next((CODES[start] for start in CODES if command.startswith(start)), 0)
        if answer.code != code or "a bug in harness" in answer.err:
            failed.append(f"{command}: {answer.code}: {answer.err.strip()}")
    expect_none(failed)


def _words(machine: CliMachine, command: str) -> list[str]:
    """The command as a reader would fill it in."""
    filled = command
    for placeholder, value in PLACEHOLDERS.items():
        filled = re.sub(rf"(?<![\w-]){re.escape(placeholder)}", value, filled)
    words = shlex.split(filled)
    if "ID" in words:
        words[words.index("ID")] = min(machine.sessions.glob("*.raw")).stem  # the first, of Claude Code
    if "CASE" in words:
        cases = machine.call("fleet", "status", "plan", "--json").data["cases"]
        for case in cases:
            words[words.index("CASE")] = case["case"]
    consent = next((CONSENT[start] for start in CONSENT if command.startswith(start)), "")
    return [*words, consent] if consent else words


def test_what_is_not_called_is_shown() -> None:
    commands = [command for commands in PAGES.values() for command in commands]
    expect_none(
        [
            start
            for start in (*NOT_CALLED, *CONSENT, *CODES)
            if not any(one.startswith(start) for one in commands)
        ]
    )
