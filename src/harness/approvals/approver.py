"""`Approver`: mode, rules and workspace of one run or session, and what was allowed since it began."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from harness.approvals.call import AccessMode, ProposedCall
from harness.approvals.decide import Decision, decide
from harness.approvals.free_commands import why_asked
from harness.approvals.rules import Rule
from harness.approvals.work_folder import WorkFolder

ShellMemory: TypeAlias = Literal["fresh", "kept"]
"""Whether each command of an agent gets a shell of its own, or `cd`, aliases and functions stay for the next one."""


class Approver:
    """Decides for one run or session. Used from any thread."""

    def __init__(
        self,
        mode: AccessMode,
        workspace: WorkFolder,
        rules: Iterable[Rule] = (),
        *,
        agent: str = "",
        shell: ShellMemory = "fresh",
    ) -> None:
        self._mode = mode
        self._workspace = workspace
        self._agent = agent
        self._rules = [rule for rule in rules if rule.agent in ("", agent)]
        self._shell = shell
        self._is_shell_known = True
        self._lock = threading.Lock()

    @property
    def mode(self) -> AccessMode:
        return self._mode

    @property
    def workspace(self) -> WorkFolder:
        return self._workspace

    def switch(self, mode: AccessMode) -> None:
        """Continue in another mode: a plan was approved, or a person chose it."""
        with self._lock:
            self._mode = mode

    def begin_turn(self) -> None:
        """A new turn: the agent's shell stands in the folder again."""
        with self._lock:
            self._is_shell_known = True

    def decide(self, calls: Sequence[ProposedCall], mode: AccessMode | None = None) -> Decision:
        """The answer to a question that stands for these calls. `mode`: for this question, another than the run's."""
        with self._lock:
            workspace = (
                self._workspace if self._is_shell_known else replace(self._workspace, programs=frozenset())
            )
            decision = decide(calls, mode or self._mode, self._rules, workspace)
            if decision.answer == "allow":
                self._note(decision)
        return decision

    def note_allowed(self, calls: Sequence[ProposedCall]) -> None:
        """A person allowed these calls."""
        with self._lock:
            self._note(Decision(answer="allow", why="", calls=tuple(calls)))

    def grant(self, rule: Rule) -> None:
        """Allow it from now on."""
        with self._lock:
            if rule not in self._rules:
                self._rules.append(rule)

    def use(self, rules: Iterable[Rule]) -> None:
        """Decide by these rules from now on, and by no other."""
        with self._lock:
            self._rules = [rule for rule in rules if rule.agent in ("", self._agent)]

    def revoke(self, rule: Rule) -> bool:
        """Allow it no longer; False when nothing like it was allowed."""
        with self._lock:
            if rule not in self._rules:
                return False
            self._rules.remove(rule)
            return True

    def rules(self) -> list[Rule]:
        with self._lock:
            return list(self._rules)

    def _note(self, decision: Decision) -> None:
        """After a command that did more than read, a shell that remembers may stand elsewhere, with other names."""
        if self._shell == "fresh" or not self._is_shell_known:
            return
        runs = [call for call in decision.calls if call.category == "execute"]
        if any(_changes_shell(call, self._workspace) for call in runs):
            self._is_shell_known = False


def _changes_shell(call: ProposedCall, workspace: WorkFolder) -> bool:
    """A line that is proved to read only leaves a shell as it was, unless it begins with `cd`."""
    if not call.command or why_asked(call.command, workspace, call.cwd):
        return True
    return call.command.split(maxsplit=1)[0] == "cd"
