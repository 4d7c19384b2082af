"""Which agent `harness run` uses when none is named: the only one that is installed, else `native` with any model."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_machine import CliMachine
from harness.lab import LabServer, ScriptRun, parse_script

NATIVE = "Binary: none: it runs in this process"


def lines_of(cli: CliMachine, *words: str) -> list[str]:
    answer = cli.call("run", "--prompt", "hi", "--dry-run", *words)
    assert answer.code == 0, answer.err
    return answer.out.split("\n")


def give_weights(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for a machine to say that it has a local model; nothing is loaded."""
    modules = cli.root / "modules"
    modules.mkdir()
    (modules / "xllamacpp.py").touch()
    monkeypatch.syspath_prepend(modules)
    monkeypatch.setenv("XDG_DATA_HOME", str(cli.home))
    weights = Path(cli.home, "harness/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    weights.parent.mkdir(parents=True)
    weights.touch()


def test_with_nothing_at_all_it_shows_what_there_could_be(cli: CliMachine) -> None:
    answer = cli.call("run", "--prompt", "hi")
    assert (answer.code, answer.out) == (2, "")
    for advice in ("install one of: aider, ", "ANTHROPIC_API_KEY", "harness models fetch local"):
        assert advice in answer.err
    assert "generic" not in answer.err
    assert cli.logs() == []


def test_with_a_key_alone_our_own_agent_asks_that_provider(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-0123456789abcdef")
    with LabServer(
        ScriptRun(parse_script({"turns": [{"text": "Hello."}], "side": {"toolless": False}}))
    ) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        answer = cli.call("run", "--prompt", "hi")
    assert answer.code == 0, answer.err
    assert answer.events[0]["agent"] == "native"
    assert answer.events[0]["model"].startswith("anthropic/")
    assert answer.events[-1]["text"] == "Hello."
    assert "test-key" not in cli.logs()[0].read_text()


def test_with_a_local_model_alone_our_own_agent_asks_that_one(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.call("run", "--prompt", "hi", "--dry-run").code == 2
    give_weights(cli, monkeypatch)
    assert lines_of(cli)[0] == NATIVE
    assert "uses its own agent here, with local/smollm2" in cli.call("list").out


def test_a_key_goes_before_the_local_model(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    give_weights(cli, monkeypatch)
    monkeypatch.setenv("GEMINI_API_KEY", "test-key-0123456789abcdef")
    assert "with gemini/" in cli.call("list").out


def test_a_model_that_is_named_is_enough_for_our_own_agent(cli: CliMachine) -> None:
    assert lines_of(cli, "--model", "ollama/qwen3")[0] == NATIVE
    cli.settle('[agents.native]\nmodel = "ollama/qwen3"\n')
    assert lines_of(cli)[0] == NATIVE


def test_an_agent_that_is_installed_goes_before_ours(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-0123456789abcdef")
    cli.install("codex")
    assert lines_of(cli)[0] == f"Binary: {cli.bin / 'codex'}"
    cli.install("claude")
    answer = cli.call("run", "--prompt", "hi")
    assert (answer.code, "several are installed: claude, codex" in answer.err) == (2, True)


def test_the_default_of_the_user_goes_before_everything_but_the_option(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.install("codex")
    cli.install("claude")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-0123456789abcdef")
    cli.settle('default_agent = "native"\n')
    assert lines_of(cli)[0] == NATIVE
    assert lines_of(cli, "--agent", "codex")[0] == f"Binary: {cli.bin / 'codex'}"


def test_no_installation_is_proposed_for_what_is_no_program(cli: CliMachine) -> None:
    assert "generic" not in cli.call("list").out
    assert "(generic) [give its program with --binary]" in cli.call("list", "--all").out
    answer = cli.call("check", "generic")
    assert (answer.code, "it is not a program" in answer.err) == (1, True)
    assert cli.call("run", "--agent", "generic", "--prompt", "hi", "--dry-run").code == 1
