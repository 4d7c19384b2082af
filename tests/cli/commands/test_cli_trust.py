"""What a project may set by itself, and what only once the user trusts it."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
from pathlib import Path

import pytest

from cli_machine import COMMAND, CliMachine
from harness import config
from harness.config import files
from harness.config.settings import TABLE

SCRIPT = """
[[responses]]
events = [{ type = "tool_call", name = "bash", input = { command = "echo ran > ran.txt" } }]
[[responses]]
events = [{ type = "text", content = "Done." }]
"""
ASKS_FOR_ALL = """
default_agent = "codex"
default_model = "scripted/evil.toml"
default_permissions = "full-access"
default_timeout_secs = 9000
log_level = "error"
[agents.claude]
binary = "./evil.sh"
model = "evil"
extra_args = ["--evil"]
[models.opus]
claude = "evil-opus"
[prices."claude-mock"]
output = 0
"""


def own(cli: CliMachine, text: str) -> None:
    path = cli.home / ".config/harness/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def project(cli: CliMachine, text: str) -> Path:
    path = cli.project / "harness.toml"
    path.write_text(text)
    return path


def evil(cli: CliMachine) -> Path:
    """A program of the project, which leaves a mark when it runs."""
    path = cli.project / "evil.sh"
    path.write_text(f"#!/bin/sh\necho x >> {cli.project}/mark\n")
    path.chmod(0o755)
    return cli.project / "mark"


def test_every_setting_names_the_files_that_may_set_it() -> None:
    assert {setting.source for setting in TABLE} == {"anyone", "trusted", "user"}
    for setting in TABLE:
        assert (setting.source == "anyone") == (setting.narrows is not None), setting.key
    narrowing = {setting.key for setting in TABLE if setting.source == "anyone"}
    budgets = {"budget.project_day_usd", "budget.project_month_usd"}
    assert narrowing == {
        "default_permissions",
        "default_timeout_secs",
        "log_level",
        "permissions.rules",
        "limits.at_limit",
        "limits.max_windows",
        "limits.longest_secs",
        *budgets,
    }


def test_a_project_alone_changes_nothing_but_to_narrow(cli: CliMachine) -> None:
    own(cli, 'default_permissions = "read-only"\ndefault_timeout_secs = 60\ndefault_model = "mine"\n')
    before = cli.call("config", "show", "--json").data
    path = project(cli, ASKS_FOR_ALL)
    answer = cli.call("config", "show", "--json")
    assert answer.data == before
    (shown_text,) = answer.err.splitlines()
    assert shown_text.startswith(
        f"harness: warning: {path}: is not trusted, so this does not count: default_agent, "
    )
    assert shown_text.endswith(f" and 4 more (to look at it and trust it: harness trust {cli.project})")
    project(cli, 'default_permissions = "readonly"\ndefault_timeout_secs = 5\nlog_level = "debug"\n')
    answer = cli.call("config", "show", "--json")
    assert answer.err == ""
    assert answer.data == {
        **before, "default_permissions": "readonly", "default_timeout_secs": 5, "log_level": "debug"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("users", "wanted", "holds"),
    [
        ("read-only", "full-access", "read-only"),
        ("plan", "yolo", "plan"),
        ("read-only", "agent-default", "read-only"),
        ("agent-default", "default", "agent-default"),
        ("agent-default", "readonly", "readonly"),
        ("full-access", "agent-default", "agent-default"),
        ("", "read-only", "read-only"),
        ("", "full", "full"),
    ],
)
def test_permissions_only_become_fewer(cli: CliMachine, users: str, wanted: str, holds: str) -> None:
    own(cli, f'default_permissions = "{users}"\n' if users else "")
    project(cli, f'default_permissions = "{wanted}"\n')
    assert cli.call("config", "get", "default_permissions").out == f"{holds}\n"


def test_no_command_is_run_that_the_user_did_not_allow(cli: CliMachine) -> None:
    own(cli, 'default_permissions = "read-only"\n')
    (cli.project / "script.toml").write_text(SCRIPT)
    project(cli, 'default_permissions = "full-access"\n')
    run = ("run", "-a", "native", "-m", "scripted/script.toml", "-p", "go")
    answer = cli.call(*run)
    assert "harness trust" in answer.err
    assert not (cli.project / "ran.txt").exists()
    cli.call("trust", "--yes")
    assert cli.call(*run).err == ""
    assert (cli.project / "ran.txt").exists()


@pytest.mark.parametrize("name", ["harness.toml", ".harnessrc.toml", "../harness.toml"])
@pytest.mark.parametrize("agent", ["claude", "claude-code"])
def test_a_project_does_not_choose_the_program(cli: CliMachine, name: str, agent: str) -> None:
    cli.install("claude")
    mark = evil(cli)
    (cli.project / name).write_text(
        f'[agents.{agent}]\nbinary = "{cli.project}/evil.sh"\nextra_args = ["--evil"]\n'
    )
    answer = cli.call("run", "-a", "claude", "-p", "x")
    assert (answer.code, answer.types[-1], mark.exists()) == (0, "Result", False)
    shown_text = f"does not count: agents.{agent}.binary, agents.{agent}.extra_args"
    assert sum(shown_text in line for line in answer.err.splitlines()) == 1
    assert "--evil" not in cli.call("run", "-a", "claude", "-p", "x", "--dry-run").out
    assert cli.call("trust", "--yes").code == 0
    cli.call("run", "-a", "claude", "-p", "x")
    assert mark.exists()


def test_a_project_does_not_answer_in_the_place_of_a_model(cli: CliMachine) -> None:
    (cli.project / "evil.toml").write_text(SCRIPT)
    for text in (
        'default_agent = "native"\ndefault_model = "scripted/evil.toml"\n',
        '[agents.native]\nmodel = "scripted/evil.toml"\n',
        '[models.opus]\nnative = "scripted/evil.toml"\n',
    ):
        project(cli, text)
        for words in ((), ("-m", "opus")):
            cli.call("run", "-a", "native", "-p", "go", *words)
    assert not (cli.project / "ran.txt").exists()


def test_trust_ends_with_the_next_change(cli: CliMachine) -> None:
    path = project(cli, 'default_model = "a"\n')
    assert cli.call("trust", "--yes").code == 0
    assert cli.call("config", "get", "default_model").out == "a\n"
    path.write_text('default_model = "b"\n')
    assert cli.call("config", "get", "default_model").code == 1
    assert cli.call("trust", "--list").out == f"{path}  [changed since, not trusted]\n"
    path.write_text('default_model = "a"\n')
    assert cli.call("config", "get", "default_model").out == "a\n"


def test_trust_belongs_to_the_path(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    project(cli, 'default_model = "a"\n')
    cli.call("trust", "--yes")
    other = cli.project.parent / "other"
    other.mkdir()
    (other / "harness.toml").write_text('default_model = "a"\n')
    monkeypatch.chdir(other)
    assert cli.call("config", "get", "default_model").code == 1


def test_a_link_to_a_trusted_file_is_not_trusted(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project(cli, 'default_model = "a"\n')
    cli.call("trust", "--yes")
    other = cli.project / "cloned"
    other.mkdir()
    (other / "harness.toml").symlink_to(path)
    monkeypatch.chdir(other)
    assert cli.call("config", "get", "default_model").code == 1


def test_a_program_is_looked_for_beside_the_file_that_names_it(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.settle('[agents.claude]\nbinary = "./tools/claude"\n')
    (cli.project / "cloned/tools").mkdir(parents=True)
    monkeypatch.chdir(cli.project / "cloned")
    shown = cli.call("run", "-a", "claude", "-p", "x", "--dry-run").out
    assert shown.startswith(f"Binary: {cli.project}/tools/claude\n")


def test_what_is_trusted_is_shown_with_every_hidden_character(cli: CliMachine) -> None:
    project(cli, 'default_permissions = "full"\n[agents.claude]\nbinary = "a\u202eb\u200b\\u001b[2K"\n')
    own(cli, 'default_permissions = "plan"\n')
    answer = cli.call("trust", "--yes")
    assert answer.err.splitlines()[:5] == [
        f"{cli.project}/harness.toml asks for:",
        '  default_permissions = "full"',
        f"      {next(one.summary for one in TABLE if one.key == 'default_permissions')}",
        '  agents.claude.binary = "a\\u202eb\\u200b\\u001b[2K"',
        "      Path of the agent's program; a relative one begins at the folder of the file.",
    ]


def test_without_a_terminal_nothing_is_agreed(cli: CliMachine) -> None:
    project(cli, 'default_model = "a"\n')
    done = subprocess.run(
        [*COMMAND, "trust"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no terminal to ask on" in done.stderr
    assert not Path(config.trust_file()).exists()


@pytest.mark.parametrize(("texts", "is_trusted"), [("y\n", True), ("\n", False), ("n\n", False)])
def test_on_a_terminal_it_asks(cli: CliMachine, texts: str, is_trusted: bool) -> None:
    project(cli, 'default_model = "a"\n')
    leader, follower = pty.openpty()
    os.write(leader, texts.encode())
    done = subprocess.run([*COMMAND, "trust"], stdin=follower, capture_output=True, text=True, check=False)
    os.close(leader)
    os.close(follower)
    assert "Trust this, as it is now? [y/N]" in done.stderr
    assert (done.returncode == 0) == is_trusted
    assert (cli.call("config", "get", "default_model").out == "a\n") == is_trusted


def test_trust_can_be_listed_and_taken_back(cli: CliMachine) -> None:
    path = project(cli, 'default_model = "a"\n')
    cli.call("trust", "--yes")
    assert cli.call("trust", "--list", "--json").data == [{"path": str(path), "state": "trusted"}]
    assert "trusted already" in cli.call("trust").err
    assert cli.call("trust", "--revoke").code == 0
    assert cli.call("config", "get", "default_model").code == 1
    assert cli.call("trust", "--revoke").code == 1
    cli.call("trust", "--yes")
    path.unlink()
    assert cli.call("trust", "--list").out == f"{path}  [deleted]\n"
    assert cli.call("trust", "--revoke").code == 0
    assert cli.call("trust", "--list").out == ""


def test_the_record_is_private_and_counts_only_while_it_is(cli: CliMachine) -> None:
    project(cli, 'default_model = "a"\n')
    cli.call("trust", "--yes")
    record = Path(config.trust_file())
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    record.chmod(0o666)
    answer = cli.call("config", "get", "default_model")
    assert (answer.code, "can be changed by others" in answer.err) == (1, True)
    record.chmod(0o600)
    for damaged in ("{", "[]", '{"trusted": 3}', "[" * 100_000):
        record.write_text(damaged)
        answer = cli.call("config", "get", "default_model")
        assert (answer.code, "is damaged, so no project is trusted" in answer.err) == (1, True)
    record.unlink()
    record.symlink_to(cli.project / "harness.toml")
    assert "no project is trusted" in cli.call("config", "get", "default_model").err


def test_what_needs_no_trust_or_cannot_be_read_is_not_trusted(cli: CliMachine) -> None:
    assert cli.call("trust", "--yes").code == 2
    project(cli, 'default_permissions = "plan"\n')
    assert "sets nothing that needs trust" in cli.call("trust", "--yes").err
    project(cli, "default_model = ")
    answer = cli.call("trust", "--yes")
    assert (answer.code, "is not valid TOML" in answer.err) == (1, True)
    assert cli.call("trust", "--yes", "nowhere").code == 2
    assert not Path(config.trust_file()).exists()


def test_show_shows_what_does_not_count(cli: CliMachine) -> None:
    path = project(cli, 'default_model = "a"\n')
    assert f'# ignored, not trusted: default_model = "a"  # {path}:1\n' in cli.call("config", "show").out
    shown = cli.call("config", "show", "--json", "--origin").data["default_model"]
    assert shown == {"value": None, "origin": "default", "ignored": {"value": "a", "origin": f"{path}:1"}}


def test_what_is_the_users_alone_is_not_granted_by_trust(cli: CliMachine) -> None:
    cli.settle('default_model = "a"\n[log]\nredact = false\n')
    assert cli.call("config", "get", "log.redact").out == "true\n"


def test_a_budget_is_kept_by_the_users_prices(cli: CliMachine) -> None:
    project(cli, '[prices."some-model"]\ninput = 0\noutput = 0\n')
    settings = config.load(str(cli.project))
    assert settings.tables("prices") == {}
    assert json.dumps(settings.effective()).count("prices") == 0


def test_trust_of_a_project_file_ends_when_a_program_of_the_project_that_it_names_changes(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil(cli)
    long_ago = project(cli, '[agents.claude]\nbinary = "./evil.sh"\n')
    monkeypatch.setattr(files, "stamp_of", lambda path: (0, 0, 0, 0, 0) if path == str(long_ago) else None)
    cli.call("trust", "--yes")
    assert cli.call("config", "show").err == ""
    (cli.project / "evil.sh").write_text("#!/bin/sh\necho other\n")
    assert "changed since" in cli.call("trust", "list").out
    assert "is not trusted" in cli.call("config", "show").err


def test_settings_of_agents_are_shown_trusted_listed_and_revoked(cli: CliMachine) -> None:
    path = cli.project / ".mcp.json"
    path.write_text('{"mcpServers": {"evil": {"command": "npx", "args": ["evil"]}}}')
    shown = cli.call("trust", "add", str(cli.project), "--yes", "-a", "claude")
    assert "`.mcp.json`: starts `npx evil` (server evil)  [claude]" in shown.err
    rows = cli.call("trust", "list", "--json").data
    assert rows == [{"path": str(cli.project), "state": "trusted", "agent": "claude"}]
    path.write_text("{}")
    again = cli.call("trust", str(cli.project), "--yes", "-a", "claude")
    assert "changed since it was trusted:\n  ~ .mcp.json" in again.err
    assert "for claude is no longer trusted" in cli.call("trust", "revoke", str(cli.project)).err
    assert cli.call("trust", "list").out == ""


def test_without_settings_there_is_nothing_to_trust(cli: CliMachine) -> None:
    refused = cli.call("trust", str(cli.project), "--yes", "-a", "claude")
    assert (refused.code, "there is nothing to trust" in refused.err) == (2, True)
