"""Whose id is whose: the log's own, and that of the agent's session, with which it can be resumed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import UUID

import pytest

from agent_runs import end_of, of, play
from harness import FileStore, Request, Run, start
from harness.agents.registry import load
from harness.errors import UsageError
from harness.events import Info, SessionStart
from harness.log.store import read_all
from harness.runs.audit import check
from harness.runs.launch import Launch, prepare

CLINE = """#!/bin/sh
case "$1" in --version) echo 3.0.65; exit 0;; esac
session() {
    mkdir -p "$1/$2"
    printf '{"session_id":"%s","cwd":"%s","prompt":"%s","pid":%s}' "$2" "$3" "$4" "$5" > "$1/$2/$2.json"
}
. ./sessions.sh
echo '{"ts":"x","type":"run_result","finishReason":"completed","iterations":1,"text":"Hi."}'
"""


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(script)
    path.chmod(0o755)
    return str(path)


def run_cline(tmp_path: Path, sessions: str, *extra_args: str) -> tuple[Run, FileStore]:
    """A program that leaves these sessions behind."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "sessions.sh").write_text(sessions)
    store = FileStore(str(tmp_path / "sessions"))
    request = Request(
        agent="cline",
        prompt="hello",
        cwd=str(project),
        env={"HOME": str(tmp_path / "home")},
        binary=program(tmp_path, "cline", CLINE),
        extra_args=extra_args,
    )
    run = start(request, store=store)
    run.wait()
    return run, store


OWN = 'session "$HOME/.cline/data/sessions" 1794_own "$PWD" "hello" 1'


def test_the_session_of_an_agent_that_never_tells_it_is_found_in_its_own_store(tmp_path: Path) -> None:
    run, store = run_cline(tmp_path, OWN)
    events = list(read_all(store, run.id))

    assert (run.agent_session_id, run.log_id) == ("1794_own", run.id)
    assert store.metadata(run.id).agent_session_id == "1794_own"
    assert [info.session_id for info in of(Info, events)] == ["1794_own"]
    assert end_of(events).log_id == run.id
    assert not check(store, run.id).problems


@pytest.mark.parametrize(
    "sessions",
    [
        "",
        'session "$HOME/.cline/data/sessions" other /elsewhere "hello" 1',
        'session "$HOME/.cline/data/sessions" other "$PWD" "something else" 1',
        f'{OWN}; touch -d "2001-01-01" "$HOME/.cline/data/sessions/1794_own/1794_own.json"',
        f'{OWN}; session "$HOME/.cline/data/sessions" twin "$PWD" "hello" 2',
        f'{OWN}; echo "{{" > "$HOME/.cline/data/sessions/1794_own/1794_own.json"',
    ],
)
def test_what_may_be_somebody_elses_session_is_nobodys(sessions: str, tmp_path: Path) -> None:
    run, store = run_cline(tmp_path, sessions)

    assert run.wait().success
    assert (run.agent_session_id, store.metadata(run.id).agent_session_id) == ("", "")


def test_of_two_that_fit_the_one_of_our_process_is_ours(tmp_path: Path) -> None:
    own = 'session "$HOME/.cline/data/sessions" 1794_own "$PWD" "hello" $$'
    run, _ = run_cline(tmp_path, f'{own}; session "$HOME/.cline/data/sessions" twin "$PWD" "hello" 2')

    assert run.agent_session_id == "1794_own"


def test_the_store_may_lie_where_an_argument_says(tmp_path: Path) -> None:
    at = tmp_path / "data"
    run, _ = run_cline(tmp_path, f'session "{at}/sessions" there "$PWD" "hello" 1', "--data-dir", str(at))

    assert run.agent_session_id == "there"


def launched(agent: str, version: str, tmp_path: Path, **request: object) -> Launch:
    binary = program(tmp_path, agent, f"#!/bin/sh\necho {version}\n")
    return prepare(Request(agent=agent, prompt="hello there", binary=binary, **request))  # type: ignore[arg-type]


