"""The decision: may this be done without a person? One order for every agent, protocol and interface.

1. a rule that denies it: denied, in every mode;
2. a mode that is fixed (read-only, plan) allows what reads below the folder and what only concerns the conversation;
   everything else is denied, whatever was granted; where it is not, what was allowed for once is allowed, and used up;
3. a rule that asks about it: asked about, also in full access; so is what could come to something that a rule names, though
   it does not say so (`git $x`);
4. full access: allowed;
5. doubt about what would be done: asked about;
6. a rule or grant that covers all of it: allowed; of a project's file, no rule allows;
7. the mode's answer for its category: files below the folder, commands that are proved to read only, all else asks.

A question that stands for several calls is decided by the strongest answer to any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from harness.approvals.call import AccessMode, Answer, ProposedCall
from harness.approvals.denied_below import first_below
from harness.approvals.free_commands import why_asked
from harness.approvals.rules import (
    Rule,
    changing_argument,
    covering,
    first_possible,
    first_touching,
)
from harness.approvals.work_folder import WorkFolder

_WEIGHT: dict[Answer, int] = {"allow": 0, "ask": 1, "deny": 2}
_READS_ONLY = "this run may only read files below its folder"
_ALLOWED: dict[str, str] = {
    "own": "it only concerns the conversation",
    "read": "it reads below the folder",
    "edit": "edits below the folder are allowed",
}
_ASKED: dict[str, str] = {
    "own": "it asks before everything",
    "read": "it reads outside of the folder, or it is not certain what",
    "edit": "it changes files",
    "execute": "it runs a command or a program",
    "network": "it uses the network",
    "mcp": "it calls a tool of a server",
    "other": "this tool is asked about",
    "unknown": "it is not known what this tool does",
}
_OF_SUBAGENTS = ("agent", "subagent")
"""Our own tools of these names: for the words alone."""
_SUBAGENT = "it starts a sub-agent; what that one does is asked about by itself"
_NO_CALLS = "it does not say which calls this is for"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question, for all the calls that it stands for."""

    answer: Answer
    why: str
    """A sentence for the person or the model."""
    calls: tuple[ProposedCall, ...] = ()
    reasons: tuple[str, ...] = ()
    """The reason for each call, in their order."""
    is_by_rule: bool = False
    """A rule asks about it: no grant would keep it from being asked again."""
    spent: tuple[Rule, ...] = ()
    """Rules for one call that this answer uses up."""


class _Verdict(NamedTuple):
    answer: Answer
    why: str
    spent: tuple[Rule, ...] = ()


def decide(
    calls: Sequence[ProposedCall], mode: AccessMode, rules: Sequence[Rule], workspace: WorkFolder
) -> Decision:
    """The answer to a question that stands for these calls."""
    if not calls:
        # In full access too: a rule may deny what cannot be seen.
        is_free = mode.name == "full-access" and all(rule.answer == "allow" for rule in rules)
        answer: Answer = "allow" if is_free else "deny" if mode.is_fixed else "ask"
        return Decision(answer=answer, why=_NO_CALLS)
    rules_left, verdicts = list(rules), list[_Verdict]()
    for call in calls:
        verdicts.append(_verdict_on(call, mode, rules_left, workspace))
        for rule in verdicts[-1].spent:
            rules_left.remove(rule)
    strongest = max(verdicts, key=lambda verdict: _WEIGHT[verdict.answer])
    is_by_rule = strongest.answer == "ask" and any(_asking_rule(call, rules, workspace) for call in calls)
    return Decision(
        answer=strongest.answer,
        why=strongest.why,
        calls=tuple(calls),
        reasons=tuple(verdict.why for verdict in verdicts),
        is_by_rule=is_by_rule,
        spent=tuple(rule for verdict in verdicts for rule in verdict.spent),
    )


def denial_of(call: ProposedCall, rules: Sequence[Rule], workspace: WorkFolder) -> str | None:
    """Why a rule denies a call, in whatever mode; None when none does. Also asked alone, right before a call runs, since
    rules may have changed.
    """
    rule = first_touching(rules, "deny", call, workspace)
    return None if rule is None else rule.reason or f"a rule denies it: {_named(rule)}"


