"""The commands that a run of `harness run` takes from other terminals."""

from __future__ import annotations

from harness.errors import UsageError
from harness.interfaces.commands import AnswerCommand, Approve, Cancel, Command, Deny, Steer
from harness.interfaces.conversations.backend import ConversationStatus
from harness.log.run_tree import RunTree
from harness.sources.run import Run
from harness.views.inbox.asks import check_shown


def carry_out(run: Run, command: Command) -> None:
    """Raises UsageError for what cannot be done."""
    if isinstance(command, Approve | Deny | AnswerCommand) and command.arguments_hash:
        _check_shown(run, command.relay_id, command.arguments_hash)
    match command:
        case Steer():
            run.steer(command.message)
        case Cancel():
            run.cancel()
        case Approve():
            _check(
                run.reply(command.relay_id, approved=True, always=command.always, choice=command.option_id)
            )
        case Deny():
            _check(run.reply(command.relay_id, approved=False, reason=command.reason))
        case AnswerCommand():
            _check(_answer(run, command))
        case _:
            raise UsageError(
                "a run takes no further prompts and no changes",
                hint="`harness chat --resume ID` continues it when it has ended",
            )


def status_of(run: Run) -> ConversationStatus:
    is_running = not run.is_ended
    return ConversationStatus(
        is_running=is_running, can_steer=run.is_steerable, can_answer=is_running, can_cancel=is_running
    )


def _answer(run: Run, command: AnswerCommand) -> bool:
    answer = command.answer
    if isinstance(answer, dict) and answer.get("action") == "rejected":
        return run.reply(
            command.relay_id, approved=False, answer=answer, reason=str(answer.get("feedback") or "")
        )
    return run.reply(command.relay_id, approved=True, answer=answer)


def _check_shown(run: Run, relay_id: str, shown_hash: str) -> None:
    follower = run.hub.follower()
    tree = RunTree()
    try:
        while batch := follower.poll():
            for event in batch:
                tree.feed(event)
    finally:
        follower.close()
    relay = tree.open_relays.get(relay_id)
    if relay is not None:
        check_shown(relay, shown_hash)


def _check(is_answered: bool) -> None:
    if not is_answered:
        raise UsageError("nothing of that id waits for an answer (any more)", hint="the first answer counts")
