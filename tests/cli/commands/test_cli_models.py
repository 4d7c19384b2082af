"""`harness models`: short names, and what each agent is given for them."""

from __future__ import annotations

import pytest

from cli_machine import CliMachine
from harness import config
from harness.config import model_names

REGISTRY = """
[models.quick]
description = "The quick one"
provider = "nobody"
claude = "claude-quick-1"

[models.opus]
description = "Another opus"
provider = "nobody"
codex = "codex-opus"
"""


def test_the_list_has_what_is_built_in(cli: CliMachine) -> None:
    text = cli.call("models", "list").out
    assert text.startswith("Model registry (1 model):\n")
    assert "  opus — Claude Opus 4.6\n    [anthropic] claude=claude-opus-4-6" in text
    (opus,) = cli.call("models", "list", "--json").data
    assert opus == {
        "name": "opus",
        "description": "Claude Opus 4.6",
        "provider": "anthropic",
        "claude": "claude-opus-4-6",
        "opencode": "anthropic/claude-opus-4-6",
        "cursor": "claude-opus-4-6",
    }


def test_the_list_may_be_of_one_agent(cli: CliMachine) -> None:
    assert [model["name"] for model in cli.call("models", "list", "--agent", "claude", "--json").data] == [
        "opus"
    ]
    assert cli.call("models", "--agent", "codex", "--json").data == []
    shown_text = "No models in the registry for Codex: it is given every name as it is.\n"
    assert cli.call("models", "--agent", "codex").out == shown_text
    unknown = cli.call("models", "list", "--agent", "foobar")
    assert (unknown.code, "unknown agent" in unknown.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "agent", "out", "shown_text"),
    [
        ("opus", "claude", "claude-opus-4-6", "opus is claude-opus-4-6 for Claude Code"),
        ("opus", "codex", "opus", "no mapping for Codex: passing through"),
        ("nonexistent", "claude", "nonexistent", "not found in the registry: passing through"),
        ("claude-opus-4-6", "claude", "claude-opus-4-6", "passing through"),
    ],
)
def test_a_name_is_resolved_on_standard_output_and_explained_on_standard_error(
    cli: CliMachine, name: str, agent: str, out: str, shown_text: str
) -> None:
    answer = cli.call("models", "resolve", name, "--agent", agent)
    assert (answer.code, answer.out) == (0, f"{out}\n")
    assert shown_text in answer.err


def test_a_name_for_an_unknown_agent_is_an_error(cli: CliMachine) -> None:
    answer = cli.call("models", "resolve", "opus", "--agent", "foobar")
    assert (answer.code, answer.out) == (2, "")
    assert "unknown agent" in answer.err


def test_layers_go_over_each_other_entry_by_entry(cli: CliMachine) -> None:
    (cli.project / "new.toml").write_text(REGISTRY)
    assert cli.call("models", "update", "new.toml").code == 0
    resolve = lambda name, agent: cli.call("models", "resolve", name, "--agent", agent).out.strip()  # noqa: E731
    assert resolve("quick", "claude") == "claude-quick-1"
    assert resolve("opus", "claude") == "opus"  # the whole entry was replaced
    assert resolve("opus", "codex") == "codex-opus"
    cli.settle('[models.quick]\nclaude = "mine"\n[models.opus]\nclaude = "my-opus"\n')
    assert resolve("quick", "claude") == "mine"
    assert resolve("opus", "claude") == "my-opus"
    assert resolve("opus", "codex") == "codex-opus"  # the project has no entry for this agent


def test_path_is_where_update_writes(cli: CliMachine) -> None:
    path = cli.home / ".harness/models.toml"
    assert cli.call("models", "path").out == f"{path}\n"
    (cli.project / "new.toml").write_text(REGISTRY)
    answer = cli.call("models", "update", "new.toml")
    assert (answer.out, answer.err) == ("", f"{path} has 2 models now\n")
    assert path.read_text() == REGISTRY


@pytest.mark.parametrize(
    ("text", "shown_text"),
    [
        ("{{{{ not valid", "is not valid TOML"),
        ("models = 1", "models: a table was expected"),
        ("[models]\nx = 1", "models.x: a table was expected, not int"),
        ("[models.x]\nclaude = 1", "models.x.claude: a string was expected, not int"),
        ("", "has no models in it"),
    ],
)
def test_a_bad_registry_is_not_taken_over(cli: CliMachine, text: str, shown_text: str) -> None:
    (cli.project / "bad.toml").write_text(text)
    answer = cli.call("models", "update", "bad.toml")
    assert (answer.code, answer.out) == (2, "")
    assert shown_text in answer.err
    assert not (cli.home / ".harness").exists()


def test_nothing_is_fetched(cli: CliMachine) -> None:
    answer = cli.call("models", "update", "https://example.com/models.toml")
    assert (answer.code, "nothing is fetched" in answer.err) == (2, True)
    assert cli.call("models", "update", "missing.toml").code == 2


def test_a_broken_cache_is_a_warning(cli: CliMachine) -> None:
    (cli.home / ".harness").mkdir()
    (cli.home / ".harness/models.toml").write_text("{")
    answer = cli.call("models", "resolve", "opus", "--agent", "claude")
    assert answer.out == "claude-opus-4-6\n"
    assert "models.toml is not valid TOML" in answer.err


def test_names_are_sorted_and_know_where_they_come_from(cli: CliMachine) -> None:
    cli.settle('[models.aaa]\nclaude = "x"\n')
    models = model_names.load(config.load(str(cli.project)))
    assert [(model.name, model.origin) for model in models.all] == [
        ("aaa", f"{cli.project}/harness.toml:2"),
        ("opus", model_names.BUILT_IN),
    ]
