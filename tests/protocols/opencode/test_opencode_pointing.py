"""The settings that point OpenCode and Kilo Code at the gateway, beside those of the user."""

from __future__ import annotations

import json

import pytest

from harness.agents.kilo.gateway import POINTING as KILO
from harness.agents.opencode.gateway import POINTING as OPENCODE
from harness.contracts.pointing import Pointing


@pytest.mark.parametrize("pointing", [OPENCODE, KILO])
def test_a_list_of_providers_of_the_user_does_not_leave_out_the_gateway(pointing: Pointing) -> None:
    """`enabled_providers` of the user's settings has others: "Unexpected server error" before anything was asked."""
    [content] = pointing.env.values()
    settings = json.loads(content)
    [provider] = settings["provider"]
    assert settings["enabled_providers"] == [provider]
    assert settings["disabled_providers"] == []
    assert {settings["model"], settings["small_model"]} == {f"{provider}/{{model}}"} == {pointing.model}
