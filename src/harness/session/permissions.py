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
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast, get_args

import msgspec
from msgspec.structs import replace

from harness.approvals.call import FULL_ACCESS, AccessMode, Answer, Category, ProposedCall
from harness.approvals.decide import decide, denial_of
from harness.approvals.free_commands import free_programs
from harness.approvals.globs import escaped, literal
from harness.approvals.grants import words_of
from harness.approvals.rules import Rule
from harness.approvals.work_folder import WorkFolder
from harness.contracts.request import OWN_AGENT
from harness.contracts.tool import (
    Renamed,
    Tool,
    ToolOutput,
    ToolPermission,
    category_of,
)
from harness.errors import UsageError
from harness.native.loop.tool_messages import SAID_NO
from harness.questions.choices import label_of
from harness.questions.permissions import PermissionVerdict, rule_of, stated_call, verdict_of
from harness.runs.agent_rules import of_agent, rules_in
from harness.session.builtin.ask_user import AskUserTool
from harness.session.builtin.notification_inbox import NotificationInboxTool
from harness.session.builtin.submit_plan import SubmitPlanTool
from harness.session.builtin.tasks import TaskTool
from harness.session.config import BUILTIN_TOOLS, PermissionAnswer, ToolCategory
from harness.session.memory.recall import RecallTool
from harness.session.outputs import FinalAnswerTool
from harness.session.public_side import public
from harness.session.state import KINDS, POLICIES, RULES_KEY, SessionState

CategoryResolver = Callable[[str], ToolCategory | None]

_logger = logging.getLogger("harness.session")
NOT_APPROVED = "Tool call was not approved by the user"
_SUBAGENT = "subagent"
_NEVER_ASKED = frozenset(
    (AskUserTool, SubmitPlanTool, TaskTool, NotificationInboxTool, RecallTool, FinalAnswerTool)
)
"""The harness's own tools that only concern the conversation."""
_CATEGORIES: tuple[str, ...] = get_args(ToolCategory)


class ToolClass(NamedTuple):
    """What the rules know about a tool besides its name."""

    category: ToolCategory | None = None
    is_own: bool = False
    """A tool of the harness that only concerns the conversation: it needs no approval."""
    is_confined: bool = True
    """It keeps to the workspace by itself, as the built-in tools do, or names no paths."""
    is_built_in: bool = False
    """How it starts a command is known, so that one which is proved to read only is free."""


_BUILT_IN = "harness.native.tools."
_OF_APPLICATIONS = "harness.native.tools.function_tool"
"""Functions of an application are tools by this module: what they open, nobody here knows."""
_WEIGHT: dict[str, int] = {
    name: weight
    for weight, names in enumerate(
        (("own",), ("read",), ("network", "other"), ("mcp",), ("edit",), ("execute",), ("unknown",))
    )
    for name in names
}
"""What a tool is said to be may be stronger than what a call does, and the other way round: the stronger counts."""


def _classed(call: ProposedCall, standing: ToolClass) -> ProposedCall:
    """A call with what the rules know about its tool."""
    if standing.is_own:
        return ProposedCall(tool=call.tool, category="own", input=call.input)
    category = cast("Category | None", standing.category)
    if category is not None and call.category == "unknown":  # it does not say what it does
        return stated_call(call, category)
    if category is not None and _WEIGHT[category] > _WEIGHT[call.category]:
        return replace(call, category=category, is_confined=True)
    return call if standing.is_confined else replace(call, is_confined=False)


_USUAL: dict[str, ToolClass] = {
    **dict.fromkeys(("read", "grep", "glob", "list", "skill", "fetch", "bash_output"), ToolClass("read")),
    **dict.fromkeys(("write", "edit", "apply_patch", "agent"), ToolClass("edit")),
    "bash": ToolClass("execute", is_built_in=True),
    **dict.fromkeys((*BUILTIN_TOOLS, "recall", "notification-inbox"), ToolClass(is_own=True)),
    _SUBAGENT: ToolClass("edit"),
}
"""The classes of built-in tools by name, used before any run has listed its tools."""


class SessionGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A permission that holds without asking until it is revoked or the session ends."""

    id: str
    label: str
    """What it allows, as text for the user."""
    rule: Rule

    @property
    def tool(self) -> str:
        """The tool by its name; empty: whatever the tool."""
        return literal(self.rule.tool)


def declined(reason: str) -> ToolOutput:
    """The result that the model sees for a call that was not allowed: not an error; the run continues."""
    return ToolOutput(
        text=NOT_APPROVED if reason in ("", SAID_NO, NOT_APPROVED) else f"{NOT_APPROVED}: {reason}"
    )


def check_resolver(resolver: CategoryResolver | None) -> None:
    """Raises UsageError for a resolver that is not a plain function."""
    if resolver is None:
        return
    if not callable(resolver):
        raise UsageError("tool_category_resolver is no function", hint="it takes a tool's name")
    method = getattr(resolver, "__call__", None)  # noqa: B004 # also for a callable object
    if inspect.iscoroutinefunction(resolver) or inspect.iscoroutinefunction(method):
        raise UsageError(
            "tool_category_resolver is async",
            hint="give a plain function: a call waits for nothing but a person",
        )


@public(
    "access",
    "as_rules",
    "decide",
    "denial",
    "folder",
    "grant",
    "grant_rules",
    "is_denied",
    "narrows",
    "of",
    "on_grants",
    "own_rules",
    "settings",
    "standing",
    "verdict",
    "verdict_on",
    "without_denied",
    "work_in",
)
class SessionPermissions:
    """`session.permissions`: rules, which are stored with the state, and grants, which end with the session."""

    def __init__(self, state: SessionState, category_of: CategoryResolver | None) -> None:
        self._state = state
        self._category_of = category_of
        self.folder: WorkFolder = WorkFolder(root="")
        """Where the session works."""
        self.settings: Sequence[Rule] = ()
        """The rules of the user's settings and of the project's file, for all agents."""
        self._latest: ToolRules | None = None
        """Those of the latest run, for lookups by name."""
        self._grants: dict[str, SessionGrant] = {}
        self._given = 0
        self.on_grants: Callable[[], object] = lambda: None
        """Called when something is granted or revoked."""

    def work_in(self, directory: str, environ: Mapping[str, str]) -> None:
        """The session works in this folder; the rules of the settings that hold there count. Raises BadConfig.

        `environ`: what its tools are started with.
        """
        self.folder = WorkFolder(root=os.path.realpath(directory), programs=free_programs(environ))
        self.settings = rules_in(directory).rules

    def get_rules(self) -> dict[str, dict[str, PermissionAnswer]]:
        """The rules: `categories` and `tools`, each from a name to `allow`, `ask` or `deny`."""
        return {kind: self._rules(kind) for kind in KINDS}

    async def set_for_category(self, *, category: ToolCategory, policy: PermissionAnswer) -> None:
        """Set the rule for all tools of a category. Raises UsageError for an unknown one."""
        await self._set("categories", category, policy)

    async def set_for_tool(self, *, tool_name: str, policy: PermissionAnswer) -> None:
        """Set the rule for a tool; it takes precedence over that of its category."""
        await self._set("tools", tool_name, policy)

    def category(self, tool_name: str) -> ToolCategory | None:
        """The category of the tool that currently has that name."""
        return self.standing(tool_name, None).category

    # Grants

    def grant_category(self, category: str) -> None:
        """Allow all tools of a category until the session ends."""
        self.grant(Rule(answer="allow", category=category, source="grant"))

    def grant_tool(self, tool_name: str) -> None:
        """Allow all calls of a tool until the session ends."""
        self.grant(ToolPermission(tool_name))

    def grant(self, permission: ToolPermission | Rule, label: str = "") -> None:
        """Grant exactly what "always" was answered to. The loop calls this too."""
        if isinstance(permission, ToolPermission):
            label, rule = label or label_of(permission), rule_of(permission)
        else:
            label, rule = label or words_of(permission), permission
        if any((grant.label, grant.rule) == (label, rule) for grant in self._grants.values()):
            return
        self._given += 1
        id = f"grant-{self._given}"
        self._grants[id] = SessionGrant(id=id, label=label, rule=rule)
        self.on_grants()

    def grant_rules(self, rules: Sequence[Rule], label: str) -> None:
        """Grant what "always" was answered to an agent program, under the label that the person read."""
        for rule in rules:
            self.grant(rule, label)

    def has_category_grant(self, category: str) -> bool:
        """Whether all tools of a category were allowed."""
        return category in self.get_grants()["categories"]

    def has_tool_grant(self, tool_name: str) -> bool:
        """Whether all calls of a tool were allowed."""
        return tool_name in self.get_grants()["tools"]

    def get_grants(self) -> dict[str, list[str]]:
        """Categories and tools that are granted as a whole; `list_grants` includes narrower grants."""
        whole = [grant for grant in self._grants.values() if grant.rule.is_whole]
        return {
            "categories": sorted(grant.rule.category for grant in whole if grant.rule.category),
            "tools": sorted(grant.tool for grant in whole if grant.tool and not grant.rule.server),
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
        """Whether a rule denies every call of the tool. Such a tool is not shown to the model."""
        return self._denies(self._whole_denials(), tool_name)

    def without_denied(self, tools: Iterable[Tool]) -> list[Tool]:
        """The tools without those of which a rule denies every call."""
        rules = self._whole_denials()
        return [tool for tool in tools if not (rules and self._denies(rules, tool.spec.name))]

    def _whole_denials(self) -> list[Rule]:
        return [rule for rule in self.as_rules() if rule.answer == "deny" and rule.is_whole]

    def _denies(self, rules: Sequence[Rule], tool_name: str) -> bool:
        return denial_of(ProposedCall(tool=tool_name), rules, self.folder) is not None

    def resolve(self, tool_name: str) -> PermissionAnswer:
        """The decision for the tool of that name, regardless of arguments."""
        return self.decide(tool_name, self.standing(tool_name, None))

    def access(self) -> AccessMode:
        """What holds where no rule for a tool and no grant decides: the rules for categories."""
        if self._state.peek("yolo") is True:
            return FULL_ACCESS
        rules = self._rules("categories")
        answers: dict[str, Answer] = {"own": "allow", **rules}
        answers |= dict.fromkeys(self.get_grants()["categories"], "allow")
        if other := answers.get("other"):
            answers["network"] = other
            if other == "deny":
                answers["unknown"] = "deny"
        return AccessMode(name="session", answers=answers)

    @property
    def narrows(self) -> bool:
        """Whether a rule of the session denies something, or asks about a tool: then a program has to be asked."""
        answers = [
            *self._rules("tools").values(),
            *(a for a in self._rules("categories").values() if a == "deny"),
        ]
        return any(answer != "allow" for answer in answers)

    def own_rules(self) -> list[Rule]:
        """What the session says of tools and of categories, as rules; grants and settings are not among them."""
        tools, categories = self._rules("tools"), self._rules("categories")
        return [
            *(Rule(answer=policy, tool=escaped(name), source="session") for name, policy in tools.items()),
            *(Rule(answer=policy, category=name, source="session") for name, policy in categories.items()),
        ]

    def as_rules(self, agent: str = OWN_AGENT) -> list[Rule]:
        """The rules for tools and those of the settings that speak of an agent, and what was granted until the session ends."""
        is_free = (
            self._state.peek("yolo") is True
        )  # which a rule that asks does not narrow, only one that denies
        rules = [
            Rule(
                answer=policy,
                tool=escaped(name),
                source="session",
                reason=_denied(name) if policy == "deny" else "",
            )
            for name, policy in self._rules("tools").items()
            if policy == "deny" or not is_free
        ]
        return [*of_agent(self.settings, agent), *rules, *(grant.rule for grant in self._grants.values())]

    def decide(self, tool_name: str, standing: ToolClass) -> PermissionAnswer:
        """Decide in the order above, for any call of a tool: narrower grants say nothing of it."""
        rules = [rule for rule in self.as_rules() if rule.is_whole]
        call = _classed(ProposedCall(tool=tool_name), standing)
        return decide([call], self.access(), rules, self.folder).answer

    def standing(self, tool_name: str, tool: Tool | None) -> ToolClass:
        """The class of a tool. `tool` None: the one of that name in the latest run, or the built-in one."""
        if tool is None:
            latest = self._latest.known(tool_name) if self._latest is not None else None
            tool_class = latest or _USUAL.get(tool_name, ToolClass())
        else:
            intrinsic = category_of(tool)
            category = intrinsic if intrinsic in _CATEGORIES else None
            # By their classes: `isinstance` of a protocol takes 5 µs, and each message asks for every tool.
            inner = cast("Renamed", tool).tool if Renamed in type(tool).__mro__ else tool
            module = type(inner).__module__
            is_built_in = module.startswith(_BUILT_IN) and module != _OF_APPLICATIONS
            tool_class = ToolClass(
                cast("ToolCategory | None", category),
                not _NEVER_ASKED.isdisjoint(type(inner).__mro__),
                is_confined=is_built_in,
                is_built_in=is_built_in,
            )
        if self._category_of is None:
            return tool_class
        return tool_class._replace(category=self._by_name(self._category_of, tool_name))

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
            self._latest = rules
        return rules

    def verdict(self, call: ProposedCall) -> PermissionVerdict:
        """For a caller without tools of its own: judges the tool that currently has that name."""
        return self.verdict_on(call, self.standing(call.tool, None))

    def verdict_on(
        self, call: ProposedCall, standing: ToolClass, held: tuple[AccessMode, Sequence[Rule]] | None = None
    ) -> PermissionVerdict:
        """Decide one call of a tool of this class, with the reason for a denial. `held`: access and rules of a program."""
        access, rules = held or (self.access(), self.as_rules())
        # Which shell a tool of others starts, and how, is not known: there no command is free.
        folder = self.folder if standing.is_built_in else replace(self.folder, programs=frozenset())
        verdict = verdict_of(
            decide([_classed(call, standing)], access, rules, folder),
            standing.category or "",
        )
        is_by_category = verdict.decision == "deny" and self.denial(call) is None
        return verdict._replace(reason=_denied(call.tool)) if is_by_category else verdict

    def denial(self, call: ProposedCall) -> str | None:
        """For the loop, right before execution: a rule that denies overrides every earlier approval."""
        return denial_of(call, self.as_rules(), self.folder)

    @staticmethod
    def _by_name(resolver: CategoryResolver, tool_name: str) -> ToolCategory | None:
        """The category from the application's resolver. An invalid one counts as none: the user is asked."""
        try:
            category: Any = resolver(tool_name)
        except Exception:
            _logger.exception("tool_category_resolver failed on %s", tool_name)
            return None
        if inspect.iscoroutine(category):
            category.close()
        if category is None or category in _CATEGORIES:
            return cast("ToolCategory | None", category)
        _logger.warning("tool_category_resolver gives no category for %s: %r", tool_name, category)
        return None

    def _rules(self, kind: str) -> dict[str, PermissionAnswer]:
        """The stored rules of a kind. Invalid entries are ignored, so the user is asked."""
        rules = self._state.peek(RULES_KEY)
        policies = rules.get(kind) if isinstance(rules, Mapping) else None
        if not isinstance(policies, Mapping):
            return {}
        return {str(name): policy for name, policy in policies.items() if policy in POLICIES}

    async def _set(self, kind: str, name: str, policy: PermissionAnswer) -> None:
        rules: dict[str, Any] = self.get_rules()
        rules[kind] = {**rules[kind], name: policy}
        await self._state.set({RULES_KEY: rules})


