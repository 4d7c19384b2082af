"""Scenarios: a script, what the agent is asked, and what must come out. One TOML file of `scenarios/` each.

    title = "reads some lines of a file"
    prompt = "Read lines 10 to 20 of src/app.py."
    turns = [{ call = "read", path = "src/app.py", lines = [10, 20] }, { text = "Read." }]

    [expect]
    texts = ["Read."]
    operations = [{ kind = "read", path = "src/app.py", start_line = 10, end_line = 20 }]

Which calls an agent must offer is in the script; what else it must, follows from the other fields.
"""

from __future__ import annotations

import os
import tomllib
from typing import Any, Literal

import msgspec

from harness.agents.registry import names_with
from harness.contracts.agent import Agent, Version
from harness.contracts.fixture import AgentFixture
from harness.contracts.request import Permissions
from harness.contracts.script import INTENTS, Script, intent_name
from harness.errors import UsageError
from harness.histories.handover.registry import names as handover_names
from harness.histories.registry import names as history_names
from harness.lab.expectations import Expectation
from harness.lab.scripted_person import Person
from harness.models.script_file import Positions, parse_script

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")


class _Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str
    prompt: str
    expect: Expectation
    quick: bool = False
    """Whether `--quick` runs it."""
    timeout_s: float = 120.0
    permissions: Permissions = "full-access"
    max_turns: int | None = None
    resume_prompt: str = ""
    """The prompt of a second run, which resumes the first one's session and is the one that is compared."""
    hand_over_prompt: str = ""
    """What comes of the run is handed over to the agent as a session of its own, which is asked this."""
    reads_store: bool = False
    """What the agent has stored of the run itself is compared with the live log."""
    through_gateway: bool = False
    """It is recorded by a gateway, and what was recorded is played again (`gateway_run`)."""
    fork_at: int | None = None
    """After so many recorded answers a model goes on."""
    stop: Literal["", "interrupt", "terminate"] = ""
    stop_when: str = ""
    """As soon as this file is there."""
    skill: str = ""
    """A skill that the project has."""
    mcp_server: str = ""
    """The name of a server that has one tool, `echo`."""
    person: Person | None = None
    """Makes it a two-way scenario: what the person does in the conversation."""
    lines: tuple[str, ...] = ()
    """Command lines that must be asked about, each by itself and in every mode (`ask_holds_run`)."""
    expect_next: Expectation | None = None
    """Of the second prompt of a two-way scenario."""


class Scenario(_Fields, frozen=True, kw_only=True):
    name: str
    script: Script
    source: dict[str, Any]
    """The script as it was written."""

    @property
    def examines_more(self) -> bool:
        """Whether more is looked at than the events of one run."""
        return bool(self.hand_over_prompt or self.reads_store or self.through_gateway or self.person)

    @property
    def is_about_recovery(self) -> bool:
        """Whether something goes wrong that an agent should get over."""
        turns = [turn for conversation in self.script.conversations.values() for turn in conversation.turns]
        return self.expect.outcome == "completed" and any(turn.faults for turn in turns)

    def not_offered(self, agent: Agent, fixture: AgentFixture, version: Version = ()) -> str:
        """Why this agent cannot run it, in this version if that is known; empty when it can."""
        if self.lines:
            return ""  # each mode is refused by itself
        if self.person is not None and (reason := _cannot(self.person, agent, version)):
            return reason
        parts = [
            part
            for conversation in self.script.conversations.values()
            for turn in conversation.turns
            for part in turn.parts
        ]
        for part in parts:
            if type(part) not in INTENTS.values():
                continue
            if reason := fixture.why_lacking(intent_name(part), version):  # type: ignore[arg-type]
                return reason
        two_way = agent.two_way if self.person is not None else None
        supports = agent.supports if two_way is None or two_way.supports is None else two_way.supports
        if two_way is not None and self.permissions == "ask" and two_way.unasked:
            return f"it does not ask about everything: {two_way.unasked}"
        if self.hand_over_prompt and agent.name not in handover_names():
            return "no conversation can be handed over to it as a session of its own"
        if self.reads_store and agent.name not in history_names():
            return "the sessions that it stores cannot be read"
        if self.through_gateway and agent.name not in names_with("gateway"):
            return "it cannot be pointed at a gateway"
        if self.resume_prompt and "resume" not in supports:
            return "it cannot resume a session"
        if self.person is None and self.permissions not in ("full-access", *agent.supports):
            return f"it has no {self.permissions} mode"
        return ""


def _cannot(person: Person, agent: Agent, version: Version) -> str:
    two_way = agent.two_way
    if two_way is None or (version and version < two_way.since):
        since = "" if two_way is None else f" before version {'.'.join(map(str, two_way.since))}"
        return f"it cannot be held in a conversation{since}"
    lacking = [need for need in person.needs if need not in two_way.capabilities]
    return f"it cannot {_CANNOT[lacking[0]]}" if lacking else ""


_CANNOT = {
    "approve": "be asked before its calls",
    "ask": "ask the person",
    "plan": "have its plan approved",
    "steer": "take a message in the middle of a turn",
}


def scenario_names() -> list[str]:
    return sorted(name.removesuffix(".toml") for name in os.listdir(FOLDER) if name.endswith(".toml"))


def load_scenario(name: str) -> Scenario:
    """Raises UsageError."""
    if name not in scenario_names():
        names = ", ".join(scenario_names())
        raise UsageError(f"there is no scenario {name!r}", hint=f"expected one of: {names}")
    return read_scenario(os.path.join(FOLDER, f"{name}.toml"))


def read_scenario(path: str) -> Scenario:
    """Raises UsageError: which file, which line, what is wrong."""
    file_name = os.path.basename(path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{file_name}: not TOML: {error}", hint="see docs/doctor.md and docs/scripts.md"
        ) from None
    own = {field.name for field in msgspec.structs.fields(_Fields)}
    source = {name: value for name, value in data.items() if name not in own}
    try:
        fields = msgspec.convert({name: data[name] for name in own & data.keys()}, _Fields)
    except msgspec.ValidationError as error:
        line = Positions(text).line(_path_in(str(error)))
        raise UsageError(
            f"{file_name}:{line}: {error}", hint="see docs/doctor.md and docs/scripts.md"
        ) from None
    return Scenario(
        **{name: getattr(fields, name) for name in own},
        name=file_name.removesuffix(".toml"),
        script=parse_script(source, file_name, text),
        source=source,
    )


def _path_in(reason: str) -> tuple[str | int, ...]:
    """`Expected … - at `$.expect.operations[0].kind`` → the steps to it."""
    _, separator, path = reason.rpartition(" - at `$")
    steps = path.rstrip("`").replace("[", ".").replace("]", "").split(".") if separator else []
    return tuple(int(step) if step.isdigit() else step for step in steps if step)
