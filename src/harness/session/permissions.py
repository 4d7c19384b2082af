"""May this tool be called? The rules of a session, in the one order that counts.

1. a tool that is denied by name is denied, whatever else is set;
2. `yolo` in the state allows everything else;
3. a rule for the tool by name (`allow`, `ask`);
4. a grant for the tool, or for calls like this one, until the session ends;
5. for its category, if it has one: a grant, then a rule;
6. tools of the harness itself that only concern the conversation are allowed; everything else is asked about.

What a tool is (its category, and whether it is the harness's own) is decided by where it comes from, never by
its name; only the application's `tool_category_resolver` goes by names. Sub-agents follow the same rules.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast, get_args

import msgspec

from harness.approvals.globs import escaped
from harness.approvals.rules import Rule
from harness.errors import UsageError
from harness.events import Operation
from harness.session.builtin.ask_user import AskUserTool
from harness.session.builtin.notification_inbox import NotificationInboxTool
from harness.session.builtin.submit_plan import SubmitPlanTool
from harness.session.builtin.tasks import TaskTool
from harness.session.config import BUILTIN_TOOLS, PermissionPolicy, ToolCategory
from harness.session.memory.recall import RecallTool
from harness.session.state import KINDS, POLICIES, RULES_KEY, SessionState
from harness.sources.loop.approval_choices import label_of
from harness.sources.loop.permissions import PermissionVerdict, matches_any
from harness.sources.tool import Renamed, Tool, ToolOutput, ToolPermission, category_of

CategoryResolver = Callable[[str], ToolCategory | None]

_logger = logging.getLogger("harness.session")
NOT_APPROVED = "Tool call was not approved by the user"
_SUBAGENT = "subagent"
_NEVER_ASKED = (AskUserTool, SubmitPlanTool, TaskTool, NotificationInboxTool, RecallTool)
"""The harness's own tools that only concern the conversation."""


_CALLED: dict[str, tuple[str, ...]] = {"other": ("network", "unknown")}
"""Categories of a session → those of a call."""


class ToolClass(NamedTuple):
    """What the rules know about a tool besides its name."""

    category: ToolCategory | None = None
    is_own: bool = False
    """A tool of the harness that only concerns the conversation: it needs no approval."""


_USUAL: dict[str, ToolClass] = {
    **dict.fromkeys(("read", "grep", "glob", "list", "skill", "fetch", "bash_output"), ToolClass("read")),
    **dict.fromkeys(("write", "edit", "apply_patch", "agent"), ToolClass("edit")),
    "bash": ToolClass("execute"),
    **dict.fromkeys((*BUILTIN_TOOLS, "recall", "notification-inbox"), ToolClass(is_own=True)),
    _SUBAGENT: ToolClass("edit"),
}
"""The classes of built-in tools by name, used before any run has listed its tools."""


class SessionGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A permission that holds without asking until it is revoked or the session ends."""

    id: str
    label: str
    """What it allows, as text for the user."""
    tool: str = ""
    params: dict[str, str] | None = None
    closed: bool = False
    category: str = ""
    """Instead of a tool: everything of this category."""
    rule: Rule | None = None
    """What is allowed to an agent program, where tool and arguments do not say all of it."""


def declined(reason: str) -> ToolOutput:
    """The result that the model sees for a call that was not allowed: not an error; the run continues."""
    return ToolOutput(text=NOT_APPROVED if reason in ("", NOT_APPROVED) else f"{NOT_APPROVED}: {reason}")


def check_resolver(resolver: CategoryResolver | None) -> None:
    """Raises UsageError for a resolver that is not a plain function."""
    if resolver is None:
        return
    if not callable(resolver):
        raise UsageError("tool_category_resolver is no function", hint="it takes a tool's name")
    called = getattr(resolver, "__call__", None)  # noqa: B004 # also for a callable object
    if inspect.iscoroutinefunction(resolver) or inspect.iscoroutinefunction(called):
        raise UsageError(
            "tool_category_resolver is async",
            hint="give a plain function: a call waits for nothing but a person",
        )


class SessionPermissions:
    """`session.permissions`: rules, which are stored with the state, and grants, which end with the session."""

    def __init__(self, state: SessionState, category_of: CategoryResolver | None) -> None:
        self._state = state
        self._category_of = category_of
        self._known: dict[str, ToolClass] = {}
        """The tools of the latest run, by name."""
        self._grants: dict[str, SessionGrant] = {}
        self._given = 0
        self.on_grants: Callable[[], object] = lambda: None
        """Called when something is granted or revoked."""

    def get_rules(self) -> dict[str, dict[str, PermissionPolicy]]:
        """The rules: `categories` and `tools`, each from a name to `allow`, `ask` or `deny`."""
        return {kind: self._rules(kind) for kind in KINDS}

    async def set_for_category(self, *, category: ToolCategory, policy: PermissionPolicy) -> None:
        """Set the rule for all tools of a category. Raises UsageError for an unknown one."""
        if category not in get_args(ToolCategory):  # a misspelt name would protect nothing
            known = ", ".join(get_args(ToolCategory))
            raise UsageError(f"unknown tool category: {category!r}", hint=f"one of {known}")
        await self._set("categories", category, policy)

    async def set_for_tool(self, *, tool_name: str, policy: PermissionPolicy) -> None:
        """Set the rule for a tool; it takes precedence over that of its category."""
        await self._set("tools", tool_name, policy)

    def category(self, tool_name: str) -> ToolCategory | None:
        """The category of the tool that currently has that name."""
        return self.standing(tool_name, None).category

    # Grants

    def grant_category(self, category: str) -> None:
        """Allow all tools of a category until the session ends."""
        self._give(label=f"everything of the category {category}", category=category)

    def grant_tool(self, tool_name: str) -> None:
        """Allow all calls of a tool until the session ends."""
        self.grant(ToolPermission(tool_name))

    def grant(self, permission: ToolPermission) -> None:
        """Grant exactly what "always" was answered to. The loop calls this too."""
        self._give(
            label=label_of(permission),
            tool=permission.tool,
            params=permission.params,
            closed=permission.closed,
        )

    def grant_rules(self, rules: Sequence[Rule], label: str) -> None:
        """Grant what "always" was answered to a program."""
        for rule in rules:
            self._give(label=label, rule=rule)

    @property
    def allows_all(self) -> bool:
        """Whether everything is allowed that no rule denies."""
        return self._state.peek("yolo") is True

    def as_rules(self) -> list[Rule]:
        """Rules and grants, as calls of an agent program are decided by them."""
        found = [
            Rule(answer=policy, tool=escaped(name), source="session")
            for name, policy in self._rules("tools").items()
        ]
        for name, policy in self._rules("categories").items():
            found += [
                Rule(answer=policy, category=each, source="session") for each in _CALLED.get(name, (name,))
            ]
        for one in self._grants.values():
            if one.rule is not None:
                found.append(one.rule)
            elif one.category:
                found += [
                    Rule(answer="allow", category=each, source="grant")
                    for each in _CALLED.get(one.category, (one.category,))
                ]
            else:
                found.append(
                    Rule(
                        answer="allow",
                        tool=escaped(one.tool),
                        params=one.params,
                        closed=one.closed,
                        source="grant",
                    )
                )
        return found

    def has_category_grant(self, category: str) -> bool:
        """Whether all tools of a category were allowed."""
        return any(one.category == category for one in self._grants.values())

    def has_tool_grant(self, tool_name: str) -> bool:
        """Whether all calls of a tool were allowed."""
        return tool_name in self.get_grants()["tools"]

    def get_grants(self) -> dict[str, list[str]]:
        """Categories and tools that are granted as a whole; `list_grants` includes narrower grants."""
        grants = self._grants.values()
        whole = (one.tool for one in grants if one.tool and one.params is None and not one.closed)
        return {
            "categories": sorted(one.category for one in grants if one.category),
            "tools": sorted(whole),
        }

    def list_grants(self) -> list[SessionGrant]:
        """All grants, oldest first."""
        return list(self._grants.values())

    def revoke_grant(self, *, grant_id: str) -> bool:
        """Ask again from now on. Returns False when there is no such grant."""
        is_known = self._grants.pop(grant_id, None) is not None
        self.on_grants()
        return is_known

    def revoke_grants(self) -> None:
        """Withdraw everything that was granted."""
        self._grants.clear()
        self.on_grants()

    # Decisions

    def is_denied(self, tool_name: str) -> bool:
        """Whether the tool is denied by name. Such a tool is not shown to the model."""
        return self._rule("tools", tool_name) == "deny"

    def resolve(self, tool_name: str) -> PermissionPolicy:
        """The decision for the tool of that name, regardless of arguments."""
        return self.decide(tool_name, self.standing(tool_name, None), None)

    def decide(
        self, tool_name: str, standing: ToolClass, asked: tuple[Mapping[str, Any], Sequence[Operation]] | None
    ) -> PermissionPolicy:
        """Decide in the order above. `asked`: arguments and operations of the call; None: any call."""
        rule = self._rule("tools", tool_name)
        if rule == "deny":
            return "deny"
        if self._state.peek("yolo") is True:
            return "allow"
        if rule is not None:
            return rule
        if self._is_granted(tool_name, asked):
            return "allow"
        category = standing.category
        if category is not None:
            if self.has_category_grant(category):
                return "allow"
            if (by_category := self._rule("categories", category)) is not None:
                return by_category
        return "allow" if standing.is_own else "ask"

    def standing(self, tool_name: str, tool: Tool | None) -> ToolClass:
        """The class of a tool. `tool` None: the one of that name in the latest run, or the built-in one."""
        if tool is None:
            found = self._known.get(tool_name) or _USUAL.get(tool_name, ToolClass())
        else:
            intrinsic = category_of(tool)
            known = intrinsic if intrinsic in get_args(ToolCategory) else None
            meant = tool.tool if isinstance(tool, Renamed) else tool
            found = ToolClass(cast("ToolCategory | None", known), isinstance(meant, _NEVER_ASKED))
        if self._category_of is None:
            return found
        return found._replace(category=self._by_name(self._category_of, tool_name))

    def of(
        self,
        tools: Iterable[Tool],
        *,
        is_main: bool = False,
        more: Callable[[], Iterable[Tool]] = tuple,
    ) -> ToolRules:
        """The rules for a run that has these tools. `is_main`: from now on, lookups by name find these.
        `more`: returns tools that were added since.
        """
        rules = ToolRules(self, tools, more)
        if is_main:
            self._known = rules.standings()
        return rules

    def verdict(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> PermissionVerdict:
        """For a caller without tools of its own: judges the tool that currently has that name."""
        del call_id
        return self.verdict_on(tool, self.standing(tool, None), arguments, operations)

    def verdict_on(
        self, tool: str, standing: ToolClass, arguments: Mapping[str, Any], operations: Sequence[Operation]
    ) -> PermissionVerdict:
        """Decide one call of a tool of this class, with the reason for a denial."""
        decision = self.decide(tool, standing, (arguments, operations))
        reason = f"{tool} is denied by the rules of this session" if decision == "deny" else ""
        return PermissionVerdict(decision, reason, standing.category or "")

    def denial(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> str | None:
        """For the loop, right before execution: a denial by name overrides every earlier approval."""
        del arguments, operations, call_id
        return f"{tool} is denied by the rules of this session" if self.is_denied(tool) else None

    def _is_granted(
        self, tool_name: str, asked: tuple[Mapping[str, Any], Sequence[Operation]] | None
    ) -> bool:
        if asked is None:
            return self.has_tool_grant(tool_name)
        grants = [
            ToolPermission(one.tool, one.params, one.closed)
            for one in self._grants.values()
            if one.tool == tool_name
        ]
        return bool(grants) and matches_any(grants, tool_name, *asked)

    def _give(self, **grant: Any) -> None:
        for one in self._grants.values():
            if all(getattr(one, name) == value for name, value in grant.items()):
                return
        self._given += 1
        id = f"grant-{self._given}"
        self._grants[id] = SessionGrant(id=id, **grant)
        self.on_grants()

    @staticmethod
    def _by_name(resolver: CategoryResolver, tool_name: str) -> ToolCategory | None:
        """The category from the application's resolver. An invalid one counts as none: the user is asked."""
        try:
            found: Any = resolver(tool_name)
        except Exception:
            _logger.exception("tool_category_resolver failed on %s", tool_name)
            return None
        if inspect.iscoroutine(found):
            found.close()
        if found is None or found in get_args(ToolCategory):
            return cast("ToolCategory | None", found)
        _logger.warning("tool_category_resolver gives no category for %s: %r", tool_name, found)
        return None

    def _rules(self, kind: str) -> dict[str, PermissionPolicy]:
        """The stored rules of a kind. Invalid entries are ignored, so the user is asked."""
        rules = self._state.peek(RULES_KEY)
        found = rules.get(kind) if isinstance(rules, Mapping) else None
        if not isinstance(found, Mapping):
            return {}
        return {str(name): policy for name, policy in found.items() if policy in POLICIES}

    def _rule(self, kind: str, name: str) -> PermissionPolicy | None:
        return self._rules(kind).get(name)

    async def _set(self, kind: str, name: str, policy: PermissionPolicy) -> None:
        if policy not in POLICIES:
            raise UsageError(f"unknown permission policy: {policy!r}", hint="allow, ask or deny")
        rules: dict[str, Any] = self.get_rules()
        rules[kind] = {**rules[kind], name: policy}
        await self._state.set({RULES_KEY: rules})


class ToolRules:
    """The rules of a session for the tools of one run. Contract: that of `PermissionPolicy`."""

    def __init__(
        self, rules: SessionPermissions, tools: Iterable[Tool], more: Callable[[], Iterable[Tool]] = tuple
    ) -> None:
        self._rules = rules
        self._more = more
        self._tools = {tool.spec.name: tool for tool in tools}

    def standings(self) -> dict[str, ToolClass]:
        """The classes of the tools, by name."""
        return {name: self._standing(name) for name in self._tools}

    def verdict(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> PermissionVerdict:
        """Decide one call by the rules of the session."""
        del call_id
        return self._rules.verdict_on(tool, self._standing(tool), arguments, operations)

    def denial(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> str | None:
        """Why a call must not run, asked right before it does; None when nothing forbids it."""
        return self._rules.denial(tool, arguments, operations, call_id)

    def grant(self, permission: ToolPermission) -> None:
        """Allow such calls until the session ends."""
        self._rules.grant(permission)

    def _standing(self, name: str) -> ToolClass:
        tool = self._tools.get(name) or next((one for one in self._more() if one.spec.name == name), None)
        return ToolClass() if tool is None else self._rules.standing(name, tool)
