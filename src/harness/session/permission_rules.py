"""What rules of permission look like in the state of a session, checked where they are set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from harness.errors import UsageError
from harness.session.config import PermissionPolicy, ToolCategory

RULES_KEY = "permissionRules"
KINDS = ("categories", "tools")
POLICIES = get_args(PermissionPolicy)


def check_rules(value: Any) -> None:
    """Raises UsageError for rules that say nothing, or nothing that anybody would keep to."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise _bad_rules(f"not an object but {type(value).__name__}")
    for kind, rules in value.items():
        if kind not in KINDS:
            raise _bad_rules(f"{kind!r} is neither `categories` nor `tools`")
        if not isinstance(rules, Mapping):
            raise _bad_rules(f"{kind}: not an object but {type(rules).__name__}")
        for name, policy in rules.items():
            if kind == "categories" and name not in get_args(ToolCategory):
                raise _bad_rules(f"unknown tool category: {name!r}")
            if policy not in POLICIES:
                raise _bad_rules(f"{kind}.{name}: unknown policy {policy!r}")


def _bad_rules(problem: str) -> UsageError:
    return UsageError(
        f"Invalid state update: {RULES_KEY}: {problem}",
        hint='write {"categories": {"read": "allow"}, "tools": {"bash": "ask"}}; nothing was changed',
    )