def _verdict_on(
    call: ProposedCall, mode: AccessMode, rules: Sequence[Rule], workspace: WorkFolder
) -> _Verdict:
    if reason := denial_of(call, rules, workspace):
        return _Verdict("deny", reason)
    if mode.is_fixed:
        is_free = mode.answer(call.category) == "allow" and not call.doubt and _is_inside(call, workspace)
        if is_free and (rule := first_below(rules, call, workspace)):
            return _Verdict("deny", _has_below(rule))
        return _Verdict("allow", _ALLOWED[call.category]) if is_free else _Verdict("deny", _READS_ONLY)
    once = [rule for rule in rules if rule.source == "once"]
    verdict = _by_lasting_rules(call, mode, [rule for rule in rules if rule.source != "once"], workspace)
    if verdict.answer == "allow" or call.doubt or not once:
        return verdict
    others = [rule for rule in rules if rule.source not in ("once", "project")]
    covering_rules = covering([*once, *others], call, workspace) or []
    spent_rules = tuple(
        rule
        for place, rule in enumerate(covering_rules)
        if rule.source == "once" and rule not in covering_rules[:place]
    )
    return _Verdict("allow", "it was allowed this once", spent_rules) if spent_rules else verdict


def _by_lasting_rules(
    call: ProposedCall, mode: AccessMode, rules: Sequence[Rule], workspace: WorkFolder
) -> _Verdict:
    if reason := _asking_rule(call, rules, workspace):
        return _Verdict("ask", reason)
    if call.doubt and not call.input and any(rule.answer != "allow" for rule in rules):
        return _Verdict("ask", call.doubt)
    covering_rules = None
    if not call.doubt:
        covering_rules = covering([rule for rule in rules if rule.source != "project"], call, workspace)
    if not covering_rules and (rule := first_below(rules, call, workspace)):
        return _Verdict("ask", _has_below(rule))
    if mode.name == "full-access":
        return _Verdict("allow", "everything is allowed in this run")
    if call.doubt:
        return _Verdict("ask", call.doubt)
    if covering_rules:
        return _Verdict("allow", f"a rule allows it: {', '.join(dict.fromkeys(map(_named, covering_rules)))}")
    return _Verdict(*_by_mode(call, mode, workspace))


def _asking_rule(call: ProposedCall, rules: Sequence[Rule], workspace: WorkFolder) -> str:
    """Why a rule asks about a call, whatever else allows it; empty: none does."""
    if rule := first_touching(rules, "ask", call, workspace):
        return rule.reason or f"a rule asks about it: {_named(rule)}"
    if rule := first_possible(rules, call):
        return f"it cannot be seen whether it is what a rule names: {_named(rule)}; say plainly what is meant"
    return ""


_WITH = {"environment": "it runs with variables that an earlier command has set"}
"""Arguments of our own tool, in words."""


def _by_mode(call: ProposedCall, mode: AccessMode, workspace: WorkFolder) -> tuple[Answer, str]:
    answer = mode.answer(call.category)
    match call.category:
        case "read" | "edit" if answer == "allow" and not _is_inside(call, workspace):
            return "ask", _why_outside(call, workspace)
        case "execute" if "execute" not in mode.answers and mode.answer("read") == "allow" and call.command:
            # Proved to read only: what holds for reading holds for it, unless every command is to be asked about.
            argument = changing_argument(call)
            reason = why_asked(call.command, workspace, call.cwd or call.place)
            if argument and not reason:
                reason = _WITH.get(argument, f"it has the argument {argument}")
            return ("ask", reason) if reason else ("allow", "it is proved to read only, below the folder")
    if answer == "allow":
        return "allow", _ALLOWED.get(call.category, "this kind of call is allowed")
    if answer == "deny":
        return answer, "this kind of call is denied"
    return answer, _SUBAGENT if call.tool in _OF_SUBAGENTS and not call.paths else _ASKED[call.category]


def _is_inside(call: ProposedCall, workspace: WorkFolder) -> bool:
    """Whether all that it reads or edits is below the folder; what names no path at all is not."""
    if call.category not in ("read", "edit") or (call.is_confined and call.category == "read"):
        return True
    if call.is_confined:  # what is certainly elsewhere the tool refuses by itself
        return all(
            workspace.may_edit(path, call.cwd) or workspace.is_elsewhere(path, call.cwd)
            for path in call.paths
        )
    may = workspace.holds if call.category == "read" else workspace.may_edit
    return bool(call.paths) and all(may(path, call.cwd) for path in call.paths)


def _why_outside(call: ProposedCall, workspace: WorkFolder) -> str:
    if not call.paths:
        return "it does not say which file"
    outside = [path for path in call.paths if not workspace.holds(path, call.cwd)]
    if outside:
        return f"{outside[0]} is outside of the folder"
    guarded = next(path for path in call.paths if not workspace.may_edit(path, call.cwd))
    return f"{guarded} is obeyed by an agent, an editor, git or a shell, or has a second name"


def _has_below(rule: Rule) -> str:
    return f"it reads a folder in which something lies that a rule names: {_named(rule)}"


def _named(rule: Rule) -> str:
    return f"{rule.words} ({rule.place or rule.source})"
