"""The commands that a run of `harness run` takes from other terminals."""

from __future__ import annotations

from harness.errors import UsageError
from harness.interfaces.commands import AnswerCommand, Approve, Cancel, Command, Deny, Steer
from harness.interfaces.server.backend import ConversationStatus
from harness.sources.run import Run


def carry_out(run: Run, command: Command) -> None:
    """Raises UsageError for what cannot be done."""
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


def _check(is_answered: bool) -> None:
    if not is_answered:
        raise UsageError("nothing of that id waits for an answer (any more)", hint="the first answer counts")
