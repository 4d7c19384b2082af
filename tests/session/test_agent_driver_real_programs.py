"""End to end: real agent programs, answered by the lab, continue with what was said and decided without them."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.events import Briefed
from harness.lab import OfflineAgent, parse_script
from harness.log.stores.files import FileStore
from harness.runs.audit import check as audit
from harness.session.config import CommandAgent, Mode
from harness_kit import Model, call, log_of, opened
from lacking import lacking
from running_kit import NO_MODEL, check, ends, in_loop, texts

pytestmark = pytest.mark.timeout(180)

PLAN = call("submit_plan", title="The stripes", plan="1. Write stripes.txt\n2. Say that it is done")


class Stage:
    """One agent program, and the scripted model that it asks."""

    def __init__(self, name: str, folder: Path, *answers: str) -> None:
        program = shutil.which(name)
        if program is None:
            pytest.skip(lacking("real agent", name))
        cwd = folder / "project"
        cwd.mkdir(exist_ok=True)
        # A session that was handed over has answers already: they are not counted.
        script = parse_script({"turns": [{"text": answer} for answer in answers], "order": "arrival"})
        self.offline = OfflineAgent(script, name, home=str(folder / f"{name}-home"), cwd=str(cwd))
        request = self.offline.request("", binary=program)
        self.model = request.model
        self.agent = CommandAgent(
            name=name,
            binary=program,
            env=request.env,
            extra_args=request.extra_args,
            permissions=request.permissions,
        )

    @property
    def asked(self) -> list[str]:
        """What the model was asked, each time, as text."""
        return [json.dumps(one.body) for one in self.offline.server.requests if one.method == "POST"]


@in_loop
async def test_a_plan_of_our_own_agent_is_known_to_a_real_claude_code_and_back(tmp_path: Path) -> None:
    stage = Stage("claude", tmp_path, "I begin with the stripes.", "I remember the spots.")
    modes = [
        Mode(id="plan", transitions_to="build", default_model_id="test/model"),
        Mode(id="build", agent=stage.agent, default_model_id=stage.model),
    ]
    store, model = FileStore(str(tmp_path / "data")), Model(PLAN, "Spots are better.")
    options = {"storage": store, "cwd": str(tmp_path / "project"), "initial_state": NO_MODEL}
    with stage.offline:
        async with opened(model, modes=modes, **options) as (harness, record):
            await harness.send_message(content="Make a ZEBRA of it.")
            await harness.respond_to_tool_suspension(resume_data={"action": "approved"})
            await harness.send_message(content="Begin.")
            assert texts(record)[-1] == "I begin with the stripes."
            request = stage.asked[-1]
            for words in ("Make a ZEBRA of it.", "1. Write stripes.txt", "Begin."):
                assert words in request
            [handed] = [event for event in log_of(harness) if isinstance(event, Briefed)]
            assert (handed.form, handed.agent) == ("native", "claude")
            assert handed.files

            await harness.session.mode.switch(mode_id="plan")
            await harness.send_message(content="Would a LEOPARD be better?")
            assert model.received() == ["Make a ZEBRA of it.", "Begin.", "Would a LEOPARD be better?"]
            await harness.session.mode.switch(mode_id="build")
            await harness.send_message(content="Then do that.")
            request = stage.asked[-1]
            for words in ("LEOPARD", "Spots are better.", "Then do that."):
                assert words in request
            assert request.count("1. Write stripes.txt") == 1
            assert ends(record)[-3:] == ["complete"] * 3
            check(harness, log_of(harness))
            thread_id = harness.session.thread.require_id()
    assert audit(store, thread_id).problems == []


@in_loop
async def test_a_real_codex_knows_what_a_real_claude_code_did_and_the_other_way_round(tmp_path: Path) -> None:
    claude = Stage("claude", tmp_path, "A tiger it is.", "Stripes it has.")
    codex = Stage("codex", tmp_path, "I painted the tiger.")
    modes = [
        Mode(id="one", agent=claude.agent, default_model_id=claude.model),
        Mode(id="two", agent=codex.agent, default_model_id=codex.model),
    ]
    options = {"cwd": str(tmp_path / "project"), "initial_state": NO_MODEL}
    with ExitStack() as stack:
        stack.enter_context(claude.offline)
        stack.enter_context(codex.offline)
        async with opened(modes=modes, **options) as (harness, record):
            await harness.send_message(content="Choose an ANIMAL.")
            await harness.session.mode.switch(mode_id="two")
            await harness.send_message(content="Paint it.")
            for words in ("Choose an ANIMAL.", "A tiger it is.", "Paint it."):
                assert words in codex.asked[-1]
            await harness.session.mode.switch(mode_id="one")
            await harness.send_message(content="What has it?")
            for words in ("I painted the tiger.", "Paint it.", "What has it?"):
                assert words in claude.asked[-1]
            assert ends(record) == ["complete"] * 3
