"""`[gateway.models]`: which model answers is a matter of the name that the agent asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway_place import KEY, Place, calls_of
from harness.contracts.request import GatewayOptions, Limits, Request
from harness.errors import UsageError
from harness.runs import gateway_plan
from harness.runs.launch import prepare
from harness.runs.run import start
from harness.sandbox.rungs import NAMESPACES


def _settings(place: Place, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    folder = place.folder / "config/harness"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))


def _script(place: Place, text: str) -> Path:
    path = place.folder / "other.toml"
    path.write_text(f'turns = [{{ text = "{text}" }}, {{ text = "{text}" }}]\n')
    return path


@pytest.mark.parametrize(
    ("pattern", "text", "asked"), [("claude-*", "Another one.", 0), ("*haiku*", "Done.", 3)]
)
def test_the_name_that_is_asked_for_says_which_model_answers(
    place: Place, monkeypatch: pytest.MonkeyPatch, pattern: str, text: str, asked: int
) -> None:
    other = _script(place, "Another one.")
    _settings(place, monkeypatch, f'[gateway.models]\n"{pattern}" = "scripted/{other}"\n')
    before = len(place.lab.requests)
    run, events = place.run()
    assert run.wait().text == text
    assert len(place.lab.requests) - before == asked
    assert {call.origin for call in calls_of(events)} == {"provider" if asked else "translated"}
    _, again = place.replay(run)
    assert {call.origin for call in calls_of(again)} == {"recording"}


def test_another_provider_has_its_own_key_which_is_never_written(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-other-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{place.lab.url}/v1")
    _settings(place, monkeypatch, '[gateway.models]\n"claude-*" = "openai/gpt-5.5"\n')
    run, _ = place.run()
    assert run.wait().text == "Done."
    sent = [entry for entry in place.lab.requests if entry.wire]
    assert {entry.wire for entry in sent} == {"responses"}
    for path in Path(place.store.directory).iterdir():
        assert key.encode() not in path.read_bytes()
        assert KEY.encode() not in path.read_bytes()


def test_a_model_that_costs_nothing_needs_no_price_under_a_limit(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    _settings(place, monkeypatch, f'[gateway.models]\n"claude-*" = "scripted/{_script(place, "Free.")}"\n')
    request = Request(
        agent="claude",
        prompt="Go.",
        cwd=str(place.cwd),
        gateway=GatewayOptions(),
        limits=Limits(max_budget_usd=0.000001),
    )
    assert start(request, store=place.store).wait().text == "Free."


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("qwen3", "not the name of a model"),
        ("nobody/x", "not the name of a model"),
        ("openai/gpt-5.5", "OPENAI_API_KEY"),
    ],
)
def test_what_cannot_answer_is_said_before_anything_starts(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    _settings(place, monkeypatch, f'[gateway.models]\n"*" = "{name}"\n')
    with pytest.raises(UsageError) as caught:
        prepare(Request(agent="claude", prompt="Go.", cwd=str(place.cwd), gateway=GatewayOptions()))
    assert said in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("gateway", [None, GatewayOptions()])
def test_the_setting_seals_every_run_through_a_gateway(
    place: Place, monkeypatch: pytest.MonkeyPatch, gateway: GatewayOptions | None
) -> None:
    monkeypatch.setattr(gateway_plan, "find_seal", lambda sealed, cwd: NAMESPACES)
    _settings(place, monkeypatch, '[gateway]\nuse = "always"\nseal = true\n')
    launch = prepare(Request(agent="claude", prompt="Go.", cwd=str(place.cwd), gateway=gateway))
    assert launch.gateway is not None
    assert launch.gateway.seal is NAMESPACES
