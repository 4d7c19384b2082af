"""The row of a session in the inbox: the same in the list of sessions, the page, the terminal and the server."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harness.folds.limits import LimitFacts

InboxState = Literal[
    "needs-approval",
    "asks",
    "running",
    "background",
    "parked",
    "idle",
    "succeeded",
    "failed",
    "interrupted",
    "lost",
]
"""What a session does, the most urgent first.

- `needs-approval`: a call waits for permission, of the session or of one of its sub-agents.
- `asks`: a question, a plan or a tool waits for an answer.
- `running`: a run works, or the sub-agent of an ended run still does.
- `background`: the run has ended its turn and waits for a job in the background.
- `parked`: a window of the provider is full; it continues by itself when that opens (`InboxRow.limit`).
- `idle`: its process waits for the next message.
- `succeeded`, `failed`, `interrupted`: the last run has ended; `InboxRow.failure` says why it failed.
- `lost`: the process that wrote it has ended without a result.
"""
NEEDS_YOU: frozenset[InboxState] = frozenset(("needs-approval", "asks"))
WORKS: frozenset[InboxState] = frozenset(("running", "background"))


class _Shown(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A part of a row, under the names of the wire."""


class RowProject(_Shown, frozen=True, kw_only=True):
    root: str = ""
    """The folder of the repository, or the working directory outside of one."""
    name: str = ""


class RowFailure(_Shown, frozen=True, kw_only=True):
    code: str = ""
    """An outcome that is no success: `timed_out`, `limit_exceeded` …"""
    text: str = ""
    """For people, one line: "timed out after 30 min"."""
    hint: str = ""
    """What to do next, where that is known: "Log in again: codex login"."""


class RowLimit(_Shown, frozen=True, kw_only=True):
    """A window of the provider that ended the last run."""

    window: str = ""
    """Its name, as the agent or the provider has it; empty: it was not named."""
    resets_at_ms: int | None = None
    """When it opens again, where that was said."""
    continues_at_ms: int | None = None
    """When the session continues by itself; None: a person does it."""
    number: int = 0
    """Which one it is of `most` that are waited for in a row."""
    most: int = 0
    is_uncertain: bool = False
    """It was to continue, and its process died: whether the agent was asked is not known."""


class RowOperation(_Shown, frozen=True, kw_only=True):
    kind: str = ""
    """Of an `Operation`: command, read, write, search …; `text` when the agent writes its answer."""
    text: str = ""
    """One line: the verb and its object, "Edit src/cart.ts"."""


class RowChild(_Shown, frozen=True, kw_only=True):
    """A sub-agent that works, or that asks."""

    run_id: str = ""
    name: str = ""
    state: InboxState = "running"
    started_ms: int = 0
    tokens: int | None = None
    last_operation: RowOperation | None = None


class RowContext(_Shown, frozen=True, kw_only=True):
    """Tokens of the context window."""

    used: int = 0
    limit: int | None = None


class RowChanges(_Shown, frozen=True, kw_only=True):
    """What the session changed in files."""

    files: int = 0
    added: int = 0
    removed: int = 0
    changed_ms: int = 0
    """When the last of them was changed."""
    is_complete: bool = True
    """False: at least so much; commands ran that may have changed more."""
    is_reviewed: bool = False
    """A person has committed them since, or called them reviewed."""


class AskCall(_Shown, frozen=True, kw_only=True):
    """A call that waits for permission, as it is shown."""

    tool_name: str = ""
    category: str = ""
    operations: tuple[dict[str, Any], ...] = ()
    """What the call means, as in the state of a conversation."""
    title: str = ""
    """One line: "run a command", "overwrite app/rates.py"."""
    subject: str = ""
    """What it is about: the command line, the path, the question. In a row at most 2,000 characters."""
    cwd: str = ""
    """Of a command: where it runs."""
    more: tuple[tuple[str, str], ...] = ()
    """Arguments that neither `subject` nor `preview` shows: name and value, long values cut."""
    preview: Any = None
    """Of a permission: what the call would change in files, as in the state of a conversation."""
    marks: tuple[dict[str, Any], ...] = ()
    """Places in `subject` that cannot be seen or look like something else: `{start, end, kind, label}`,
    in UTF-16 code units as JavaScript counts. With any, an answer needs a second confirmation, and nothing can be
    allowed for longer than once."""
    reason: str = ""
    """Why a person is asked, as the rules say it."""
    is_cut: bool = False
    """It has more than is here: it is not to be allowed before all of it was shown."""


