"""What models cost: which entry counts, and that unknown is never free."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

import recorded_runs
from harness import config
from harness.errors import BadConfig
from harness.events import Usage, UsageDelta
from harness.testing.golden import translate
from harness.usage import prices
from harness.usage.prices import Price, Prices, Rate, prompt_size

LONG_PROMPT_TOKENS = 200_000
"""From here on some models cost more than is listed."""
NO_ENVIRONMENT: dict[str, str] = {}


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def settings(folder: Path, text: str = "") -> config.Settings:
    own = Path(config.user_file())
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(text)
    return config.load(str(folder), NO_ENVIRONMENT)


def listed(**by_model: Price) -> Prices:
    return Prices("2026-01-01", by_model)


SOME = Prices(
    "2026-01-01",
    {
        "some-model-4-5": Price(input=1, cache_read=0.1, cache_write=1.25, output=5),
        "some-model-4": Price(input=3, output=15),
        "reseller/maker/some-model-4": Price(input=9, output=9),
        "gpt-5.1": Price(input=2, output=8),
    },
)


@pytest.mark.parametrize(
    ("model", "input_usd"),
    [
        ("some-model-4", 3),
        ("maker/some-model-4", 3),
        ("other/maker/some-model-4", 3),
        ("reseller/maker/some-model-4", 9),
        ("some-model-4-20250514", 3),
        ("some-model-4-2025-05-14", 3),
        ("some-model-4@20250514", 3),
        ("maker/some-model-4-5-20250929", 1),
        ("maker/some-model-4.5", 1),
        ("Some-Model-4", 3),
        ("gpt-5.1", 2),
        ("gpt-5.1-2025-11-13", 2),
        ("some-model-4[1m]", 3),
        ("some-model-4-5-20250929[1m]", 1),
        ("us.anthropic.some-model-4-5-20250929-v1:0", 1),
        ("us-gov.anthropic.some-model-4-5-20250929-v1:0", 1),
        ("anthropic.some-model-4-v1", 3),
        ("bedrock/eu.anthropic.some-model-4-20250514-v1:0", 3),
        ("some-model-4-5-v2@20250929", 1),
    ],
)
def test_a_model_is_found_under_its_name_without_provider_and_without_date(
    model: str, input_usd: float
) -> None:
    found = SOME.find(model)

    assert found is not None
    assert found.input == input_usd


@pytest.mark.parametrize("model", ["", "some-model", "some-model-4-mini", "some-model-4:free", "x/", "/"])
def test_what_only_looks_alike_has_no_price(model: str) -> None:
    assert SOME.find(model) is None


def test_every_class_has_its_own_price_and_reasoning_costs_what_output_costs() -> None:
    usage = Usage(
        input=1_000_000, cache_read=1_000_000, cache_write=1_000_000, output=1_000_000, reasoning=1_000_000
    )

    assert SOME.cost_usd("some-model-4-5", usage) == 1 + 0.1 + 1.25 + 5 + 5


def test_a_cache_for_an_hour_costs_more_than_the_usual_one() -> None:
    prices = listed(m=Price(input=3, cache_write=3.75, output=15, cache_write_1h=6))
    usage = Usage(input=0, cache_write=150_000, cache_write_1h=100_000)

    assert prices.cost_usd("m", usage) == pytest.approx(50_000 * 3.75e-6 + 100_000 * 6e-6)
    assert listed(m=Price(cache_write=3.75)).cost_usd("m", usage) == pytest.approx(150_000 * 3.75e-6)


def test_fast_mode_and_long_prompts_have_their_own_price() -> None:
    price = Price(input=3, output=15, fast=6, long_from=200_000, long_input=2, long_output=1.5)
    prices, usage = listed(m=price), Usage(input=300_000, output=1_000)

    assert prices.cost_usd("m", usage) == pytest.approx(0.915)
    assert prices.cost_usd("m", usage, Rate(speed="fast")) == pytest.approx(0.915 * 6)
    assert prices.cost_usd("m", usage, Rate(over=prompt_size(usage))) == pytest.approx(1.8 + 0.0225)
    assert prices.cost_usd("m", usage, Rate(over=128_000)) == pytest.approx(0.915)
    assert listed(m=Price(input=3, output=15)).cost_usd("m", usage, Rate(speed="fast")) is None


def test_a_local_model_costs_nothing_unless_a_price_is_set() -> None:
    used = Usage(input=1_000_000)

    assert Prices("", {}).cost_usd("local/small", used) == 0.0
    assert Prices("", {"local/small": Price(input=2.0)}).cost_usd("local/small", used) == 2.0


def test_a_model_without_a_price_has_no_known_cost() -> None:
    assert SOME.cost_usd("unheard-of", Usage(input=1)) is None


def test_a_class_without_a_price_makes_the_whole_unknown_unless_nothing_of_it_was_used() -> None:
    assert SOME.cost_usd("some-model-4", Usage(input=1_000_000, cache_read=1)) is None
    assert SOME.cost_usd("some-model-4", Usage(input=1_000_000, cache_read=0, reasoning=0)) == 3


def test_no_tokens_need_no_price_but_unknown_tokens_have_no_cost() -> None:
    assert SOME.cost_usd("unheard-of", Usage(input=0, output=0)) == 0
    assert SOME.cost_usd("some-model-4", Usage()) is None


def test_a_model_that_is_free_costs_nothing() -> None:
    assert listed(gift=Price(input=0, output=0)).cost_usd("gift", Usage(input=5, output=5)) == 0


def test_the_built_in_prices_are_dated_and_each_model_has_input_and_output() -> None:
    updated, by_model = prices.read(prices.BUILT_IN)

    assert re.fullmatch(r"20\d\d-\d\d-\d\d", updated)
    date.fromisoformat(updated)
    for model, price in by_model.items():
        assert price.input, model
        assert price.output, model
        assert price.output >= price.input, model
        assert price.cache_read is None or price.cache_read < price.input, model
        assert price.cache_write is None or price.cache_write >= price.input, model


def test_the_built_in_prices_give_what_agents_state_themselves() -> None:
    """Recorded runs in which an agent stated the cost of its tokens, model by model: of all runs in it together."""
    built_in = Prices(*prices.read(prices.BUILT_IN))
    compared = set()
    for case in recorded_runs.CASES:
        # In partial messages tokens are also reported call by call: those of the result are not whole.
        if not str(case).startswith(("claude/2", "goose/1.5")) or "partial" in case.name:
            continue
        used: dict[str, list[Usage]] = {}
        for event in translate(case)[1]:
            if isinstance(event, UsageDelta) and event.model:
                used.setdefault(event.model, []).append(event.usage)
        for model, usages in used.items():
            stated_usd = sum(usage.cost_usd or 0 for usage in usages)
            whole = _together(usages)
            if stated_usd and whole.input is not None and whole.input < LONG_PROMPT_TOKENS:
                computed_usd = built_in.cost_usd(model, whole)
                assert computed_usd == pytest.approx(stated_usd), (case, model)
                compared.add(model)

    assert compared >= {"claude-opus-5-5", "claude-haiku-4-5", "claude-sonnet-4-5-20250929", "gpt-4o"}


def _together(usages: list[Usage]) -> Usage:
    classes = ("input", "cache_read", "cache_write", "output", "reasoning")
    reported = {name: [getattr(usage, name) for usage in usages] for name in classes}
    return Usage(
        **{
            name: sum(filter(None, values)) if any(value is not None for value in values) else None
            for name, values in reported.items()
        }
    )


def test_settings_stand_over_a_file_and_a_file_over_what_is_built_in(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[prices]\n"gpt-5.1" = {input = 7, output = 7}\n"mine" = {input = 1, output = 1}\n')
    found = prices.load(settings(tmp_path, '[prices."GPT-5.1"]\noutput = 9\n'), str(file))

    assert found.find("gpt-5.1") == Price(output=9)
    assert found.find("mine") == Price(input=1, output=1)
    assert found.find("claude-opus-5-5") == prices.load(settings(tmp_path)).find("claude-opus-5-5")


def test_the_users_own_file_is_read_when_it_is_there(tmp_path: Path) -> None:
    path = Path(prices.user_path())
    path.parent.mkdir(parents=True)
    path.write_text("[prices.mine]\ninput = 2.5\n")

    assert prices.load(settings(tmp_path)).find("mine") == Price(input=2.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[prices.m]\ninput = -1", "prices.m.input: a price of 0 or more dollars was expected, not -1"),
        ("[prices.m]\ninput = 'x'", "prices.m.input: a price of 0 or more dollars was expected, not 'x'"),
        ("[prices.m]\ninput = nan", "a price of 0 or more dollars was expected"),
        ("[prices.m]\ninput = true", "a price of 0 or more dollars was expected"),
        ("[prices.m]\nlong_from = 150_000", "prices.m.long_from: one of 100000, 128000, 200000, 256000"),
        ("[prices.m]\nthinking = 1", "prices.m: unknown class of tokens: thinking"),
        ("[prices]\nm = 1", "prices.m: a table was expected, not int"),
        ("prices = 1", "prices: a table was expected"),
        ("[prices", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)

    with pytest.raises(BadConfig) as error:
        prices.load(settings(tmp_path), str(file))
    assert str(file) in error.value.message
    assert words in error.value.message


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot be read"):
        prices.load(settings(tmp_path), str(tmp_path / "none.toml"))


def test_a_wrong_price_in_the_settings_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    wrong = settings(tmp_path, '[prices."m"]\ninput = 1\noutput = "much"\n')

    with pytest.raises(BadConfig, match=r"config\.toml:3: prices\.m\.output: a price of 0 or more dollars"):
        prices.load(wrong)


def test_a_length_of_prompts_that_no_bill_tells_apart_is_refused(tmp_path: Path) -> None:
    """It would be a surcharge that is never counted."""
    with pytest.raises(
        BadConfig, match=r"config\.toml:3: prices\.m\.long_from: one of 100000, .* 512000 tokens was expected"
    ):
        prices.load(settings(tmp_path, '[prices."m"]\ninput = 1\nlong_from = 150000\n'))
    allowed = prices.load(
        settings(tmp_path, '[prices."m"]\ninput = 1\nlong_from = 256000.0\nlong_input = 3\n')
    )
    usage = Usage(input=300_000)
    assert allowed.cost_usd("m", usage, Rate(over=prompt_size(usage))) == pytest.approx(0.9)


def test_a_wrong_setting_of_another_kind_does_no_harm(tmp_path: Path) -> None:
    assert prices.load(settings(tmp_path, "log_level = 3\n")).find("gpt-5")
