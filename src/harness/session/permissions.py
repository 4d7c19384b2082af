"""May this tool be called? The rules of a session, in the one order that counts.

1. a tool that is denied by name is denied, whatever else is set;
2. `yolo` in the state allows everything else;
3. what is said of the tool by name (`allow`, `ask`);
4. a grant for the tool, for as long as the session lives;
5. of its category, if it has one: a grant, then what is said of it;
6. tools of the harness itself are allowed, everything else is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from harness.errors import UsageError
from harness.events import Operation
from harness.session.config import BUILTIN_TOOLS, PermissionPolicy, ToolCategory
from harness.session.state import SessionState
from harness.sources.loops.permissions import Verdict
from harness.sources.tool import ToolOutput, ToolPermission

CategoryResolver = Callable[[str], ToolCategory | None]

RULES_KEY = "permissionRules"
NOT_APPROVED = "Tool call was not approved by the user"
_POLICIES = ("allow", "ask", "deny")
_CATEGORIES: dict[str, ToolCategory] = {
    **dict.fromkeys(("read", "grep", "glob", "list", "skill", "fetch"), "read"),
    **dict.fromkeys(("write", "edit", "apply_patch"), "edit"),
    "bash": "execute",
}


def own_category(tool_name: str) -> ToolCategory | None:
    """Of the tools that come with Harness; None for everybody else's."""
    if tool_name.startswith("mcp__"):
        return "mcp"
    return _CATEGORIES.get(tool_name)


def declined(reason: str) -> ToolOutput:
    """What the model reads of a call that was not allowed: no error, and the run goes on."""
    return ToolOutput(text=NOT_APPROVED if reason in ("", NOT_APPROVED) else f"{NOT_APPROVED}: {reason}")


class SessionPermissions:
    """Rules (kept in the state) and grants (kept nowhere)."""

    def __init__(self, state: SessionState, category_of: CategoryResolver | None) -> None:
        self._state = state
        self._category_of = category_of or own_category
        self._granted_categories: set[str] = set()
        self._granted_tools: set[str] = set()

    def get_rules(self) -> dict[str, dict[str, PermissionPolicy]]:
        rules = self._state.peek(RULES_KEY) or {}
        return {"categories": dict(rules.get("categories", {})), "tools": dict(rules.get("tools", {}))}

    async def set_for_category(self, *, category: ToolCategory, policy: PermissionPolicy) -> None:
        if category not in get_args(ToolCategory):  # else a slip of the pen would protect nothing
            known = ", ".join(get_args(ToolCategory))
            raise UsageError(f"unknown tool category: {category!r}", hint=f"one of {known}")
        await self._set("categories", category, policy)

    async def set_for_tool(self, *, tool_name: str, policy: PermissionPolicy) -> None:
        await self._set("tools", tool_name, policy)

    def category(self, tool_name: str) -> ToolCategory | None:
        return self._category_of(tool_name)

    def grant_category(self, category: str) -> None:
        self._granted_categories.add(category)

    def grant_tool(self, tool_name: str) -> None:
        self._granted_tools.add(tool_name)

    def has_category_grant(self, category: str) -> bool:
        return category in self._granted_categories

    def has_tool_grant(self, tool_name: str) -> bool:
        return tool_name in self._granted_tools

    def get_grants(self) -> dict[str, list[str]]:
        return {"categories": sorted(self._granted_categories), "tools": sorted(self._granted_tools)}

    def is_denied(self, tool_name: str) -> bool:
        """By its own name: such a tool is not even shown to the model."""
        return self._rule("tools", tool_name) == "deny"

    def resolve(self, tool_name: str) -> PermissionPolicy:
        """The decision for a tool, in the order above."""
        rule = self._rule("tools", tool_name)
        if rule == "deny":
            return "deny"
        if self._state.peek("yolo") is True:
            return "allow"
        if rule is not None:
            return rule
        if tool_name in self._granted_tools:
            return "allow"
        category = self.category(tool_name)
        if category is not None:
            if category in self._granted_categories:
                return "allow"
            if (by_category := self._rule("categories", category)) is not None:
                return by_category
        return "allow" if tool_name in BUILTIN_TOOLS else "ask"

    def verdict(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> Verdict:
        """For the loop: the same decision, asked before every execution."""
        del arguments, operations, call_id
        decision = self.resolve(tool)
        return (
            Verdict(decision, f"{tool} is denied by the rules of this session")
            if decision == "deny"
            else Verdict(decision)
        )

    def denial(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> str | None:
        """For the loop, right before an execution: nothing that was said before beats a denial by name."""
        del arguments, operations, call_id
        return f"{tool} is denied by the rules of this session" if self.is_denied(tool) else None

    def grant(self, permission: ToolPermission) -> None:
        """For the loop: "always" said to one call means its tool, here."""
        self.grant_tool(permission.tool)

    def _rule(self, kind: str, name: str) -> PermissionPolicy | None:
        rules = self._state.peek(RULES_KEY)
        return rules.get(kind, {}).get(name) if rules else None

    async def _set(self, kind: str, name: str, policy: PermissionPolicy) -> None:
        if policy not in _POLICIES:
            raise UsageError(f"unknown permission policy: {policy!r}", hint="allow, ask or deny")
        rules: dict[str, Any] = self.get_rules()
        rules[kind] = {**rules[kind], name: policy}
        await self._state.set({RULES_KEY: rules})
