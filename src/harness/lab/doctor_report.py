"""What the doctor found: of one scenario, and of one agent."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

DoctorVerdict: TypeAlias = Literal[
    "verified", "degraded", "drift", "wrong", "broken", "inconclusive", "unfinished", "skipped"
]
"""unfinished: the time of a quick examination ran out · skipped: not run, with the reason."""
FindingKind: TypeAlias = Literal["broken", "wrong", "drift", "degraded", "inconclusive", "new field"]
"""broken: it does not work · wrong: what is shown is not what happened · drift: it writes what is not known ·
degraded: something is not visible · inconclusive: our script did not fit, so that there is no verdict ·
new field: of a known record; where all else is right it changes nothing."""

EXIT_CODES: dict[DoctorVerdict, int] = {
    "verified": 0,
    "skipped": 0,
    "degraded": 1,
    "drift": 1,
    "inconclusive": 1,
    "wrong": 2,
    "broken": 2,
    "unfinished": 2,
}
_WORST_FIRST: tuple[DoctorVerdict, ...] = ("broken", "wrong", "drift", "degraded", "inconclusive")


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: FindingKind
    what: str
    example: str = ""


class HeldTrial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls that a permission mode has to stop, as they were tried with one agent."""

    mode: str
    what: str
    tried: int = 0
    asked: int = 0
    """How many became a question to the person; the others the agent or the mode refused."""
    unasked: int = 0
    """How many ran, or were not asked about."""
    reason: str = ""
    """Why nothing was tried: the mode is refused, or the agent cannot express such a call."""


class ScenarioResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One scenario, run with one agent."""

    scenario: str
    verdict: DoctorVerdict
    findings: tuple[Finding, ...] = ()
    known_gaps: tuple[str, ...] = ()
    """Not visible, and not in the last verified version either."""
    reason: str = ""
    """Why it was skipped, or is unfinished."""
    duration_ms: int = 0
    held: tuple[HeldTrial, ...] = ()
    """Of `ask-holds`: what was tried in each mode."""


class ExaminedAgent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent before it is examined."""

    agent: str
    title: str
    binary: str = ""
    """Empty: not installed."""
    version: str = ""
    last_verified: str = ""
    credentials: dict[str, bool] = {}
    """Variable → whether it is set; never its value."""
    network: str = ""
    """Why it is not on a network of its own; empty when it is."""
    note: str = ""
    """Why it is not examined."""


class AgentReport(msgspec.Struct, frozen=True, kw_only=True):
    status: ExaminedAgent
    results: tuple[ScenarioResult, ...]

    @property
    def verdict(self) -> DoctorVerdict:
        """The worst of all that were run to the end; without any, whether one was started."""
        verdicts = {result.verdict for result in self.results}
        order: tuple[DoctorVerdict, ...] = (*_WORST_FIRST, "verified", "unfinished")
        return next((verdict for verdict in order if verdict in verdicts), "skipped")


def verdict_of(findings: tuple[Finding, ...]) -> DoctorVerdict:
    kinds: set[str] = {finding.kind for finding in findings}
    return next((verdict for verdict in _WORST_FIRST if verdict in kinds), "verified")


def exit_code(reports: list[AgentReport]) -> int:
    """Of the worst. Agents of which none could be examined are not verified: that is 2 as well."""
    if reports and not any(report.results for report in reports):
        return EXIT_CODES["broken"]
    return max((EXIT_CODES[report.verdict] for report in reports), default=0)
