"""What was done to Claude Code in a recording, as calls of its driver."""

from __future__ import annotations

import os
from typing import Any

from harness.agents.claude.driver import ClaudeControl
from harness.contracts.driver import Driver, Moves, Prompt
from harness.contracts.request import Permissions, Request
from harness.events import RelayReply
from recorded_peer import TWO_WAY, Played, play, read_recording

FOLDER = os.path.join(TWO_WAY, "claude", "2.1.325")
SCENARIOS = sorted(name.removesuffix(".jsonl.gz") for name in os.listdir(FOLDER))
_NOT_OURS = frozenset({"get_context_usage", "get_session_cost", "list_models", "cancel_async_message"})
"""Requests that were recorded, and that the driver has no use for."""


def recorded(scenario: str) -> str:
    return os.path.join(FOLDER, f"{scenario}.jsonl.gz")


def new_driver(permissions: Permissions = "agent-default") -> ClaudeControl:
    return ClaudeControl(Request(agent="claude", permissions=permissions), "line")


def played(scenario: str, driver: Driver | None = None) -> Played:
    return play(driver or new_driver(), read_recording(recorded(scenario)), act, normal=normal)


def act(driver: Driver, record: Any) -> Moves | None:
    match record.get("type"):
        case "user":
            prompt = Prompt(id=record.get("uuid", ""), text=record["message"]["content"][0]["text"])
            # Where a message in the middle of a turn mattered, it was recorded with an id.
            return driver.steer(prompt) if driver.is_busy and prompt.id else driver.prompt(prompt)
        case "control_response":
            response = record["response"]
            relay_id = next(
                name for name, native in driver.open.items() if native["request_id"] == response["request_id"]
            )
            return driver.answer(_reply(relay_id, response["response"]))
        case "control_request":
            return _requested(driver, record["request"])
    raise AssertionError(record)


def _reply(relay_id: str, decision: Any) -> RelayReply:
    return RelayReply(
        id=relay_id,
        approved=decision["behavior"] == "allow",
        reason=decision.get("message", ""),
        answer=decision.get("updatedInput", {}).get("answers"),
    )


def _requested(driver: Driver, request: Any) -> Moves | None:
    match request["subtype"]:
        case "initialize":
            return driver.begin()
        case "interrupt":
            return driver.interrupt()
        case "set_model":
            return driver.configure(model=request["model"])
        case "set_permission_mode":
            return driver.configure(mode=request["mode"])
    return None


def normal(record: Any) -> Any:
    """Recorded prompts have an id only where the scenario needed it, and interrupts did not always clear the queue."""
    match record.get("type"):
        case "user":
            return {key: value for key, value in record.items() if key != "uuid"}
        case "control_request" if record["request"]["subtype"] in _NOT_OURS:
            return None
        case "control_request" if record["request"]["subtype"] == "interrupt":
            return {**record, "request": {"subtype": "interrupt"}}
        case "control_response":
            decision = {**record["response"]["response"]}
            for never_sent in ("updatedPermissions", "interrupt"):
                decision.pop(never_sent, None)
            return {**record, "response": {**record["response"], "response": decision}}
    return record
