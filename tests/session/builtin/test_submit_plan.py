"""Plans: handed in, sent back, and approved, which leads to the next mode."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.session.config import Mode
from harness_kit import Model, call, log_of, opened
from running_kit import Gate, Live, check, ends, in_loop, started, texts, waiting

PLAN = call("submit_plan", title="Ship it", plan="1. Build\n2. Ship")
APPROVED = {"action": "approved"}


def modes(**of_plan: str) -> list[Mode]:
    return [
        Mode(id="plan", instructions="Plan.", **of_plan),
        Mode(id="build", instructions="Build.", default_model_id="test/builder"),
        Mode(id="ship", instructions="Ship."),
    ]


@in_loop
async def test_a_plan_that_is_rejected_is_revised_and_handed_in_again() -> None:
    model = Model(PLAN, call("submit_plan", id="c2", plan="1. Test"), "Good.")
    async with opened(model, modes=modes(transitions_to="build")) as (harness, record):
        await harness.send_message(content="plan it")
        [asked] = record.named("tool_suspended")
        assert asked["suspendPayload"] == {"title": "Ship it", "plan": "1. Build\n2. Ship"}
        await harness.respond_to_tool_suspension(
            resume_data={"action": "rejected", "feedback": "no tests"}, tool_call_id=asked["toolCallId"]
        )
        assert "User feedback: no tests" in model.results()[0]
        assert record.named("tool_suspended")[1]["suspendPayload"]["title"] == "Implementation Plan"
        assert ends(record) == ["suspended", "suspended"]
        assert harness.session.mode.get() == "plan"
        assert "mode_changed" not in record.types


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "approve"},
        {"x": 1},
        {},
        "yes",
        "approved",
        True,
        None,
        {"action": "approved", "feedback": 5},
    ],
)
@in_loop
async def test_what_is_no_answer_to_a_plan_decides_nothing(wrong: object) -> None:
    model = Model(PLAN, "Begun.")
    async with opened(model, modes=modes(transitions_to="build")) as (harness, record):
        await harness.send_message(content="plan it")
        with pytest.raises(UsageError, match="Invalid answer: "):
            await harness.respond_to_tool_suspension(resume_data=wrong)
        assert harness.session.suspensions.has_pending()
        assert ends(record) == ["suspended"]
        assert await harness.respond_to_tool_suspension(resume_data=APPROVED)
        assert harness.session.mode.get() == "build"


@pytest.mark.parametrize(
    ("given", "default_mode_id", "target"),
    [
        ({"transitions_to": "ship"}, "build", "ship"),
        ({}, "build", "build"),
        ({}, "", "plan"),
        ({"metadata": {"default": True}}, "ship", "ship"),
    ],
)
@in_loop
async def test_approval_leads_to_the_mode_that_the_rules_say(
    given: dict[str, object], default_mode_id: str, target: str
) -> None:
    model = Model(PLAN, "Begun.")
    chosen = [Mode(id="plan", **given), *modes()[1:]]  # type: ignore[arg-type]
    async with opened(model, modes=chosen, default_mode_id=default_mode_id) as (harness, record):
        if harness.session.mode.get() != "plan":
            await harness.session.mode.switch(mode_id="plan")
        await harness.send_message(content="plan it")
        record.clear()
        assert await harness.respond_to_tool_suspension(resume_data=APPROVED)
        assert harness.session.mode.get() == target
        changed = [(data["modeId"], data["previousModeId"]) for data in record.named("mode_changed")]
        assert changed == ([(target, "plan")] if target != "plan" else [])


@in_loop
async def test_approval_ends_the_run_without_asking_the_model_and_the_next_message_is_in_the_new_mode() -> (
    None
):
    model = Model(PLAN, "Begun.")
    async with opened(model, modes=modes(transitions_to="build")) as (harness, record):
        await harness.send_message(content="plan it")
        record.clear()
        await harness.respond_to_tool_suspension(resume_data=APPROVED)
        assert len(model.asked) == 1
        emitted = [
            name
            for name in record.types
            if name in ("agent_start", "agent_end", "tool_end", "mode_changed", "model_changed")
        ]
        assert emitted == ["agent_start", "tool_end", "agent_end", "mode_changed", "model_changed"]
        assert ends(record) == ["complete"]
        assert harness.session.display_state.get().pending_suspensions == {}
        assert not harness.session.suspensions.has_pending()
        assert not harness.session.run.is_running()
        assert harness.session.model.get() == "test/builder"

        await harness.send_message(content="begin")
        assert model.system() == "Build."
        assert model.results() == ["Plan approved. Carry it out as it was approved."]
        check(harness, log_of(harness))


@in_loop
async def test_what_is_queued_waits_for_the_new_mode() -> None:
    gate = Gate()
    model = Live(call("work"), PLAN | {}, "Built.")
    async with opened(
        model,
        modes=modes(transitions_to="build"),
        tools=[waiting(gate)],
        initial_state={"yolo": True},
    ) as (harness, record):
        first = started(harness.send_message(content="plan it"))
        await gate.come()
        await harness.follow_up(content="begin")
        gate.open()
        await first
        await harness.respond_to_tool_suspension(resume_data=APPROVED)
        assert model.system() == "Build."
        assert model.received() == ["plan it", "begin"]
        assert texts(record)[-1] == "Built."
        assert harness.session.follow_ups.is_empty()


@in_loop
async def test_the_mode_holds_in_another_process(tmp_path: object) -> None:
    from harness.log.stores.files import FileStore

    chosen = modes(transitions_to="build")
    async with opened(Model(PLAN), modes=chosen, storage=FileStore(str(tmp_path))) as (harness, _):
        await harness.send_message(content="plan it")
        await harness.respond_to_tool_suspension(resume_data=APPROVED)
    model = Model("Begun.")
    async with opened(model, modes=chosen, storage=FileStore(str(tmp_path))) as (harness, _):
        await harness.select_or_create_thread()
        assert harness.session.mode.get() == "build"
        await harness.send_message(content="begin")
        assert model.system() == "Build."
