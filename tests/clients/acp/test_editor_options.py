"""What an editor offers for a session: nothing to which the installed version of the agent cannot be held."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.agents.registry import load as load_agent
from harness.clients.acp.options import OptionList
from harness.clients.conversations.backend import Setup
from harness.config import load


def offered(agent: str, option: str, permission_mode: str = "") -> set[str]:
    options = OptionList(load(os.getcwd())).options(
        Setup(agent=agent, cwd=os.getcwd(), permission_mode=permission_mode), 1
    )
    [found] = [one for one in options if one["id"] == option]
    return {one["value"] for one in found["options"]}


@pytest.mark.parametrize(
    ("agent", "version", "permissions", "modes"),
    [
        ("claude", "2.1.325", {"default", "acceptEdits", "readOnly", "fullAuto"}, {"build", "plan"}),
        ("claude", "2.1.74", {"default", "readOnly", "fullAuto"}, {"build", "plan"}),
        ("kimi", "2.1.0", {"default", "readOnly", "fullAuto"}, {"build", "plan"}),
        ("mini-swe-agent", "1.0", {"default", "fullAuto"}, {"build"}),
    ],
)
def test_only_permissions_that_the_installed_version_keeps_are_offered(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    agent: str,
    version: str,
    permissions: set[str],
    modes: set[str],
) -> None:
    program = tmp_path / load_agent(agent).binaries[0]
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    # What a session has already is shown, also where it will be refused.
    assert offered(agent, "permissions") == permissions
    assert offered(agent, "mode") == modes
    assert offered(agent, "permissions", permission_mode="fullAuto") == permissions - (
        set() if version == "2.1.325" else {"default"}
    )
