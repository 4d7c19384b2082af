"""An inbox of which every row is written down, for tests of the screen: commands are remembered, logs are lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Thread

from msgspec.structs import replace

from harness.clients.changes.undo import UndoAnswer, UndoFile, UndoneTurn
from harness.clients.commands import Command
from harness.clients.conversations.backend import Setup
from harness.clients.inbox.today import Today
from harness.errors import UsageError
from harness.events import Event, Message, SessionStart, TextDelta, ToolEnd, ToolStart, UsageDelta
from harness.events.operation import Command as RunCommand
from harness.events.operation import Read, Search, Write
from harness.events.usage import Usage
from harness.fleet.compare import Comparison
from harness.fleet.watching import FleetSummary, FleetView
from harness.folds.inbox.row import (
    InboxRow,
    InboxState,
    RowAsk,
    RowCan,
    RowChanges,
    RowChild,
    RowContext,
    RowFailure,
    RowOperation,
    RowProject,
)

NOW_MS = 1_794_830_400_000
"""The clock of these tests: 2026-11-16 12:00 UTC."""
ABLE = RowCan(submit=True, steer=True, answer=True, cancel=True)
MINUTE = 60_000


class ListTail:
    def __init__(self, events: Sequence[Event], first: int) -> None:
        self._events = events
        self._next = first
        self.is_closed = False

    def poll(self) -> Sequence[Event]:
        found = self._events[self._next : self._next + 2_000]
        self._next += len(found)
        return found

    def close(self) -> None:
        self.is_closed = True


class ScriptedFleets:
    """A `FleetSource` in memory."""

    def __init__(self) -> None:
        self.views: dict[str, FleetView] = {}
        self.others: list[FleetSummary] = []
        """Fleets that are only listed."""
        self.comparisons: dict[tuple[str, str], Comparison] = {}
        self.stopped: list[tuple[str, bool]] = []
        self.problem = ""
        self.is_closed = False

    def all(self) -> Sequence[FleetSummary]:
        if self.problem:
            raise UsageError(self.problem)
        return [*(view.summary for view in self.views.values()), *self.others]

    def view(self, name: str) -> FleetView:
        return self.views[name]

    def compare(self, name: str, a: str, b: str) -> Comparison:
        del name
        if (a, b) not in self.comparisons:
            raise UsageError(f"{a} and {b} have no scored task in common")
        return self.comparisons[a, b]

    def stop(self, name: str, *, now: bool) -> None:
        self.stopped.append((name, now))

    def close(self) -> None:
        self.is_closed = True


class ScriptedInbox:
    """An `ScreenData` in memory."""

    def __init__(self, rows: Sequence[InboxRow], logs: dict[str, list[Event]] | None = None) -> None:
        self.now = list(rows)
        self.logs = logs or {}
        self.sent: list[tuple[str, Command]] = []
        self.undone: list[tuple[str, str, bool]] = []
        self.started: list[tuple[Setup, str]] = []
        self.seen: list[str] = []
        self.refusal = ""
        """What a command is refused with."""
        self.notice = ""
        self.answerers: dict[tuple[str, str], str] = {}
        """By session and ask."""
        self.whole: dict[tuple[str, str], RowAsk] = {}
        """By session and ask: those that a row has not all of."""
        self.hosted = 0
        self.walls = ("namespaces", "")
        self.fleet_source = ScriptedFleets()
        self.today = Today(cost_usd=12.84, is_cost_complete=False, limit_usd=40.0)
        self.is_closed = False
        self._wake: Callable[[], object] = lambda: None
        self._wakes: list[Callable[[], object]] = []

    @property
    def sessions(self) -> ScriptedInbox:
        return self

    def open(self, wake: Callable[[], object]) -> None:
        self._wake = wake

    def rows(self) -> Sequence[InboxRow]:
        return tuple(self.now)

    @property
    def total(self) -> int:
        return len(self.now)

    def send(self, session: str, command: Command) -> None:
        if self.refusal:
            raise UsageError(self.refusal)
        self.sent.append((session, command))

    def start(self, setup: Setup, prompt: str) -> str:
        self.started.append((setup, prompt))
        self.now.insert(0, InboxRow(id="new", title=prompt, state="running", can=ABLE))
        return "new"

    def fleets(self) -> ScriptedFleets:
        return self.fleet_source

    def sandbox(self) -> tuple[str, str]:
        return self.walls

    def agents(self) -> Sequence[str]:
        return ["claude", "codex", "native"]

    def tail(self, session: str, wake: Callable[[], object], cursor: int = 0) -> ListTail:
        self._wakes.append(wake)
        return ListTail(self.logs.setdefault(session, []), cursor)

    def read(self, session: str, first: int = 0) -> Iterable[Event]:
        return self.logs.get(session, [])[first:]

    def mark_seen(self, session: str) -> None:
        self.seen.append(session)

    def whole_ask(self, session: str, ask: str) -> RowAsk:
        return self.whole[session, ask]

    def answered_by(self, session: str, ask: str) -> str:
        return self.answerers.get((session, ask), "")

    def find(self, text: str) -> Sequence[str]:
        return [
            id for id, log in self.logs.items() if any(text in getattr(event, "text", "") for event in log)
        ]

    def files(self, folder: str, beginning: str) -> Sequence[str]:
        return [name for name in ("src/cart.ts", "src/total.ts", "README.md") if beginning in name]

    def undo(self, session: str, expect: str | None = None, *, is_redo: bool = False) -> UndoAnswer:
        if expect is not None:
            self.undone.append((session, expect, is_redo))
        return UndoAnswer(
            turns=[UndoneTurn(id="r", number=1, title="clean up", started_ms=0)],
            files=[UndoFile(path="docs/1.md", act="create")],
            digest="digest",
            is_done=expect is not None,
        )

    def model_calls(self, session: str) -> Sequence[str]:
        return [f"the calls of {session}", "what was new in call 2"]

    def usage(self) -> str:
        return "AGENT   SESSIONS  COST\nclaude  12        $4.81\n"

    def close(self) -> None:
        self.is_closed = True

    # What happens meanwhile

    def change(self, row: InboxRow) -> None:
        """A row is new, or other than it was."""
        self.now = [row if old.id == row.id else old for old in self.now]
        if row.id not in {old.id for old in self.now}:
            self.now.append(row)
        _elsewhere(self._wake)

    def answered(self, id: str, state: InboxState = "running") -> None:
        row = next(row for row in self.now if row.id == id)
        self.change(replace(row, state=state, asks=row.asks[1:]))

    def say(self, session: str, *events: Event) -> None:
        log = self.logs.setdefault(session, [])
        for event in events:
            log.append(replace(event, seq=len(log)))
        for wake in self._wakes:
            _elsewhere(wake)


def _elsewhere(wake: Callable[[], object]) -> None:
    """News come from other threads."""
    thread = Thread(target=wake)
    thread.start()
    thread.join()


def allow_ask(id: str, command: str, rule: str, *, minutes: int, alike: str = "") -> RowAsk:
    return RowAsk(
        id=id,
        run_id="run",
        call_id=f"call-{id}",
        arguments_hash=f"hash-{id}",
        asked_ms=NOW_MS - minutes * MINUTE,
        tool_name="Bash",
        operations=({"kind": "command", "command": command},),
        title="run a command",
        subject=command,
        why="I run only the cart package to be sure.",
        options=[
            {"id": "once", "kind": "allow-once", "label": "Allow once"},
            {"id": "always", "kind": "allow-always", "label": f"Always allow {rule} in this conversation"},
            {"id": "pattern", "kind": "allow-always", "label": "Always allow Bash: pnpm …"},
            {"id": "reject", "kind": "reject-once", "label": "Deny"},
        ],
        alike=alike,
    )


def question_ask(id: str) -> RowAsk:
    return RowAsk(
        id=id,
        kind="question",
        arguments_hash=f"hash-{id}",
        asked_ms=NOW_MS - 48_000,
        title="answer a question",
        subject="Which package manager?",
        question="Which package manager?",
        payload={"options": [{"label": "pnpm", "description": "as in CI"}, {"label": "npm"}]},
    )


def _row(
    id: str, title: str, agent: str, state: InboxState, project: str, age_min: float, **more: object
) -> InboxRow:
    since = NOW_MS - int(age_min * MINUTE)
    facts = {
        "cost_usd": None,
        "can": ABLE
        if state in ("needs-approval", "asks", "running", "background", "idle")
        else RowCan(submit=True),
        **more,
    }
    return InboxRow(
        id=id,
        title=title,
        agent_name=agent,
        agent=agent,
        state=state,
        cwd=f"/code/{project}",
        project=RowProject(root=f"/code/{project}", name=project),
        state_since_ms=since,
        started_ms=since,
        updated_ms=since,
        **facts,  # type: ignore[arg-type]
    )


def twelve_rows() -> list[InboxRow]:
    """Of every state one, as in the design."""
    operation = RowOperation
    return [
        _row("checkout", "checkout test", "claude", "needs-approval", "shop", 6, model="opus-5",
             branch="fix/checkout", cost_usd=0.31, context=RowContext(used=82_000, limit=200_000),
             changes=RowChanges(files=1, added=12, removed=3),
             asks=(allow_ask("a1", "pnpm test --filter cart -- --run --reporter=dot", "Bash: pnpm test …",
                             minutes=6, alike="pnpm"),)),
        _row("tax", "tax table", "codex", "needs-approval", "billing", 2, cost_usd=0.12,
             asks=(RowAsk(id="a2", arguments_hash="h2", asked_ms=NOW_MS - 2 * MINUTE, tool_name="Write",
                          operations=({"kind": "write", "path": "app/rates.py"},),
                          title="overwrite app/rates.py", subject="app/rates.py", no_always_why="it deletes",
                          preview=[{"path": "app/rates.py", "change": "update", "added": 1, "removed": 2,
                                    "diff": "@@ -1,3 +1,2 @@\n-RATE = 19\n-OLD = 16\n+RATE = 20"}]),)),
        _row("quickstart", "quickstart", "gemini", "asks", "docs", 0.8, asks=(question_ask("a3"),)),
        _row("basket", "basket page", "opencode", "needs-approval", "shop", 0.33,
             asks=(allow_ask("a4", "pnpm test --filter basket", "Bash: pnpm test …", minutes=0, alike="pnpm"),)),
        _row("gift", "gift cards", "claude", "running", "shop", 4, cost_usd=0.84,
             context=RowContext(used=82_000, limit=200_000),
             last_operation=operation(kind="write", text="Edit src/gift.ts"),
             children=(RowChild(run_id="r1", name="reviewer", started_ms=NOW_MS - 38_000,
                                last_operation=operation(kind="read", text="Read src/total.ts")),
                       RowChild(run_id="r2", name="test-writer", started_ms=NOW_MS - MINUTE,
                                last_operation=operation(kind="command", text="Run pnpm test")))),
        _row("query", "slow query", "native", "running", "infra", 0.85, cost_usd=0.12,
             last_operation=operation(kind="command", text="Run psql")),
        _row("images", "base images", "codex", "background", "infra", 6, cost_usd=0.26),
        _row("rounding", "bank rounding", "claude", "succeeded", "shop", 100, is_unseen=True, cost_usd=0.52,
             changes=RowChanges(files=3, added=64, removed=22)),
        _row("flaky", "flaky basket", "gemini", "failed", "shop", 200, cost_usd=1.31,
             failure=RowFailure(code="timed_out", text="timed out")),
        _row("dates", "date library", "codex", "interrupted", "shop", 300, cost_usd=0.27),
        _row("certs", "certificates", "opencode", "lost", "infra", 320, cost_usd=0.3, is_cost_complete=False),
        _row("firewall", "firewall rules", "native", "idle", "infra", 500),
    ]  # fmt: skip


def checkout_log() -> list[Event]:
    """A short conversation with calls of each kind."""
    usage = Usage(input=1200, output=90)
    events: list[Event] = [
        SessionStart(session_id="s", agent="claude", model="opus-5", cwd="/code/shop"),
        Message(role="user", text="The checkout test fails since yesterday. Find out why,\nand fix it."),
        TextDelta(id="t1", text="One test fails: the count seems "),
        TextDelta(id="t1", text="to be ignored."),
        ToolStart(call_id="c1", tool_name="Grep", operations=[Search(query="applyCount", path="src/cart")]),
        ToolEnd(call_id="c1", tool_name="Grep", success=True, output="src/cart/total.ts:12"),
        ToolStart(call_id="c2", tool_name="Read", input={"path": "src/cart/total.ts"},
                  operations=[Read(path="src/cart/total.ts", start_line=1, end_line=90)]),
        ToolEnd(call_id="c2", tool_name="Read", success=True, output="export function total() {}\n\x1b[2Jboo"),
        ToolStart(call_id="c3", tool_name="Edit",
                  input={"file_path": "src/cart/total.ts", "old_string": "a\nprice\n", "new_string": "a\nprice * count\n"},
                  operations=[Write(path="src/cart/total.ts", change="update")]),
        ToolEnd(call_id="c3", tool_name="Edit", success=True, output="ok"),
        UsageDelta(usage=usage),
        Message(role="user", text="only the cart package, please"),
        TextDelta(id="t2", text="Understood. I run only the cart package to be sure."),
        ToolStart(call_id="c4", tool_name="Bash", operations=[RunCommand(command="pnpm test --filter cart")]),
    ]  # fmt: skip
    return [replace(event, seq=at, run_id="run", timestamp_ms=NOW_MS + at) for at, event in enumerate(events)]
