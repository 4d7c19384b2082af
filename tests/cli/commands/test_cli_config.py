"""Settings: where they come from, which of them applies, and the errors for wrong ones."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from cli_machine import CliMachine
from harness import config
from harness.config import settings
from harness.errors import BadConfig


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _user(cli: CliMachine, text: str) -> Path:
    return _write(cli.home / ".config/harness/config.toml", text)


def _project(cli: CliMachine, text: str) -> Path:
    return cli.settle(text)


def test_without_any_file_the_defaults_hold(cli: CliMachine) -> None:
    answer = cli.call("config", "show", "--json", "--origin")
    assert answer.data == {
        "default_permissions": {"value": "full-access", "origin": "default"},
        "log_level": {"value": "warn", "origin": "default"},
        "log.redact": {"value": True, "origin": "default"},
        "histories.keep": {"value": False, "origin": "default"},
        "histories.serve": {"value": "local", "origin": "default"},
        "tui.notify": {"value": True, "origin": "default"},
        "undo.on": {"value": True, "origin": "default"},
        "undo.mb": {"value": 1024, "origin": "default"},
        "gateway.use": {"value": "never", "origin": "default"},
        "gateway.seal": {"value": False, "origin": "default"},
        "gateway.bodies": {"value": "all", "origin": "default"},
        "limits.at_limit": {"value": "ask", "origin": "default"},
        "limits.max_windows": {"value": 2, "origin": "default"},
        "limits.longest_secs": {"value": 21_600, "origin": "default"},
    }


def test_flag_environment_project_user_default_in_this_order(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.install("claude")

    def model(*words: str) -> str:
        out = cli.call("run", "-a", "claude", "-p", "x", "--dry-run", *words).out
        return out.partition("--model ")[2].split()[0] if "--model" in out else ""

    assert model() == ""
    _user(cli, 'default_model = "user"\n')
    assert model() == "user"
    _user(cli, 'default_model = "user"\n[agents.claude]\nmodel = "user-claude"\n')
    assert model() == "user-claude"
    _project(cli, 'default_model = "project"\n')
    assert model() == "project"
    _project(cli, 'default_model = "project"\n[agents.claude-code]\nmodel = "project-claude"\n')
    assert model() == "project-claude"
    monkeypatch.setenv("HARNESS_MODEL", "environment")
    assert model() == "environment"
    assert model("-m", "flag") == "flag"


def test_agent_permissions_timeout_and_program_may_be_set(cli: CliMachine) -> None:
    cli.install("claude")
    cli.install("codex").rename(cli.project / "my-codex")
    _project(
        cli,
        'default_agent = "codex"\ndefault_permissions = "plan"\ndefault_timeout_secs = 0.3\n'
        f'[agents.codex]\nbinary = "{cli.project}/my-codex"\n',
    )
    shown = cli.call("run", "-p", "x", "--dry-run").out
    assert shown.startswith(f"Binary: {cli.project}/my-codex\n")
    assert "Args:   app-server -c " in shown  # held in a conversation, where nothing but reading is allowed
    assert "app-server" not in cli.call("run", "-p", "x", "--permissions", "yolo", "--dry-run").out
    (cli.project / "my-codex").write_text("#!/bin/sh\nexec sleep 60\n")
    assert cli.call("run", "-p", "x").code == 124


def test_extra_arguments_of_the_project_replace_those_of_older_files_which_add_up(cli: CliMachine) -> None:
    cli.install("codex")

    def arguments() -> list[str]:
        out = cli.call("run", "-a", "codex", "-p", "x", "--dry-run", "--", "--cli").out
        return [word for word in out.split() if word.startswith("--from-") or word == "--cli"]

    _user(cli, '[agents.codex]\nextra_args = ["--from-user"]\n')
    _write(cli.project / ".harnessrc.toml", '[agents.codex]\nextra_args = ["--from-old"]\n')
    cli.call("trust", "--yes")
    assert arguments() == ["--from-user", "--from-old", "--cli"]
    _project(cli, '[agents.codex]\nextra_args = ["--from-project"]\n')
    assert arguments() == ["--from-project", "--cli"]


def test_the_nearest_file_upwards_counts(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = _project(cli, 'default_agent = "outer"\n')
    deep = cli.project / "a/b/c"
    inner = _write(cli.project / "a/harness.toml", 'default_agent = "inner"\n')
    cli.call("trust", "--yes", "a")
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert cli.call("config", "path").out == f"{inner}\n"
    assert cli.call("config", "get", "default_agent").out == "inner\n"
    inner.unlink()
    assert cli.call("config", "path").out == f"{outer}\n"
    outer.unlink()
    assert cli.call("config", "path").out == f"{cli.home}/.config/harness/config.toml\n"


def test_the_old_name_still_counts_and_shows_that_it_is_old(cli: CliMachine) -> None:
    _write(cli.project / ".harnessrc.toml", 'default_agent = "claude"\n')
    cli.call("trust", "--yes")
    answer = cli.call("config", "get", "default_agent")
    assert answer.out == "claude\n"
    assert ".harnessrc.toml: is deprecated" in answer.err
    _project(cli, "")
    assert cli.call("config", "get", "default_agent").err == ""


def test_show_shows_where_each_value_is_set(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    project = _project(cli, '# mine\ndefault_model = "opus"\n\n[agents.claude]\nextra_args = ["-x", "a b"]\n')
    user = _user(cli, "[log]\nredact = false\n")
    monkeypatch.setenv("HARNESS_AGENT", "claude")
    answer = cli.call("config", "show", "--origin")
    assert answer.out == (
        'default_agent = "claude"  # $HARNESS_AGENT\n'
        f'default_model = "opus"  # {project}:2\n'
        'default_permissions = "full-access"  # default\n'
        'log_level = "warn"  # default\n'
        "\n[log]\n"
        f"redact = false  # {user}:2\n"
        "\n[histories]\n"
        "keep = false  # default\n"
        'serve = "local"  # default\n'
        "\n[tui]\n"
        "notify = true  # default\n"
        "\n[undo]\n"
        "on = true  # default\n"
        "mb = 1024  # default\n"
        "\n[gateway]\n"
        'use = "never"  # default\n'
        "seal = false  # default\n"
        'bodies = "all"  # default\n'
        "\n[limits]\n"
        'at_limit = "ask"  # default\n'
        "max_windows = 2  # default\n"
        "longest_secs = 21600  # default\n"
        "\n[agents.claude]\n"
        f'extra_args = ["-x", "a b"]  # {project}:5\n'
    )
    shown = tomllib.loads(cli.call("config", "show").out)
    assert shown["agents"] == {"claude": {"extra_args": ["-x", "a b"]}}


def test_what_show_prints_is_toml_that_means_the_same(cli: CliMachine) -> None:
    odd = 'default_agent = "a\\"b\\\\c\\u001b"\n[models."gpt-5.1"]\nclaude = "x"\ndescription = "é"\n'
    _project(cli, odd)
    shown = tomllib.loads(cli.call("config", "show").out)
    assert shown["default_agent"] == 'a"b\\c\x1b'
    assert shown["models"] == {"gpt-5.1": {"claude": "x", "description": "é"}}


def test_get_prints_one_value(cli: CliMachine) -> None:
    _project(cli, 'default_timeout_secs = 300\n[agents.claude]\nextra_args = ["a"]\n')
    assert cli.call("config", "get", "default_timeout_secs").out == "300\n"
    assert cli.call("config", "get", "agents.claude.extra_args").out == '["a"]\n'
    assert cli.call("config", "get", "log.redact").out == "true\n"
    unset = cli.call("config", "get", "default_model")
    assert (unset.code, unset.out, unset.err) == (1, "", "harness: default_model is not set\n")
    unknown = cli.call("config", "get", "nonsense")
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err.startswith("harness: unknown setting: nonsense\n  expected one of: default_agent")


def test_init_writes_every_setting_and_never_over_a_file(cli: CliMachine) -> None:
    answer = cli.call("config", "init")
    path = cli.project / "harness.toml"
    assert (answer.code, answer.out) == (0, f"Created config at: {path}\n")
    text = path.read_text()
    assert all(
        setting.key.rpartition(".")[2] in text
        for setting in settings.TABLE
        if "<" not in setting.key.rpartition(".")[2] and setting.source != "user"
    )
    assert "[models." in text
    assert cli.call("config", "show").err == ""
    again = cli.call("config", "init")
    assert (again.code, again.out) == (1, "")
    assert "already exists" in again.err
    assert path.read_text() == text


@pytest.mark.parametrize("words", [[], ["--user"]])
def test_everything_that_init_proposes_is_accepted(cli: CliMachine, words: list[str]) -> None:
    path = Path(cli.call("config", "init", *words).out.split(": ", 1)[1].strip())
    lines = [line.removeprefix("# ") for line in path.read_text().split("\n")]
    path.write_text("\n".join(line for line in lines if "=" in line or line.startswith("[")))
    if not words:
        cli.call("trust", "--yes")
    loaded = config.load(str(cli.project))
    assert loaded.problems == []
    proposed = {setting.key for setting in settings.TABLE if words or setting.source != "user"}
    assert len(loaded.layers[1].values) == len(proposed)


@pytest.mark.parametrize(
    ("text", "shown_text"),
    [
        ("default_agent = 3", "harness.toml:1: default_agent: a string was expected, not the value 3"),
        ("\n\ndefault_timeout_secs = '5'", "harness.toml:3: default_timeout_secs: a number of seconds above 0 was expected, not the string '5'"),
        ("default_timeout_secs = -5", "a number of seconds above 0 was expected, not the value -5"),
        ("default_timeout_secs = true", "a number of seconds above 0 was expected, not the truth value true"),
        ("default_timeout_secs = nan", "a number of seconds above 0 was expected"),
        ("default_permissions = 'read-onli'", "default_permissions: one of full-access, full, yolo, default, read-only, readonly, plan, agent-default, ask, accept-edits was expected, not the string 'read-onli'"),
        ("log_level = 'loud'", "log_level: one of error, warn, info, debug was expected"),
        ("[agents.claude]\nextra_args = 'x'", "harness.toml:2: agents.claude.extra_args: a list of strings was expected, not the string 'x'"),
        ("[agents.claude]\nextra_args = [1]", "agents.claude.extra_args: a list of strings was expected, not a list"),
        ("[agents]\nclaude = 'x'", "harness.toml:2: agents.claude: a table was expected, not the string 'x'"),
        ("agents = 1", "harness.toml:1: agents: a table was expected, not the value 1"),
        ("[models.fast]\nclaude = 1", "harness.toml:2: models.fast.claude: a string was expected, not the value 1"),
        ("default_agent = 2020-01-01", "default_agent: a string was expected, not the value datetime.date(2020, 1, 1)"),
        ("default_agent = ''", "default_agent: a string was expected, not the string ''"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_an_error_with_file_line_key_and_what_was_expected(
    cli: CliMachine, text: str, shown_text: str
) -> None:
    cli.install("claude")
    _project(cli, text)
    for words in (["run", "-a", "claude", "-p", "x"], ["config", "show"]):
        answer = cli.call(*words)
        assert answer.code == 2, words
        assert answer.err.startswith(f"harness: {cli.project}/harness.toml"), answer.err
        assert shown_text in answer.err
    assert cli.logs() == []


@pytest.mark.parametrize(
    ("data", "shown_text"),
    [
        (b"default_agent = ", "is not valid TOML: "),
        (b"[[[", "is not valid TOML: "),
        (b"\xff\xfe\x00", "is not UTF-8 text: byte 0"),
        (b"\x00", "is not valid TOML: "),
        (b"a = " + b"[" * 5000, "is not valid TOML: "),
        (b"default_agent = 'a'\ndefault_agent = 'b'\n", "(at line 2, column 20)"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_warning_and_ignored(
    cli: CliMachine, data: bytes, shown_text: str
) -> None:
    cli.install("claude")
    _project(cli, "").write_bytes(data)
    answer = cli.call("run", "-a", "claude", "-p", "x")
    assert (answer.code, answer.types[-1]) == (0, "Result")
    assert answer.err.startswith(f"harness: warning: {cli.project}/harness.toml: ")
    assert shown_text in answer.err
    assert answer.err.endswith("; the file is ignored\n")


def test_a_file_that_may_not_be_read_is_a_warning(cli: CliMachine) -> None:
    if os.geteuid() == 0:
        (cli.home / ".config/harness/config.toml").mkdir(parents=True)
        shown_text = "cannot be read: Is a directory"
    else:
        _user(cli, "").chmod(0)
        shown_text = "cannot be read: Permission denied"
    assert shown_text in cli.call("config", "show").err


def test_an_unknown_key_is_a_warning_that_knows_better(cli: CliMachine) -> None:
    _project(cli, 'default_agnet = "x"\n[nonsense]\na = 1\n')
    answer = cli.call("config", "show")
    assert answer.code == 0
    assert (
        "harness.toml:1: default_agnet: unknown setting; ignored (did you mean default_agent?)" in answer.err
    )
    assert "harness.toml:2: nonsense: unknown setting; ignored\n" in answer.err


def test_a_project_decides_nothing_that_is_the_users_alone(cli: CliMachine) -> None:
    _project(cli, '[log]\nredact = false\ndirectory = "/tmp/elsewhere"\n')
    answer = cli.call("config", "show", "--json")
    assert (answer.data["log.redact"], "log.directory" in answer.data) == (True, False)
    assert "harness.toml:2: log.redact: only counts in" in answer.err


def test_a_wrong_variable_is_an_error_that_names_it(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_TIMEOUT_SECS", "soon")
    answer = cli.call("run", "-a", "claude", "-p", "x")
    assert answer.code == 2
    assert (
        "$HARNESS_TIMEOUT_SECS: default_timeout_secs: a number of seconds above 0 was expected" in answer.err
    )


def test_only_the_settings_that_a_command_needs_must_be_right(cli: CliMachine) -> None:
    _project(cli, "default_timeout_secs = 'x'")
    assert cli.call("sessions", "list").code == 0
    _user(cli, "[log]\ndirectory = 1")
    assert cli.call("sessions", "list").code == 2


def test_the_level_of_messages_is_environment_then_verbose_then_setting(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.install("codex")
    words = ("run", "-a", "codex", "-p", "x", "-m", "opus", "--dry-run")
    warned = "no mapping"
    assert warned in cli.call(*words).err
    _project(cli, 'log_level = "error"')
    assert cli.call(*words).err == ""
    assert warned in cli.call(*words, "-v").err
    monkeypatch.setenv("HARNESS_LOG_LEVEL", "error")
    assert cli.call(*words, "-v").err == ""


def test_every_setting_is_explained_and_its_example_is_good() -> None:
    for setting in settings.TABLE:
        assert setting.summary.endswith("."), setting.key
        assert setting.accepts(setting.example), setting.key
        assert setting.default is None or setting.accepts(setting.default), setting.key
        assert settings.find(tuple(setting.key.split("."))) is not None
    variables = [setting.environment for setting in settings.TABLE if setting.environment]
    assert len(variables) == len({*variables})


def test_the_library_reads_settings_without_raising_until_they_are_used(cli: CliMachine) -> None:
    _project(cli, "log_level = 3\n")
    loaded = config.load(str(cli.project))
    assert loaded.value("default_permissions") == "full-access"
    with pytest.raises(BadConfig, match="log_level"):
        loaded.value("log_level")


def test_a_setting_is_set_in_the_users_file_and_everything_else_stays(cli: CliMachine) -> None:
    assert cli.call("config", "set", "default_timeout_secs", "300").code == 0
    assert cli.call("config", "set", "agents.claude.model", "opus").code == 0
    path = Path(cli.call("config", "path").out.strip())
    path.write_text("# mine\n" + path.read_text() + "\n# the end\n")
    assert cli.call("config", "set", "default_timeout_secs", "60").code == 0
    assert cli.call("config", "set", "prices.gpt-5.1.input", "1.5").code == 0
    assert cli.call("config", "get", "default_timeout_secs").out == "60\n"
    assert cli.call("config", "get", "agents.claude.model").out == "opus\n"
    text = path.read_text()
    assert text.startswith("# mine\n")
    assert "# the end" in text
    assert '[prices."gpt-5.1"]\ninput = 1.5' in text
    assert cli.call("config", "unset", "default_timeout_secs").code == 0
    assert cli.call("config", "get", "default_timeout_secs").code == 1


def test_what_cannot_be_set_is_said_and_nothing_is_written(cli: CliMachine) -> None:
    assert cli.call("config", "set", "default_permissions", "everything").code == 2
    wrong = cli.call("config", "set", "default_timeout_secs", "soon")
    assert (wrong.code, "a number of seconds above 0" in wrong.err) == (2, True)
    assert cli.call("config", "set", "nonsense", "1").code == 2
    assert not Path(cli.call("config", "path").out.strip()).exists()
