"""`harness agents`, `list` and `check`: what is installed and what it can do, and no key's value ever."""

from __future__ import annotations

import pytest

from cli_machine import CliMachine
from harness.agents import registry


def while_running(name: str) -> list[str]:
    two_way = registry.load(name).two_way
    return sorted(two_way.capabilities - {"mode"}) if two_way is not None else []


def test_the_list_shows_what_to_install_when_nothing_is(cli: CliMachine) -> None:
    answer = cli.call("list")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("No agents found. Install one of: ")
    assert cli.call("list", "--json").data == []


@pytest.mark.parametrize("words", [["list"], ["agents", "list"], ["agents"]])
def test_the_list_has_name_program_and_version(cli: CliMachine, words: list[str]) -> None:
    cli.install("claude")
    cli.script("codex", "exit 1\n")
    answer = cli.call(*words)
    title, claude, codex = answer.out.splitlines()
    assert title == "Available agents:"
    assert claude.startswith("  - Claude Code (claude) [2.1.325] two-way: approve, ask, ")
    assert codex.startswith("  - Codex (codex) [unknown]")
    assert cli.call(*words, "--json").data == [
        {
            "agent": name,
            "display_name": title,
            "version": version,
            "two_way": while_running(name) if version else [],
        }
        for name, title, version in (("claude", "Claude Code", "2.1.325"), ("codex", "Codex", None))
    ]


def test_the_list_of_all_shows_how_to_get_the_others(cli: CliMachine) -> None:
    cli.install("claude")
    answer = cli.call("list", "--all")
    assert "  - Claude Code (claude) [2.1.325] two-way: " in answer.out
    assert "  - Codex (codex) [not installed: " in answer.out
    assert {one["agent"]: one["available"] for one in cli.call("list", "--all", "--json").data}[
        "codex"
    ] is False


@pytest.mark.parametrize("words", [["check"], ["agents", "check"]])
def test_a_check_shows_whether_an_agent_is_there(cli: CliMachine, words: list[str]) -> None:
    missing = cli.call(*words, "claude")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err.startswith("Claude Code is not available (binary `claude` not found in PATH)\n")
    cli.install("claude")
    found = cli.call(*words, "claude")
    assert (found.code, found.out, found.err) == (0, "Claude Code is available (2.1.325)\n", "")
    unknown = cli.call(*words, "nonexistent")
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err.startswith("harness: unknown agent: nonexistent\n  expected one of: ")


def test_a_check_for_programs_is_one_object(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-never-shown-0123456789")
    cli.install("claude")
    answer = cli.call("check", "claude", "--json", "--capabilities", "--diagnose")
    data = answer.data
    assert (data["agent"], data["display_name"], data["available"], data["version"]) == (
        "claude", "Claude Code", True, "2.1.325",
    )  # fmt: skip
    assert data["capabilities"]["max_turns"] is True
    assert data["diagnostics"]["binary_path"] == str(cli.bin / "claude")
    assert data["diagnostics"]["candidates"] == ["claude"]
    assert data["diagnostics"]["env"]["ANTHROPIC_API_KEY"] == "set"
    assert "never-shown" not in answer.out + answer.err
    assert {*cli.call("check", "claude", "--json").data} == {
        "agent",
        "display_name",
        "available",
        "version",
    }


def test_capabilities_are_as_the_agents_are(cli: CliMachine) -> None:
    able = {
        name: cli.call("check", name, "--json", "--capabilities").data["capabilities"]
        for name in ("claude", "codex")
    }
    first_five = ["system_prompt", "append_system_prompt", "budget", "model", "max_turns"]
    assert [able["claude"][name] for name in first_five] == [True, True, True, True, True]
    assert [able["codex"][name] for name in first_five] == [False, False, False, True, False]
    text = cli.call("agents", "capabilities", "codex").out
    assert "  system_prompt:        false\n" in text
    assert "  model:                true\n" in text


def test_what_can_be_done_while_an_agent_runs_is_as_its_driver_shows(cli: CliMachine) -> None:
    shown = cli.call("agents", "capabilities", "--json").data
    assert shown["claude"]["two_way"] == while_running("claude") != []
    assert "steer" in shown["native"]["two_way"]
    assert shown["aider"]["two_way"] == []
    assert cli.call("check", "claude", "--json", "--capabilities").data["two_way"] == while_running("claude")
    assert "  two_way:              false\n" in cli.call("agents", "capabilities", "aider").out
    assert "  two_way:              approve, ask, " in cli.call("agents", "capabilities", "claude").out


def test_a_diagnosis_shows_candidates_and_which_keys_are_set(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-shown-0123456789")
    for words in (["check", "codex", "--diagnose"], ["agents", "diagnose", "codex"], ["agents", "diagnose"]):
        answer = cli.call(*words)
        assert "Diagnostics:\n  binary_path: not found\n  candidates:  codex\n" in answer.out
        assert "  OPENAI_API_KEY: set\n" in answer.out
        assert "never-shown" not in answer.out + answer.err
    data = cli.call("agents", "diagnose", "--json").data
    assert data["codex"]["env"]["OPENAI_API_KEY"] == "set"


def test_every_agent_can_be_checked(cli: CliMachine) -> None:
    for name in registry.names():
        answer = cli.call("check", name, "--json")
        assert answer.data["display_name"] == registry.load(name).title
        assert answer.code == (0 if answer.data["available"] else 1)
