"""The types of the page are those of the server: what it reads of an answer is what the server writes."""

from __future__ import annotations

import re
from functools import cache

import msgspec
import pytest

from harness.clients.changes.shapes import ChangeList, FileDiff, FileText, RevertAnswer, RevertedFile
from harness.clients.changes.undo import UndoableTurn, UndoAnswer, UndoFile
from harness.clients.sessions.model_calls import CallTable
from harness.fleet.compare import Comparison
from harness.fleet.difference import RunStep
from harness.fleet.report import VariantReport
from harness.fleet.watching import FleetSummary, FleetView
from harness.folds.changes.lines import DiffRow
from harness.folds.inbox.row import AskCall, InboxRow, RowAsk, RowChild, RowLimit, RowOperation
from harness.server.access.credentials import Login
from harness.server.api.budget import BudgetSettings, LimitChange, LimitSpent
from harness.server.api.fleets import CaseDetails, RunDifference
from harness.server.api.schemas import AgentOutcomes, HandoverOffer, Timeline, Worktree
from harness.server.api.sessions import NewSession
from harness.server.machine.notifier import NotifySettings
from source_tree import ROOT

BOTH: tuple[type[msgspec.Struct], ...] = (
    *(AgentOutcomes, AskCall, BudgetSettings, CallTable, CaseDetails, ChangeList, Comparison, DiffRow),
    *(FileDiff, FileText, FleetSummary, FleetView, HandoverOffer, InboxRow, LimitChange, LimitSpent, Login),
    *(NewSession, NotifySettings, RevertAnswer, RevertedFile, RowAsk, RowChild, RowLimit, RowOperation),
    *(RunDifference, RunStep, Timeline, UndoAnswer, UndoFile, UndoableTurn, VariantReport, Worktree),
)
"""Written down here as a struct and in `web/` as an interface of the same name."""
INTERFACE = re.compile(r"interface (\w+)(?:<[^>]*>)?(?: extends ([\w, ]+))? \{\n(.*?)\n\}", re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FIELD = re.compile(r"^  (?:readonly )?(\w+)\??:", re.MULTILINE)


@cache
def interfaces() -> dict[str, tuple[list[str], list[str]]]:
    """Name → what it extends, and its own fields."""
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("web/src", "web/client/src")
        for path in sorted((ROOT / folder).rglob("*.ts*"))
    ]
    return {
        name: (
            [each.strip() for each in above.split(",") if each.strip()],
            FIELD.findall(COMMENT.sub("", body)),
        )
        for text in texts
        for name, above, body in INTERFACE.findall(text)
    }


def fields_of(name: str) -> set[str]:
    above, own = interfaces()[name]
    return {*own, *(field for each in above for field in fields_of(each))}


@pytest.mark.parametrize("struct", BOTH, ids=lambda struct: struct.__name__)
def test_the_page_reads_what_the_server_writes(struct: type[msgspec.Struct]) -> None:
    written = {field.encode_name for field in msgspec.structs.fields(struct)}
    assert fields_of(struct.__name__) - written == set()


@pytest.mark.parametrize("struct", [InboxRow, RowAsk, RowChild, RowLimit, RowOperation])
def test_the_page_knows_all_of_a_row(struct: type[msgspec.Struct]) -> None:
    assert fields_of(struct.__name__) == {field.encode_name for field in msgspec.structs.fields(struct)}
