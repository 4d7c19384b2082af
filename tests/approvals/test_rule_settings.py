"""Rules in files: the user's own count whole, a project's can only narrow, and a wrong one is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.approvals.rule_settings import add_rule, load_rules, remove_rule
from harness.config.files import user_file
from harness.errors import BadConfig, UsageError
from harness.runs.agent_rules import rules_for


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = Path(user_file())
    path.parent.mkdir(parents=True)
    return path


def test_rules_of_the_user_count_and_say_where_they_are(own: Path, tmp_path: Path) -> None:
    own.write_text(
        'default_agent = "native"\n\n[[permissions.rules]]\nanswer = "deny"\ncommand = "git push"\n'
    )
    (rule,) = load_rules(str(tmp_path)).rules
    assert (rule.answer, rule.command, rule.source, rule.place) == ("deny", "git push", "user", f"{own}:3")


def test_a_projects_file_narrows_and_what_it_would_allow_is_named(own: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "harness.toml").write_text(
        '[[permissions.rules]]\nanswer = "allow"\ntool = "*"\n[[permissions.rules]]\nanswer = "deny"\npath = ".env"\n'
    )
    written = load_rules(str(project))
    assert [(rule.answer, rule.source) for rule in written.rules] == [("deny", "project")]
    assert [rule.words for rule in written.ignored] == ["allow tool *"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('answer = "maybe"\ntool = "x"', "has no answer"),
        ('tool = "x"', "has no answer"),
        ('answer = "deny"', "names nothing"),
        ('answer = "deny"\nagent = "codex"', "names nothing"),
        ('answer = "deny"\ncomand = "git push"', "unknown key in a rule: comand"),
        ('answer = "deny"\ncommand = 1', "is no text"),
        ('answer = "deny"\npath = "[a"', "is no glob"),
        ('answer = "deny"\ncategory = "all"', "unknown category"),
    ],
)
def test_a_wrong_rule_is_an_error_with_its_line(own: Path, tmp_path: Path, lines: str, problem: str) -> None:
    own.write_text(f"# mine\n[[permissions.rules]]\n{lines}\n")
    with pytest.raises(BadConfig, match=problem) as raised:
        load_rules(str(tmp_path))
    assert f"{own}:2" in str(raised.value)


def test_rules_that_are_no_list_are_an_error(own: Path, tmp_path: Path) -> None:
    own.write_text('[permissions]\nrules = "none"\n')
    with pytest.raises(BadConfig, match="a list of tables"):
        load_rules(str(tmp_path))


def test_rules_are_added_and_removed_without_touching_the_rest(own: Path, tmp_path: Path) -> None:
    own.write_text('# mine\ndefault_agent = "native"\n')
    add_rule({"answer": "deny", "command": "git push", "path": ""})
    add_rule({"answer": "ask", "tool": "Bash"})
    assert [rule.words for rule in load_rules(str(tmp_path)).rules] == [
        "deny command git push",
        "ask tool Bash",
    ]
    remove_rule(1)
    assert [rule.words for rule in load_rules(str(tmp_path)).rules] == ["ask tool Bash"]
    assert own.read_text().startswith('# mine\ndefault_agent = "native"\n')
    with pytest.raises(UsageError, match="has no rule 2"):
        remove_rule(2)
    with pytest.raises(BadConfig):
        add_rule({"answer": "deny"})


def test_a_rule_for_an_agent_holds_for_that_one_however_it_is_called(own: Path, tmp_path: Path) -> None:
    own.write_text(
        '[[permissions.rules]]\nanswer = "deny"\nagent = "claude-code"\ncommand = "git push"\n'
        '[[permissions.rules]]\nanswer = "allow"\nagent = "Codex"\ncommand = "make"\n'
        '[[permissions.rules]]\nanswer = "ask"\ncommand = "git pull"\n'
    )
    held = {
        agent: [rule.command for rule in rules_for(agent, str(tmp_path))]
        for agent in ("claude", "codex", "native")
    }
    assert held == {
        "claude": ["git push", "git pull"],
        "codex": ["make", "git pull"],
        "native": ["git pull"],
    }


def test_a_rule_for_an_agent_that_is_none_is_an_error(own: Path, tmp_path: Path) -> None:
    own.write_text('[[permissions.rules]]\nanswer = "deny"\nagent = "cluade"\ncommand = "git push"\n')
    with pytest.raises(BadConfig, match=r"config\.toml:1: unknown agent in a rule: cluade"):
        rules_for("claude", str(tmp_path))


def test_a_tool_of_an_agent_in_other_letters_is_an_error(own: Path, tmp_path: Path) -> None:
    own.write_text('[[permissions.rules]]\nanswer = "deny"\nagent = "claude"\ntool = "bash"\n')
    with pytest.raises(BadConfig, match="Claude Code has no tool bash") as refused:
        rules_for("claude", str(tmp_path))
    assert refused.value.hint == "it is Bash"
    own.write_text('[[permissions.rules]]\nanswer = "deny"\nagent = "claude"\ntool = "Bash*"\n')
    assert rules_for("claude", str(tmp_path))
