"""The public names of a harness and of a session: what is added must be listed here, and must have a docstring."""

from __future__ import annotations

import inspect
import re

import pytest

from harness.session.harness import Harness
from harness.session.session import Session
from harness.session.session_methods import SessionMethods
from harness_kit import make

SHARED = {
    "abort",
    "compact",
    "display_state",
    "follow_up",
    "goals",
    "permissions",
    "questions",
    "respond_to_tool_approval",
    "respond_to_tool_suspension",
    "save_system_reminder_message",
    "send_message",
    "send_notification_signal",
    "send_signal",
    "state",
    "steer",
    "subscribe",
    "wait_until_idle",
}
OF_A_SESSION = {
    "add_usage",
    "agent",
    "approval",
    "capabilities",
    "cwd",
    "destroy",
    "follow_ups",
    "get_token_usage",
    "identity",
    "internals",
    "load_memory_progress",
    "log",
    "mode",
    "model",
    "om",
    "reset_token_usage",
    "run",
    "set_token_usage",
    "stream",
    "subagents",
    "suspensions",
    "thread",
    "working_directory",
    "workspace",
}
OF_A_HARNESS = {
    "mcp",
    "clone_thread",
    "close_session",
    "create_session",
    "create_thread",
    "destroy",
    "destroy_workspace",
    "detach_from_current_thread",
    "get_current_agent",
    "get_current_model_auth_status",
    "get_current_run_id",
    "get_known_resource_ids",
    "get_observational_memory_record",
    "get_resolved_memory",
    "get_session",
    "get_tool_category",
    "get_workspace",
    "has_workspace",
    "id",
    "init",
    "internals",
    "invalidate_available_models_cache",
    "is_workspace_ready",
    "list_available_models",
    "list_modes",
    "load_om_progress",
    "memory",
    "mode",
    "reconfigure",
    "register_heartbeat",
    "remove_heartbeat",
    "rename_thread",
    "resolve_workspace",
    "select_or_create_thread",
    "services",
    "session",
    "sessions",
    "set_browser",
    "set_resource_id",
    "stop_heartbeats",
    "store",
    "stream",
    "switch_thread",
    "sync",
    "watch",
}


def _public(value: object) -> set[str]:
    """All of them, also those that are not completed (tests/session/test_completion.py)."""
    names = dir(value) if isinstance(value, type) else object.__dir__(value)
    return {name for name in names if not name.startswith("_")}


def test_the_public_names_are_the_listed_ones() -> None:
    harness = make()
    assert _public(harness) == SHARED | OF_A_HARNESS
    assert _public(harness.session) == SHARED | OF_A_SESSION


def test_what_both_offer_is_written_once() -> None:
    assert _public(SessionMethods) == SHARED
    for name in SHARED:
        assert inspect.getattr_static(Harness, name) is inspect.getattr_static(Session, name)


@pytest.mark.parametrize("owner", [Harness, Session], ids=["harness", "session"])
def test_every_public_method_has_a_docstring(owner: type) -> None:
    bare = [name for name in _public(owner) if not inspect.getdoc(inspect.getattr_static(owner, name))]
    assert bare == []


@pytest.mark.parametrize("owner", [Harness, Session], ids=["harness", "session"])
def test_every_public_attribute_is_described_with_its_class(owner: type) -> None:
    harness = make()
    made = vars(harness if owner is Harness else harness.session)
    described = re.findall(r"^    (\w+):", str(inspect.getdoc(owner)), flags=re.MULTILINE)
    assert {name for name in made if not name.startswith("_")} <= {*described}


def test_every_parameter_of_a_harness_is_described() -> None:
    described = re.findall(r"^    (\w+):", str(inspect.getdoc(Harness)), flags=re.MULTILINE)
    parameters = [name for name in inspect.signature(Harness.__init__).parameters if name != "self"]
    assert described[: len(parameters)] == parameters
