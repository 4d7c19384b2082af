"""What "always" offers: a label that says all of it, and a grant that has effect and goes no further."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.approvals.approver import Approver
from harness.approvals.call import ASK, ProposedCall
from harness.approvals.decide import decide
from harness.approvals.grants import choices_for, rule_of
from harness.approvals.rules import Rule
from harness.approvals.tool_table import (
    EXECUTES,
    NETWORK,
    ToolTable,
    by_prefix,
    edits,
    reads,
    runs,
)
from harness.approvals.work_folder import WorkFolder

TABLE = ToolTable(
    uses={
        "Bash": runs("command"),
        "Edit": edits("file_path"),
        "Read": reads("file_path"),
        "Skill": EXECUTES,
        "Fetch": NETWORK,
    },
    server_of=by_prefix("mcp__"),
)


@pytest.fixture
def workspace(tmp_path: Path) -> WorkFolder:
    (tmp_path / "w/src").mkdir(parents=True)
    (tmp_path / "data/set").mkdir(parents=True)
    (tmp_path / "data/set/x.csv").write_text("1")
    return WorkFolder(root=os.path.realpath(tmp_path / "w"))


def bash(line: str, **others: Any) -> ProposedCall:
    return TABLE.call("Bash", {"command": line, **others})


def after(call: ProposedCall, choice: str, workspace: WorkFolder) -> Approver:
    """The approvals once a person has given this answer to a call."""
    approvals = Approver(ASK, workspace)
    chosen = next(one for one in choices_for([call], workspace) if one.id == choice)
    for grant in chosen.grants:
        approvals.grant(rule_of(grant))
    return approvals


def labels(call: ProposedCall, workspace: WorkFolder) -> list[str]:
    return [one.label for one in choices_for([call], workspace) if one.kind == "allow-always"]


@pytest.mark.parametrize(
    "line",
    [
        "touch x",
        "mkdir -p logs && echo x >> logs/alpha.log",
        "npm test > log.txt",
        "a | b; c",
        "git log --output=~/.bashrc",
        "for f in *; do rm $f; done",
    ],
)
def test_a_line_that_was_always_allowed_is_not_asked_about_again(line: str, workspace: WorkFolder) -> None:
    approvals = after(bash(line, description="one"), "always", workspace)
    assert labels(bash(line), workspace)[0] == f"Always allow exactly: {line}"
    assert approvals.decide([bash(line, description="another")]).answer == "allow"
    assert approvals.decide([bash(line)]).answer == "allow"
    assert approvals.decide([bash(f"{line} x")]).answer == "ask"
    assert approvals.decide([bash(line, dangerouslyDisableSandbox=True)]).answer == "ask"


WIDENED = [
    ("git log --oneline", "git log -1 --format=evil --output=~/.bashrc"),
    ("git log", "git log --output=x"),
    ("git log", "git -c core.pager=./evil log"),
    ("git diff", "git diff --output=x"),
    ("git diff", "git diff --ext-diff"),
    ("git diff", "git diff --no-index /etc/passwd x"),
    ("git show", "git show --textconv"),
    ("git status", "git status; ./evil"),
    ("git add .", "git add . && ./evil"),
    ("git commit -m x", "git commit -m x --template=/etc/passwd"),
    ("npm test", "npm test --script-shell=./evil"),
    ("npm run lint", "npm run evil"),
    ("cargo test", "cargo test --config x"),
    ("cargo build", "cargo build --target-dir /tmp/x"),
    ("pytest tests", "pytest -p evil"),
    ("pytest tests", "pytest -c evil.ini"),
    ("pytest tests", "pytest ../evil.py"),
    ("pytest tests", "pytest /tmp/evil.py"),
    ("pytest -q", "pytest -q --rootdir=/"),
    ("ruff check .", "ruff check --config x ."),
    ("mypy src", "mypy @file"),
    ("tsc --noEmit", "tsc --outDir /tmp"),
    ("eslint .", "eslint -c evil.js ."),
    ("eslint .", "eslint --rulesdir x ."),
    ("go build ./x", "go build -toolexec=./evil"),
    ("go vet", "go vet -vettool=./evil"),
    ("pytest tests", "A=b pytest tests"),
    ("pytest tests", "pytest tests > /etc/x"),
]


@pytest.mark.parametrize(("line", "wider"), WIDENED)
def test_a_form_covers_operands_and_no_option_that_was_not_seen(
    line: str, wider: str, workspace: WorkFolder
) -> None:
    approvals = after(bash(line), "pattern", workspace)
    assert approvals.decide([bash(line)]).answer == "allow"
    assert approvals.decide([bash(wider)]).answer == "ask"


def test_a_form_covers_other_files_and_lines_of_such_commands(workspace: WorkFolder) -> None:
    approvals = after(bash("pytest -q tests/a.py"), "pattern", workspace)
    assert approvals.decide([bash("pytest tests/b.py -q")]).answer == "allow"
    assert approvals.decide([bash("pytest && pytest -q")]).answer == "allow"
    assert labels(bash("npm test && npm run lint"), workspace)[1].startswith(
        "Always allow npm test … · npm run lint …"
    )


@pytest.mark.parametrize(
    "line",
    [
        "rg --pre ./evil x",
        "fd -x ./evil",
        "sort -o x y",
        "tree -o x",
        "tar --to-command=./evil xf a",
        "man -P ./evil ls",
        "git fetch --upload-pack=./evil .",
        "git grep -O./evil x",
        "git push",
        "go test -exec ./evil",
        "cp evil x",
        "make test",
        "curl x",
        "bash x",
        "python -m pytest",
        "git log --output=x",
        "pytest -p evil",
        "npx jest",
        "sed -i s/a/b/ x",
    ],
)
def test_what_could_write_anywhere_or_run_a_program_has_no_form(line: str, workspace: WorkFolder) -> None:
    assert [one.id for one in choices_for([bash(line)], workspace)] == ["once", "always", "reject"]


def test_an_edit_is_granted_by_file(workspace: WorkFolder) -> None:
    call = TABLE.call("Edit", {"file_path": f"{workspace.root}/src/a.py", "old_string": "x"})
    assert labels(call, workspace) == ["Always allow edits of src/a.py"]
    approvals = after(call, "always", workspace)
    assert approvals.decide([TABLE.call("Edit", {"file_path": "src/a.py"})]).answer == "allow"
    for other in ({"file_path": "src/b.py"}, {"file_path": "src/a.py", "move_to": "/etc/passwd"}):
        assert approvals.decide([TABLE.call("Edit", other)]).answer == "ask"


def test_reading_elsewhere_is_granted_by_folder(workspace: WorkFolder, tmp_path: Path) -> None:
    call = TABLE.call("Read", {"file_path": str(tmp_path / "data/set/x.csv")})
    assert labels(call, workspace) == [f"Always allow reading below {os.path.realpath(tmp_path)}/data/set"]
    approvals = after(call, "always", workspace)
    assert (
        approvals.decide([TABLE.call("Read", {"file_path": str(tmp_path / "data/set/y.csv")})]).answer
        == "allow"
    )
    assert approvals.decide([TABLE.call("Read", {"file_path": str(tmp_path / "data/z")})]).answer == "ask"


def test_a_tool_of_a_server_is_granted_whole_only_where_no_argument_names_a_place(
    workspace: WorkFolder,
) -> None:
    search = TABLE.call("mcp__docs__search", {"words": "x"})
    assert labels(search, workspace) == ["Always allow mcp__docs__search (server docs), with any arguments"]
    approvals = after(search, "always", workspace)
    assert approvals.decide([TABLE.call("mcp__docs__search", {"words": "y"})]).answer == "allow"
    assert approvals.decide([TABLE.call("mcp__other__search", {"words": "y"})]).answer == "ask"
    write = TABLE.call("mcp__fs__write", {"path": "a", "text": "b", "title": "c"})
    assert labels(write, workspace) == [
        "Always allow mcp__fs__write (server fs) with path: a, text: b, title: c"
    ]
    approvals = after(write, "always", workspace)
    assert approvals.decide([write]).answer == "allow"
    for changed in ({"path": "c"}, {"title": "another"}, {"mode": "append"}):
        call = TABLE.call("mcp__fs__write", {"path": "a", "text": "b", "title": "c", **changed})
        assert approvals.decide([call]).answer == "ask"


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [bash("touch a"), bash("touch b")],
        [TABLE.call("Bash", {"command": "touch a"}, doubt="it changed")],
        [bash("curl -H 'key: [REDACTED:api-key]'")],
        [TABLE.call("Edit", {"file_path": ".git/hooks/x"})],
        [TABLE.call("Edit", {"file_path": "/etc/passwd"})],
        [TABLE.call("Frobnicate", {"x": 1})],
        [bash("touch " + "x" * 500)],
        [bash("a\nb")],
        [TABLE.call("Read", {"file_path": "/proc/1/environ"})],
    ],
)
def test_nothing_is_offered_that_could_not_be_kept_or_read(
    calls: list[ProposedCall], workspace: WorkFolder
) -> None:
    assert [one.id for one in choices_for(calls, workspace)] == ["once", "reject"]


@pytest.mark.parametrize(
    ("line", "later"), [("rm -rf *", "rm -rf src"), ("sh *", "sh evil.sh"), ("npm test *", "npm test a")]
)
def test_a_line_that_ends_with_a_glob_is_granted_exactly(
    line: str, later: str, workspace: WorkFolder
) -> None:
    approvals = after(bash(line), "always", workspace)
    assert approvals.decide([bash(line)]).answer == "allow"
    assert approvals.decide([bash(later)]).answer == "ask"


def test_a_line_that_looks_like_a_form_is_not_granted(workspace: WorkFolder) -> None:
    assert labels(bash("bash …"), workspace) == []


@pytest.mark.parametrize("choice", ["always", "pattern"])
def test_a_command_is_granted_where_it_was_asked_about(choice: str, workspace: WorkFolder) -> None:
    (Path(workspace.root) / "src/deep").mkdir(parents=True, exist_ok=True)
    root = workspace.root
    for granted, asked in ((".", "src"), ("src", "."), ("src", "src/deep")):
        call = TABLE.call("Bash", {"command": "npm test", "cwd": granted}, root)
        approvals = after(call, choice, workspace)
        assert approvals.decide([call]).answer == "allow"
        elsewhere = TABLE.call("Bash", {"command": "npm test", "cwd": asked}, root)
        assert approvals.decide([elsewhere]).answer == "ask"
    assert labels(TABLE.call("Bash", {"command": "make", "cwd": "src"}, root), workspace) == [
        f"Always allow exactly: make in {root}/src"
    ]


def test_a_rule_that_allows_a_command_in_a_folder_allows_it_there_alone(workspace: WorkFolder) -> None:
    (Path(workspace.root) / "web").mkdir()
    rules = [Rule(answer="allow", command="npm test", path="web")]
    for cwd, answer in (("web", "allow"), (".", "ask")):
        call = TABLE.call("Bash", {"command": "npm test", "cwd": cwd}, workspace.root)
        assert decide([call], ASK, rules, workspace).answer == answer