class ToolRules:
    """The rules of a session for the tools of one run. Contract: that of `PermissionPolicy`."""

    def __init__(
        self,
        rules: SessionPermissions,
        tools: Iterable[Tool],
        more: Callable[[], Iterable[Tool]] = tuple,
        held: Callable[[], tuple[AccessMode, Sequence[Rule]]] | None = None,
    ) -> None:
        """`held`: what holds for a program that calls them, instead of what holds in the session."""
        self._rules = rules
        self._held = held
        self._more = more
        self._tools = {tool.spec.name: tool for tool in tools}

    def known(self, name: str) -> ToolClass | None:
        """The class of one of these tools; None where there is no such tool."""
        return self._standing(name) if name in self._tools else None

    def verdict(self, call: ProposedCall) -> PermissionVerdict:
        """Decide one call by the rules of the session."""
        held = self._held() if self._held is not None else None
        return self._rules.verdict_on(call, self._standing(call.tool), held)

    def denial(self, call: ProposedCall) -> str | None:
        """Why a call must not run, asked right before it does; None when nothing forbids it."""
        return self._rules.denial(call)

    @property
    def folder(self) -> WorkFolder:
        """Where the session works."""
        return self._rules.folder

    def grant(self, permission: Rule | ToolPermission) -> None:
        """Allow such calls until the session ends."""
        self._rules.grant(permission)

    def _standing(self, name: str) -> ToolClass:
        tool = self._tools.get(name) or next(
            (tool_offered for tool_offered in self._more() if tool_offered.spec.name == name), None
        )
        return ToolClass() if tool is None else self._rules.standing(name, tool)


def _denied(tool_name: str) -> str:
    return f"{tool_name} is denied by the rules of this session"
