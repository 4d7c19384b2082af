"""What a permission with a glob for a command allows of the lines that a shell may be given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.approvals.globs import escaped
from harness.contracts.tool import ToolPermission
from harness.events import Operation
from harness.events.operation import Command
from harness.questions.permissions import Denial, Permissions, matches, matches_any, proposed_call


def runs(line: str) -> list[Operation]:
    return [Command(command=line)]


def is_allowed(line: str, *globs: str) -> bool:
    permissions = [ToolPermission("bash", {"command": glob}) for glob in globs]
    return matches_any(permissions, "bash", {"command": line}, runs(line))


@pytest.mark.parametrize(
    "line",
    [
        "git log",
        "git   log\t-1",
        "git log --format='%h; %s' | git shortlog",
        "git add . && git commit -m 'it works: (yes), `really`' ; git push &",
        'git commit -m "a \\"quoted\\" word; and $HOME and ${USER}"',
        "git log 2>&1 >/dev/null",
        "git log &>/dev/null </dev/null || git status 2>/dev/null",
        "git log\ngit status\n",
        "git log \\\n  --oneline",
        "git show HEAD~1:a\\ b",
        "git log $since",
    ],
)
def test_a_glob_allows_a_line_of_commands_that_all_fit_it(line: str) -> None:
    assert is_allowed(line, "git **")


HOSTILE = [
    "git log; rm x",
    "git log;rm x",
    "git log && rm x",
    "git log || rm x",
    "git log | sh",
    "git log |& sh",
    "git log & rm x",
    "git log\nrm x",
    "git log\r\nrm x",
    "git log $(rm x)",
    'git log "$(rm x)"',
    "git log `rm x`",
    'git log "`rm x`"',
    'git log "$\\\n(rm x)"',
    "git log $\\\n(rm x)",
    "git log ${x:-$(rm x)}",
    "git log ${x@P}",
    "git log $((`rm x`))",
    "git log $[`rm x`]",
    "git diff <(rm x)",
    "git log > >(rm x)",
    "(git log; rm x)",
    "git log (rm x)",
    "{ git log; rm x; }",
    "git() { rm x; }; git log",
    "function git { rm x; }; git log",
    "if git log; then rm x; fi",
    "! rm x",
    "git log > /etc/passwd",
    "git log >> ~/.bashrc",
    "git log >| x",
    "git log &> x",
    "git log >& x",
    "git log 2> x",
    "git log > /dev/nullx",
    "git log > /dev/null/../x",
    "git log &>/dev/null rm x",
    "git log > /dev/tcp/localhost/80",
    "git apply < x",
    "git log <> x",
    "git apply <<EOF\nx\nEOF",
    "git apply <<'EOF'\nx\nEOF\nrm x",
    "git apply <<EOF\nE\\\nOF\nrm x\nEOF",
    "git apply <<< $(rm x)",
    "PAGER='rm x' git log",
    "PATH=. git log",
    "PATH=.; git log",
    "env git log",
    "sudo git log",
    '"git log" x',
    "git\\ log x",
    "'git' log",
    "g*t log",
    "$git log",
    "git",
    "gitx log",
    "git log '",
    'git log "',
    "git log \\",
    "git log 'a\nb' ; rm x #'",
    "git log #'\nrm x #'",
    "git log $'\\' ; rm x # '",
    'git log $"`rm x`"',
    "git \"${x#'\"'}\" ; rm y # '",
    "git log\x00; rm x",
    "git log\x0b; rm x",
    " ",
    ";",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_a_glob_does_not_allow_what_else_a_line_may_run(line: str) -> None:
    assert not is_allowed(line, "git **")


@pytest.mark.parametrize(
    "line", [line for line in HOSTILE if "\x00" not in line and line not in (" ", "git")]
)
def test_the_same_text_is_always_allowed(line: str) -> None:
    assert is_allowed(line, escaped(line))
    assert is_allowed(line, line)


def test_several_globs_allow_the_commands_of_a_line_together() -> None:
    assert is_allowed("cd src && git log | head -3", "git **", "cd *", "head *")
    assert not is_allowed("cd src && git log | head -3", "git **", "cd *")
    assert not is_allowed("cd src && git log | head -3", "cd * | head *")


def test_what_bash_itself_runs_of_hostile_lines_is_never_more_than_was_allowed(tmp_path: Path) -> None:
    """Each line would create a file if the shell ran what stands in it."""
    (tmp_path / "git").write_text("#!/bin/sh\n")
    (tmp_path / "rm").write_text('#!/bin/sh\n: > "$OLDPWD/ran"\n')
    for name in ("git", "rm"):
        (tmp_path / name).chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OLDPWD": str(tmp_path), "HOME": str(work)}
    ran = []
    for line in HOSTILE:
        if "\x00" in line or "/etc/passwd" in line or "/dev/tcp" in line or "/dev/nullx" in line:
            continue
        subprocess.run(["bash", "-c", line], env=env, cwd=work, capture_output=True, check=False)
        if (tmp_path / "ran").exists():
            (tmp_path / "ran").unlink()
            ran.append(line)
    assert len(ran) > 25  # the list is not made up
    assert not [line for line in ran if is_allowed(line, "git **")]


def test_every_other_argument_still_has_to_fit() -> None:
    permission = ToolPermission("bash", {"command": "git **", "timeout": "1?"})
    for timeout, expected in ((10, True), (100, False)):
        arguments = {"command": "git log; git status", "timeout": timeout}
        assert matches(permission, "bash", arguments, runs("git log; git status")) is expected


def test_a_permission_without_the_command_leaves_it_free() -> None:
    assert matches(ToolPermission("bash"), "bash", {"command": "x $(y)"}, runs("x $(y)"))


def test_an_argument_that_becomes_part_of_a_command_line_is_read_like_one() -> None:
    permission = ToolPermission("npm", {"script": "test*"})
    for script, expected in (("test:unit", True), ("test; rm -rf /", False)):
        operations = [Command(command=f"npm run {script}")]
        assert matches(permission, "npm", {"script": script}, operations) is expected


def test_a_tool_that_tidies_its_command_line_does_not_hide_it() -> None:
    permission = ToolPermission("bash", {"command": "git **"})
    line = "git log;\n  rm x "
    assert not matches(permission, "bash", {"command": line}, [Command(command="git log; rm x")])


def test_a_grant_for_once_is_used_up_by_the_line_it_helped_to_allow() -> None:
    permissions = Permissions(
        allowlist=[ToolPermission("bash", {"command": "git **"})],
        allow_once=[ToolPermission("bash", {"command": "rm **"}), ToolPermission("read")],
    )
    line = "rm a; git log; rm b"
    assert permissions.verdict(proposed_call("bash", {"command": line}, runs(line))).decision == "allow"
    assert permissions.allow_once == [ToolPermission("read")]
    assert permissions.verdict(proposed_call("bash", {"command": line}, runs(line))).decision == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "rm x",
        "rm   -r\tx",
        "git log; rm x",
        "git log $(rm x)",
        'git log "$(rm x)"',
        "git log `rm x`",
        "git log | rm x",
        "git log\nrm x",
        "git diff <(rm x)",
        "{ rm x; }",
        "(rm x)",
        "FOO=1 rm x",
        "sudo -u root rm x",
        "env -i A=b rm x",
        "bash -c 'rm x'",
        'sh -c "cd y; rm x"',
        "timeout 5 rm x",
        "ls | xargs -n 1 rm -f",
        "find . -exec rm {} +",
        "{rm,-r,x}",
        "rm${IFS}x",
        "/bin/rm x",
        "sudo /bin/rm x",
        "r''m x",
        "\\rm x",
        '"rm" x',
        "r\\\nm x",
        "if true; then rm x; fi",
        "cat <<EOF | sh\nrm x\nEOF",
        "! rm x",
    ],
)
def test_a_denial_finds_a_command_wherever_it_is(line: str) -> None:
    denial = Denial(tool="bash", params={"command": "rm **"})
    permissions = Permissions("allow", allowlist=[ToolPermission("bash")], deny=[denial])
    assert permissions.verdict(proposed_call("bash", {"command": line}, runs(line))).decision == "deny"


@pytest.mark.parametrize("line", ["git rm x", "ls rm", "docker run --rm x", "echo rm x", "rmdir x"])
def test_a_denial_leaves_alone_what_only_names_it(line: str) -> None:
    permissions = Permissions("allow", deny=[Denial(tool="bash", params={"command": "rm **"})])
    assert permissions.denial(proposed_call("bash", {"command": line}, runs(line))) is None


def test_a_long_line_is_decided_soon() -> None:
    line = "sudo " + "a " * 200_000 + "; git log" * 20_000
    assert not is_allowed(line, "git **")
    permissions = Permissions("allow", deny=[Denial(tool="bash", params={"command": "git **"})])
    assert permissions.denial(proposed_call("bash", {"command": line}, runs(line)))
