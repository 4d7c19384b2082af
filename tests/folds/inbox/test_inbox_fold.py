"""The row of a session: state, since when, what it asks, failure in words, cost, context."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

import recorded_runs
from changed_logs import log_of, numbered, thread
from harness.events import (
    Compacted,
    Error,
    Event,
    FollowUpsChanged,
    Grant,
    Info,
    Message,
    ModelCall,
    Relay,
    RelayCall,
    RelayChoice,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    Suspended,
    TextDelta,
    ThreadCreated,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, Read, Write
from harness.folds.inbox.asks import arguments_hash, ask_of, check_shown
from harness.folds.inbox.fold import InboxFold, Surroundings
from harness.folds.inbox.row import InboxRow, RowProject
from harness.log.store import Metadata
from harness.usage.prices import Price, Prices

LIVE = Surroundings(is_live=True)
CASES = recorded_runs.CASES
PRICES = Prices("", {"m": Price(1.0, 1.0, 1.0, 2.0)})


def folded(*events: Event, kind: str = "run", **metadata: Any) -> InboxFold:
    fold = InboxFold(
        Metadata(session_id="s", kind=kind, **metadata),  # type: ignore[arg-type]
        prices=PRICES,
        limit_of=lambda _model: 1_000,
    )
    for number, event in enumerate(events):
        changes = {"seq": number, "run_id": event.run_id or "r"}
        changes |= {"timestamp_ms": 1000 * (number + 1)} if event.timestamp_ms < 0 else {}
        fold.feed(msgspec.structs.replace(event, **changes))
    return fold


def row(*events: Event, around: Surroundings = LIVE, **metadata: Any) -> InboxRow:
    return folded(*events, **metadata).row(around)


START = SessionStart(agent="claude", model="m", cwd="/w")
CALL = ToolStart(
    call_id="c", tool_name="Bash", input={"command": "make"}, operations=[Command(command="make")]
)
ASK = Relay(id="q", call_id="c", tool_name="Bash", input={"command": "make"})


def test_a_run_works_and_says_what_it_does() -> None:
    found = row(START, Message(role="user", text="fix it\nplease"), CALL)
    assert (found.state, found.state_since_ms, found.title) == ("running", 1000, "fix it")
    assert found.last_operation is not None
    assert (found.last_operation.kind, found.last_operation.text) == ("command", "Run make")
    writing = row(START, CALL, ToolEnd(call_id="c", tool_name="Bash"), TextDelta(id="t", text="One\nTwo th"))
    assert writing.last_operation is not None
    assert (writing.last_operation.kind, writing.last_operation.text) == ("text", "Two th")


def test_paths_are_shown_from_the_working_directory() -> None:
    edit = ToolStart(call_id="c", tool_name="E", operations=[Write(path="/w/src/a.ts", change="update")])
    found = row(START, edit)
    assert found.last_operation is not None
    assert found.last_operation.text == "Edit src/a.ts"


def test_what_waits_comes_before_what_works_and_says_since_when() -> None:
    words = TextDelta(id="t", text="I will build it now.")
    found = row(START, words, CALL, ASK)
    assert (found.state, found.state_since_ms) == ("needs-approval", 4000)
    (ask,) = found.asks
    assert (ask.title, ask.subject, ask.why) == ("run a command", "make", "I will build it now.")
    assert ask.operations == ({"kind": "command", "command": "make"},)
    answered = row(START, CALL, ASK, RelayReply(id="q", approved=True))
    assert (answered.state, answered.state_since_ms, answered.asks) == ("running", 4000, ())


def test_a_question_is_no_request_for_permission() -> None:
    asked = Relay(id="q", kind="question", question="npm or pnpm?", options=["npm", "pnpm"])
    found = row(START, asked)
    assert found.state == "asks"
    assert (found.asks[0].title, found.asks[0].subject) == ("answer a question", "npm or pnpm?")
    assert found.asks[0].options == ["npm", "pnpm"]
    both = row(START, asked, CALL, msgspec.structs.replace(ASK, id="p"))
    assert both.state == "needs-approval"
    assert [ask.id for ask in both.asks] == ["q", "p"]


def test_a_child_that_asks_makes_its_parent_need_a_person() -> None:
    spawn = ToolStart(call_id="spawn", tool_name="Task")
    child = SessionStart(run_id="child", parent_id="spawn", name="reviewer")
    asked = Relay(id="q", run_id="child", call_id="c", tool_name="Bash", input={"command": "ls"})
    found = row(START, spawn, child, asked)
    assert found.state == "needs-approval"
    assert found.asks[0].run_name == "reviewer"
    assert [(one.name, one.state) for one in found.children] == [("reviewer", "needs-approval")]


def test_a_run_whose_child_works_is_never_done() -> None:
    spawn = ToolStart(call_id="spawn", tool_name="Task")
    child = SessionStart(run_id="child", parent_id="spawn", name="reviewer")
    spoken = Message(role="assistant", text="All is done.")
    found = row(START, spawn, child, ToolEnd(call_id="spawn", tool_name="Task"), spoken)
    assert found.state == "running"
    assert [one.name for one in found.children] == ["reviewer"]
    assert not row(START, spawn, child, Result(success=True)).children


def test_a_job_in_the_background() -> None:
    job = ToolStart(call_id="c", tool_name="Bash", input={"command": "x", "run_in_background": True})
    ended = ToolEnd(call_id="c", tool_name="Bash", success=True)
    spoken = Message(role="assistant", text="It runs; I wait.")
    assert row(START, job, ended, spoken).state == "background"
    for notice in (Info, Warning):
        over = notice(message="done, or stopped", code="background_task")
        assert row(START, job, ended, spoken, over).state == "running"
    assert row(START, job, ended, spoken, Result(success=True)).state == "succeeded"


@pytest.mark.parametrize(
    ("outcome", "error", "state", "text"),
    [
        ("completed", "", "succeeded", ""),
        ("interrupted", "", "interrupted", ""),
        ("timed_out", "", "failed", "timed out after 30 min"),
        ("failed", "API error 529\nmore", "failed", "API error 529"),
        ("failed", "", "failed", "failed"),
        ("limit_exceeded", "3 dollars", "failed", "reached its limit: 3 dollars"),
        ("spawn_failed", "", "failed", "the agent could not be started"),
    ],
)
def test_how_it_ended(outcome: Any, error: str, state: str, text: str) -> None:
    notices = [Error(message=error)] if error else []
    end = Result(success=outcome == "completed", outcome=outcome, duration_ms=1_800_000)
    found = row(START, *notices, end, around=Surroundings())
    assert found.state == state
    assert (found.failure.text if found.failure else "") == text
    assert found.is_unseen == (state in ("succeeded", "failed"))


def test_without_a_process() -> None:
    dead = Surroundings()
    assert row(START, CALL, around=dead).state == "lost"
    assert row(START, CALL, ASK, around=dead).state == "lost"
    assert row(START, CALL, ASK, around=dead).asks == ()
    suspended = [ThreadCreated(id="t", run_id="t"), START, CALL, ASK, Suspended()]
    assert row(*suspended, around=dead, kind="thread").state == "needs-approval"
    completed = [
        START,
        CALL,
        Error(message="killed", code="lost"),
        Result(success=False, outcome="interrupted"),
    ]
    assert row(*completed, around=dead).state == "lost"
    again = [*suspended, RelayReply(id="q", approved=True), Resumed()]
    assert row(*again, kind="thread").state == "running"


def test_a_conversation_that_was_just_started_works_before_its_agent_says_anything() -> None:
    starting = Surroundings(is_live=True, is_working=True)
    assert row(around=starting, kind="thread").state == "running"
    assert row(around=LIVE, kind="thread").state == "idle"


def test_a_process_that_waits_for_the_next_message_is_idle() -> None:
    thread_events = [ThreadCreated(id="t", run_id="t"), START, Result(success=True)]
    assert row(*thread_events, kind="thread").state == "idle"
    assert row(*thread_events, kind="thread", around=Surroundings()).state == "succeeded"
    failed = [ThreadCreated(id="t", run_id="t"), START, Result(success=False, outcome="failed")]
    assert row(*failed, kind="thread").state == "failed"
    assert row(ThreadCreated(id="t", run_id="t"), kind="thread").state == "idle"


def test_cost_and_context() -> None:
    used = UsageDelta(usage=Usage(input=100, output=50), model="m", id="call-1")
    found = row(START, used)
    assert found.cost_usd == pytest.approx(0.0002)
    assert found.is_cost_complete
    assert found.tokens == 150
    assert found.context is not None
    assert (found.context.used, found.context.limit) == (150, 1_000)
    unpriced = row(START, used, UsageDelta(usage=Usage(input=1), model="other", id="call-2"))
    assert not unpriced.is_cost_complete
    in_all = row(START, UsageDelta(usage=Usage(input=100)))
    assert in_all.context is None  # of many model calls together: no context was that large
    shortened = row(START, used, Compacted(after_tokens=20))
    assert shortened.context is not None
    assert shortened.context.used == 20


def test_a_gateway_numbers_its_calls_in_each_process() -> None:
    """The program was ended and resumed: the second call with a number is another one."""

    def run(run_id: str) -> list[Event]:
        return [
            SessionStart(run_id=run_id, session_id="s", agent="claude"),
            ModelCall(run_id=run_id, id="call-2", wire="anthropic", model="m", status=200),
            UsageDelta(run_id=run_id, usage=Usage(input=100, output=50), model="m", id="call-2"),
            Result(run_id=run_id, success=True),
        ]

    found = row(ThreadCreated(id="t", run_id="t"), *run("a"), *run("b"), kind="thread")
    assert found.cost_usd == pytest.approx(0.0004)
    assert found.tokens == 300


def test_what_is_queued_and_what_was_seen() -> None:
    assert row(START, FollowUpsChanged(pending=[{"text": "a"}, {"text": "b"}])).queued == 2
    seen = Surroundings(seen_ms=5000)
    assert not row(START, Result(success=True), around=seen).is_unseen


def test_changes_are_reviewed_until_a_file_is_changed_again() -> None:
    def wrote(call_id: str, at_ms: int) -> list[Event]:
        written = {"file_path": f"/w/{call_id}", "content": "a\nb\n"}
        writes = [Write(path=f"/w/{call_id}", change="create")]
        start = ToolStart(call_id=call_id, tool_name="Write", input=written, operations=writes)
        return [
            start,
            ToolEnd(call_id=call_id, tool_name="Write", success=True, output="", timestamp_ms=at_ms),
        ]

    events = [START, *wrote("one", 4000), Result(success=True)]
    changes = row(*events).changes
    assert changes is not None
    assert (changes.files, changes.added, changes.changed_ms, changes.is_reviewed) == (1, 2, 4000, False)
    seen = row(*events, around=Surroundings(reviewed_ms=4000)).changes
    assert seen is not None
    assert seen.is_reviewed
    opened = row(*events, around=Surroundings(seen_ms=9000)).changes
    assert opened is not None
    assert not opened.is_reviewed, "to look at it is not to commit it"
    again = row(*events[:-1], *wrote("two", 6000), events[-1], around=Surroundings(reviewed_ms=4000)).changes
    assert again is not None
    assert not again.is_reviewed


def choices(*grants: Grant) -> list[RelayChoice]:
    return [
        RelayChoice(id="once", kind="allow-once", label="Allow once"),
        RelayChoice(id="always", kind="allow-always", label="Always", grants=list(grants)),
        RelayChoice(id="reject", kind="reject-once", label="Deny"),
    ]


def asking(command: str, pattern: str = "make **") -> Relay:
    grant = Grant(tool="Bash", params={"command": pattern})
    return Relay(id="q", call_id="c", tool_name="Bash", input={"command": command}, choices=choices(grant))


def test_asks_with_the_same_rule_are_alike() -> None:
    first, second = (row(START, asking(command)).asks[0] for command in ("make a", "make b"))
    assert first.alike == second.alike != ""
    assert first.arguments_hash != second.arguments_hash
    assert row(START, asking("make a", "other")).asks[0].alike != first.alike
    elsewhere = row(
        START, asking("make a"), around=Surroundings(is_live=True, project=RowProject(root="/other"))
    )
    assert elsewhere.asks[0].alike != first.alike


@pytest.mark.parametrize("command", ["rm -rf build", "make && /bin/rm x", "git clean -fd"])
def test_there_is_no_always_for_a_deletion(command: str) -> None:
    ask = row(START, asking(command)).asks[0]
    assert ask.no_always_why == "it deletes"
    assert [one["id"] for one in ask.options] == ["once", "reject"]
    assert not ask.alike


def test_there_is_no_always_for_what_cannot_be_seen() -> None:
    ask = row(START, asking("make \u202ex")).asks[0]
    assert [(mark["start"], mark["end"], mark["kind"]) for mark in ask.marks] == [(5, 6, "direction")]
    assert ask.no_always_why
    assert [one["id"] for one in ask.options] == ["once", "reject"]


def test_marks_beyond_what_is_shown_are_not_lost() -> None:
    ask = row(START, asking("make " + "x" * 5_000 + "\u200b")).asks[0]
    assert len(ask.subject) < 2_100
    assert ask.marks
    assert "1 of them marked" in ask.marks[-1]["label"]


def test_an_answer_is_for_the_ask_that_was_shown() -> None:
    shown, now = asking("make a"), asking("make b")
    check_shown(shown, arguments_hash(shown))
    check_shown(shown, "")
    with pytest.raises(Exception, match="It changed, look again"):
        check_shown(now, arguments_hash(shown))


@recorded_runs.each(CASES[::10])
def test_a_fold_continues_from_any_snapshot(case: Any) -> None:
    """Live and replayed rows are the same."""
    log = numbered(thread(list(log_of(case)), random.Random(str(case))))
    metadata = Metadata(session_id="s", kind="thread")
    whole = InboxFold(metadata, prices=PRICES)
    rows = []
    for event in log:
        whole.feed(event)
        rows.append(whole.row(LIVE))
    for split in range(0, len(log), max(1, len(log) // 6)):
        first, second = InboxFold(metadata, prices=PRICES), InboxFold(metadata, prices=PRICES)
        for event in log[:split]:
            first.feed(event)
        second.restore(json.loads(json.dumps(msgspec.to_builtins(first.snapshot()))))
        for place, event in enumerate(log[split:], split):
            second.feed(event)
            assert second.row(LIVE) == rows[place]


def test_what_the_subject_does_not_show_is_listed() -> None:
    given = {"command": "make", "workdir": "../other", "timeout": 99, "description": "build it"}
    asked = Relay(id="q", call_id="c", tool_name="bash", input=given, category="execute")
    ask = ask_of(asked, cwd="/w/shop", project="p")
    assert (ask.subject, ask.cwd) == ("make", "/w/shop/../other")
    assert ask.more == (("workdir", "../other"), ("timeout", "99"))
    call = ToolStart(call_id="c", tool_name="bash", operations=[Command(command="make", cwd="/w/other")])
    ask = ask_of(asked, call, cwd="/w/shop", project="p")
    assert ask.cwd == "/w/other"


def test_a_call_that_was_written_under_the_same_id_does_not_describe_another_question() -> None:
    read = ToolStart(call_id="c", tool_name="Read", input={"path": "a"}, operations=[Read(path="a")])
    asked = Relay(id="q", call_id="c", tool_name="Bash", input={"command": "touch x"}, category="execute")
    ask = ask_of(asked, read, cwd="/w", project="p")
    assert (ask.title, ask.subject) == ("run a command", "touch x")


def several(*commands: str) -> Relay:
    calls = [RelayCall(tool="bash", input={"command": one}, category="execute") for one in commands]
    return Relay(id="q", tool_name="bash", input=calls[0].input, calls=calls, why="it writes")


def test_a_question_shows_every_call_that_it_stands_for_and_why_it_is_asked() -> None:
    ask = ask_of(several("make a", "make b", "rm -rf /"), cwd="/w", project="p")
    assert [ask.subject, *(one.subject for one in ask.further)] == ["make a", "make b", "rm -rf /"]
    assert (ask.reason, ask.no_always_why, ask.alike) == ("it writes", "it deletes", "")
    other = ask_of(several("make a", "make b", "rm -rf ~"), cwd="/w", project="p")
    assert other.arguments_hash != ask.arguments_hash
    assert ask_of(several("make", "ls \u202e"), cwd="/w", project="p").no_always_why


def test_a_long_command_is_whole_when_it_is_asked_for() -> None:
    fold = folded(START, asking("make " + "x" * 45_000 + "\necho HIDDEN-PART"))
    [ask] = fold.row(LIVE).asks
    assert ask.is_cut
    assert "HIDDEN-PART" not in ask.subject
    assert not ask.alike
    whole = fold.whole_ask(ask.id, LIVE)
    assert whole is not None
    assert (whole.is_cut, whole.subject[-11:]) == (False, "HIDDEN-PART")
    assert whole.arguments_hash == ask.arguments_hash
    assert fold.whole_ask("other", LIVE) is None


def test_a_heap_of_marks_on_one_letter_is_drawn_as_a_label() -> None:
    [mark] = row(START, asking("ls a" + "\u0301" * 300)).asks[0].marks
    assert mark["label"] == "⟨300 combining marks⟩"
    assert not row(START, asking("ls é\u0323")).asks[0].marks


def test_characters_without_a_shape_at_the_end_of_a_command_are_marked() -> None:
    asked = Relay(id="q", call_id="c", tool_name="bash", input={"command": "make\u2028"})
    ask = ask_of(asked, cwd="/w", project="p")
    assert [mark["label"] for mark in ask.marks] == ["<U+2028>"]


def test_all_of_a_change_that_cannot_be_drawn_is_listed() -> None:
    given = {"file_path": "/w/a.py", "content": ["odd"], "mode": "0777"}
    asked = Relay(id="q", call_id="c", tool_name="write", input=given, category="edit")
    ask = ask_of(asked, cwd="/w", project="p")
    assert (ask.preview, ask.more) == (None, (("content", '["odd"]'), ("mode", "0777")))


def test_calls_that_were_not_allowed_are_counted_however_they_were_refused() -> None:
    by_agent = Warning(message="permission denied: Edit", code="permission_denied")
    by_rule = RelayReply(id="another call", approved=False, by="policy", reason="a rule")
    found = row(START, by_agent, CALL, ASK, RelayReply(id="q", approved=False), by_rule, Result(success=True))
    assert (found.state, found.refused) == ("succeeded", 3)
    allowed = row(START, CALL, ASK, RelayReply(id="q", approved=True), Result(success=True))
    assert allowed.refused == 0
    again = row(START, by_agent, Result(success=True), msgspec.structs.replace(START, run_id="r2"))
    assert again.refused == 0, "of the last run alone"


def test_a_question_that_nobody_answers_is_no_refused_call() -> None:
    question = Relay(id="q", kind="question", question="Which?")
    assert row(START, question, RelayReply(id="q", approved=False), Result(success=True)).refused == 0


def test_changes_are_at_least_so_many_once_a_command_may_have_changed_more() -> None:
    write = ToolStart(
        call_id="w",
        tool_name="Write",
        input={"file_path": "/w/a", "content": "one\n"},
        operations=[Write(path="/w/a")],
    )
    written = (START, write, ToolEnd(call_id="w", tool_name="Write", success=True))

    def is_complete(command: str, **end: Any) -> bool:
        call = ToolStart(call_id="c", tool_name="Bash", operations=[Command(command=command)])
        found = row(*written, call, ToolEnd(call_id="c", tool_name="Bash", **end))
        assert found.changes is not None
        return found.changes.is_complete

    assert is_complete("ls -l src && git status", success=True, output="")
    assert not is_complete("git mv a b", success=True, output="")
    assert not is_complete("cat a > b", success=True, output="")
    assert is_complete("rm -r build"), "it never ran"


def test_a_run_that_ended_with_its_program_says_so() -> None:
    closed = Warning(message="the program that ran it was closed", code="program_closed")
    end = Result(success=False, outcome="interrupted")
    found = row(START, CALL, closed, Error(message="cancelled"), end, around=Surroundings())
    assert found.state == "interrupted"
    assert found.is_unseen
    assert found.failure is not None
    assert found.failure.text == "the program that ran it was closed"
    by_hand = row(START, CALL, end, around=Surroundings())
    assert by_hand.failure is None
    assert not by_hand.is_unseen


@pytest.mark.parametrize(
    "message",
    [
        "Failed to authenticate. API Error: 401 … Please log in again",
        "Not logged in · Please run /login",
        "unexpected status 401 Unauthorized: token expired",
        "Invalid API key · Fix external API key",
    ],
)
def test_an_expired_login_says_how_to_log_in(message: str) -> None:
    fold = InboxFold(Metadata(session_id="s", agent_name="claude"), login_of=lambda name: f"{name} login")
    events = [START, Error(message=message), Result(success=False, outcome="failed")]
    for number, event in enumerate(events):
        fold.feed(msgspec.structs.replace(event, seq=number, run_id="r", timestamp_ms=number + 1))
    failure = fold.value.failure
    assert failure is not None
    assert failure.hint == "Log in again: claude login"


def test_a_failure_does_not_repeat_that_it_failed() -> None:
    end = Result(success=False, outcome="failed")
    failure = row(START, Error(message="Failed: the disk is full"), end).failure
    assert failure is not None
    assert failure.text == "the disk is full"