def test_copilot_is_started_with_an_id_of_ours_which_it_then_has(tmp_path: Path) -> None:
    launch = launched("copilot", "1.0.102", tmp_path)
    [flag] = [word for word in launch.invocation.argv if word.startswith("--session-id=")]
    session_id = str(UUID(flag.partition("=")[2]))
    events = play(
        "copilot",
        {"type": "assistant.turn_start", "data": {}},
        argv=list(launch.invocation.argv),
        exit_code=1,
    )

    assert launch.request.session_id == session_id
    assert of(SessionStart, events)[0].session_id == session_id


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        ("1.0.50", {}),
        ("1.0.102", {"resume": "s-1"}),
        ("1.0.102", {"continue_last": True}),
        ("1.0.102", {"extra_args": ("--resume=s-1",)}),
        ("1.0.102", {"extra_args": ("--session-id", "s-1")}),
    ],
)
def test_copilot_chooses_itself_where_it_cannot_be_told(
    version: str, request_: dict[str, object], tmp_path: Path
) -> None:
    argv = launched("copilot", version, tmp_path, **request_).invocation.argv

    assert not [word for word in argv if word.startswith("--session-id=")]


def test_a_resumed_copilot_has_the_id_it_was_resumed_with() -> None:
    events = play("copilot", argv=["copilot", "--resume=s-1"], exit_code=1)

    assert of(SessionStart, events)[0].session_id == "s-1"


@pytest.mark.parametrize(
    ("agent", "version", "option", "given", "dropped"),
    [
        ("cline", "2.18.0", {"system_prompt": "Be brief."}, "--yolo", "--system-prompt"),
        ("cline", "3.0.65", {"system_prompt": "Be brief."}, "--system", ""),
        (
            "qwen",
            "0.12.0",
            {"append_system_prompt": "Be brief."},
            "--approval-mode",
            "--append-system-prompt",
        ),
        ("qwen", "0.24.4", {"append_system_prompt": "Be brief."}, "--append-system-prompt", ""),
        ("gemini", "0.61.0", {"permissions": "read-only"}, "plan", ""),
        ("copilot", "1.0.3", {"effort": "high"}, "--output-format", "--effort"),
        ("opencode", "1.1.0", {"effort": "high"}, "--format", "--effort"),
        ("goose", "1.37.0", {"effort": "high"}, "run", "--effort"),
    ],
)
def test_a_version_is_asked_only_for_what_it_takes(
    agent: str, version: str, option: dict[str, object], given: str, dropped: str, tmp_path: Path
) -> None:
    launch = launched(agent, version, tmp_path, **option)

    assert given in launch.invocation.argv
    title = load(agent).title
    told = [f"{title} {version} does not support {dropped}: dropped"] if dropped else []
    assert list(launch.warnings) == told
    assert "--auto-approve" in launch.invocation.argv or (agent, version) != ("cline", "3.0.65")
    assert "--auto-approve" not in launch.invocation.argv or (agent, version) != ("cline", "2.18.0")


def test_rights_that_a_version_cannot_narrow_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Gemini CLI 0\.20\.0 has no read-only mode"):
        launched("gemini", "0.20.0", tmp_path, permissions="read-only")


@pytest.mark.parametrize("permissions", ["agent-default", "read-only"])
def test_an_agent_without_rules_of_its_own_does_not_get_all_rights_instead(
    permissions: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="mini-SWE-agent has no"):
        launched("mini-swe-agent", "2.4.6", tmp_path, permissions=permissions)


def test_claude_is_given_the_files_of_mcp_servers(tmp_path: Path) -> None:
    servers = tmp_path / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {}}))
    launch = launched("claude", "2.1.325", tmp_path, mcp=(os.path.relpath(servers),), cwd="/")
    argv = launch.invocation.argv
    place = argv.index("--mcp-config")

    assert argv[place + 1] == str(servers)
    assert argv[place + 2].startswith("--")
    assert not launch.warnings
