"""End to end: a session whose work a real agent program does, answered by the lab."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.lab import OfflineAgent, parse_script
from harness.log.stores.files import FileStore
from harness.runs.audit import check as audit
from harness.session.config import CommandAgent, Mode
from harness_kit import Model, log_of, opened
from lacking import lacking
from running_kit import NO_MODEL, check, ends, in_loop, started, texts

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

import lab_agents

pytestmark = pytest.mark.timeout(lab_agents.INSTALL_S + 60)


@pytest.fixture(scope="session")
def pi() -> str:
    try:
        return lab_agents.pi()[0]
    except lab_agents.NotThere as reason:
        pytest.skip(lacking("real Pi", str(reason)))


SCRIPT = {
    "turns": [
        [{"text": "Looking."}, {"call": "run", "command": "echo hi"}],
        {"text": "I will remember."},
        {"text": "It was a banana."},
        {"call": "run", "command": "sleep 60"},
    ]
}


def modes(offline: OfflineAgent, program: str) -> list[Mode]:
    """Of the program that the lab answers, and of our own."""
    request = offline.request("", binary=program)
    agent = CommandAgent(
        name="pi",
        binary=program,
        env=request.env,
        extra_args=request.extra_args,
        permissions=request.permissions,
    )
    return [Mode(id="pi", agent=agent, default_model_id=request.model), Mode(id="own", default_model_id="m")]


@in_loop
async def test_a_real_program_works_in_a_thread_continues_and_is_stopped(pi: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    store, model = FileStore(str(tmp_path / "data")), Model("A banana, I read.")
    offline = OfflineAgent(parse_script(SCRIPT), "pi", home=str(tmp_path / "home"), cwd=str(folder))
    options: dict[str, Any] = {"storage": store, "cwd": str(folder), "initial_state": NO_MODEL}
    with offline:
        async with opened(model, modes=modes(offline, pi), **options) as (harness, record):
            await harness.send_message(content="remember the banana")
            assert ends(record) == ["complete"]
            assert [data["toolName"] for data in record.named("tool_start")] == ["bash"]
            assert "hi" in str(record.named("tool_end")[0]["result"])
            await harness.send_message(content="what was it?")
            assert texts(record)[-1] == "It was a banana."
            # The lab continues in its script only for a session that continues.
            assert [entry.turn for entry in offline.server.requests] == [0, 1, 2]

            record.clear()
            third = started(harness.send_message(content="sleep"))
            await record.until(lambda: record.named("tool_start"), timeout_s=30)
            harness.abort()
            await third
            assert ends(record) == ["aborted"]

            await harness.session.mode.switch(mode_id="own")
            await harness.send_message(content="what was it?")
            assert "It was a banana." in str(model.asked[-1][0])
            check(harness, log_of(harness))
            thread_id = harness.session.thread.require_id()
    assert audit(store, thread_id).problems == []