class RowAsk(AskCall, frozen=True, kw_only=True):
    """A question that waits for a person; of a permission, with its first call. Only the options say what is allowed."""

    id: str
    """Of the `Relay`."""
    kind: Literal["permission", "question", "plan", "tool"] = "permission"
    run_id: str = ""
    call_id: str = ""
    arguments_hash: str = ""
    """An answer names it: the ask that was shown is the ask that is answered."""
    asked_ms: int = 0
    run_name: str = ""
    """The sub-agent that asks; empty: the agent itself."""
    why: str = ""
    """The last words of the agent before the call."""
    question: str = ""
    options: Any = None
    """Of a permission: `HarnessRelayOption[]`; of a question: what to choose from."""
    payload: Any = None
    resume_schema: Any = None
    further: tuple[AskCall, ...] = ()
    """The other calls that the same answer is for."""
    no_always_why: str = ""
    """Why there is no "always", for people; empty when there is one."""
    alike: str = ""
    """Asks with the same value may be answered together; empty: alone."""


class RowCan(_Shown, frozen=True, kw_only=True):
    """What this reader can ask of the session now."""

    submit: bool = False
    steer: bool = False
    answer: bool = False
    cancel: bool = False


class InboxRow(_Shown, frozen=True, kw_only=True):
    """Contract: a pure function of the log and of whether its process runs; never changed."""

    id: str
    """Of the log."""
    title: str = ""
    agent: str = ""
    agent_name: str = ""
    model: str = ""
    cwd: str = ""
    project: RowProject = RowProject()
    branch: str = ""
    worktree: str = ""
    """The name of the worktree that was made for it."""
    tags: tuple[str, ...] = ()
    state: InboxState = "idle"
    state_since_ms: int = 0
    is_live: bool = False
    failure: RowFailure | None = None
    limit: RowLimit | None = None
    last_operation: RowOperation | None = None
    asks: tuple[RowAsk, ...] = ()
    """Oldest first."""
    children: tuple[RowChild, ...] = ()
    context: RowContext | None = None
    changes: RowChanges | None = None
    cost_usd: float | None = None
    is_cost_complete: bool = True
    """False: at least so much."""
    tokens: int | None = None
    queued: int = 0
    refused: int = 0
    """Calls of its last run that were not allowed, by a person, a rule, or the agent's own settings."""
    started_ms: int = 0
    updated_ms: int = 0
    is_unseen: bool = False
    """It has ended, and has not been opened since."""
    can: RowCan = RowCan()
    history: str = ""
    """Of a session that Harness has not recorded: the agent whose own history it is in, by its display name."""


def row_limit(facts: LimitFacts) -> RowLimit | None:
    """What a row says of the limit that ended the last run."""
    window, parked = facts.limit, facts.parked
    if window is None:
        return None
    return RowLimit(
        window=window.name,
        resets_at_ms=window.resets_at_ms,
        continues_at_ms=None if parked is None else parked.resumes_at_ms,
        number=0 if parked is None else parked.number,
        most=0 if parked is None else parked.most,
        is_uncertain=facts.is_resumed,
    )


def state_words(row: InboxRow) -> str:
    """The state for a column of a list: "needs approval", "timed out"."""
    if row.failure is not None and row.state == "failed":
        return row.failure.code.replace("_", " ")
    return row.state.replace("-", " ")
