"""Shows a run in the terminal: events through a view to standard output, messages to standard error; and `--record`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from harness.cli.console import Console, can_answer, is_terminal
from harness.cli.interruption import Interruption
from harness.cli.log_notes import LogNotes
from harness.cli.output import OutputWriter, ReaderGone, watch_reader
from harness.clients import exit_codes, formats
from harness.contracts.request import Request
from harness.errors import HarnessError, UsageError
from harness.events import Error, Event, Result, UsageDelta, Warning
from harness.formatting.escapes import neutralised
from harness.log.private_files import make_private_directory
from harness.log.raw import RawOutput, read_raw
from harness.log.redact.redactor import redact_text, secrets_in
from harness.log.store import read_all
from harness.log.stores.files import FileStore
from harness.runs.run import Run, start
from harness.stage import ModelInput, View, ViewOptions, feed_all

if TYPE_CHECKING:
    from harness.cli.questions import Questions
    from harness.runs.program_conversation import ProgramConversation
    from harness.views.usage import UsageFold


FRAME_S = 0.1
_QUIET_S = 0.5
"""Only a pause that people notice needs a sign of life."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SAVE_AND_STOP_WRAPPING, _WRAP_AND_RESTORE = "\x1b7\x1b[?7l", "\x1b[?7h\x1b8"
_ERASE_TO_THE_RIGHT = "\x1b[K"
_STDERR = 2
_OUR_WARNINGS = (
    *("log_incomplete", "raw_incomplete", "not_recorded", "unsupported_option", "nobody_to_ask"),
    *("budget_near", "budget_unpriced"),
)
"""Warnings of Harness itself: printed in every format."""


class RunDisplay(NamedTuple):
    """How a run is to be shown."""

    view_name: str
    options: ViewOptions
    output: OutputWriter
    console: Console
    is_on_terminal: bool

    @property
    def is_pretty(self) -> bool:
        return self.view_name == formats.FOR_PEOPLE and self.is_on_terminal


def run_and_show(
    request: Request,
    store: FileStore,
    showing: RunDisplay,
    *,
    redact: bool,
    record: str = "",
    on_end: Callable[[Run], object] | None = None,
    conversation: ProgramConversation | None = None,
) -> int:
    """Start a run, show it to its end; returns the exit code. `record`: a directory for `--record`."""
    if record:
        _prepare_recording(record)
    runs: list[Run] = []
    options = showing.options._replace(model_input=lambda: _model_input(runs))
    view = formats.open_view(showing.view_name, options)
    with LogNotes(showing.console), Interruption() as interruption:
        run = start(request, store=store, redact=redact, conversation=conversation)
        runs.append(run)
        interruption.watch(run)
        _print_command(run, showing.console)
        if run.launch.sandbox:
            showing.console.say(f"confined to {run.launch.request.cwd} ({run.launch.sandbox})")
        if request.recording and run.launch.speaks is run.launch.agent:
            showing.console.warning(
                "the agent that wrote this is unknown, so no line is understood: name it with --as NAME"
            )
        screen = Screen(run, view, showing)
        with _reachable(run, showing.console):
            result = _follow(run, screen)
    showing.output.close()
    if record and isinstance(run.store, FileStore):
        _write_recording(run.store, run.id, record)
    if screen.failure is not None:
        raise screen.failure
    if screen.is_cut_off(result):
        return exit_codes.READER_GONE
    _print_end(run, screen, showing)
    if on_end is not None:
        on_end(run)
    if result.outcome == "interrupted":
        return interruption.exit_code
    return exit_codes.OUTCOMES[result.outcome]


def _model_input(runs: Sequence[Run]) -> ModelInput:
    """Of the only run; before it has begun, nothing was sent."""
    from harness.clients.sessions.model_calls import model_input

    return model_input(runs[0].store, runs[0].id) if runs else ModelInput()


@contextmanager
def _reachable(run: Run, console: Console) -> Iterator[None]:
    """While it runs, `harness attach` in other terminals can answer and steer it, if its agent allows that."""
    request, agent = run.launch.request, run.launch.agent
    if run.launch.two_way is None and "on_ask" not in agent.supports and not _asks_at_limit(run):
        yield
        return
    from harness.clients.conversations.local_socket import (
        LocalSocketServer,
        carry_out_in_run,
        status_of_run,
    )

    channel = LocalSocketServer(run.id, partial(carry_out_in_run, run), partial(status_of_run, run))
    if (request.on_ask == "wait" or _asks_at_limit(run)) and not can_answer():
        if channel.is_open:
            console.say(f"questions wait for an answer: harness attach {run.id}")
        else:
            console.warning("questions cannot be answered: the folder for `harness attach` cannot be used")
    try:
        yield
    finally:
        channel.close()


def _asks_at_limit(run: Run) -> bool:
    """Whether it may ask for more at a limit of `harness budget`."""
    return run.launch.budget is not None and run.launch.budget.asks


def _follow(run: Run, screen: Screen) -> Result:
    """Until the run has ended. When showing it fails, it is cancelled first."""
    try:
        screen.show()
        return run.wait()
    except HarnessError as error:
        raise (error.__cause__ or error) from None  # a bug in the thread of the run: its cause shows which
    except BaseException:
        run.cancel()
        run.wait()
        raise


def _print_command(run: Run, console: Console) -> None:
    if console.is_verbose:
        invocation = run.launch.invocation
        command = redact_text(" ".join(invocation.argv)[:2000], secrets_in(invocation.env))
        console.debug(f"run {run.id}: {neutralised(command)}")


class Screen:
    """Writes a run's events as they come. When the reader closes the output, the agent is stopped."""

    def __init__(self, run: Run, view: View, showing: RunDisplay) -> None:
        self.failure: HarnessError | None = None
        """Set when standard output refused to be written."""
        self.bill = UsageLine()
        self._run = run
        self._view = view
        self._showing = showing
        self._has_lost_bytes = False
        self._has_lost_reader = False
        self._noted: dict[type[Event], Callable[[Any], None]] = {
            Error: self._on_error,
            Warning: self._on_warning,
        }
        self._questions: Questions | None = None
        if (run.launch.request.on_ask == "wait" or _asks_at_limit(run)) and can_answer():
            from harness.cli.questions import Questions

            self._questions = Questions(run, self._print_message)
            self._noted |= self._questions.noted
        if showing.view_name in formats.SUMMED_UP:
            self._noted |= {UsageDelta: self.bill.note, Result: self.bill.note}

    def show(self) -> None:
        watch_reader(self._on_reader_gone)
        for batch in self._batches():
            pieces = feed_all(self._view, self._for_view(batch))
            if not self._noted.keys().isdisjoint(map(type, batch)):
                self._note(batch)
            if pieces:
                self._write(pieces)
        self._write(self._view.finish())

    def _for_view(self, batch: Sequence[Event]) -> Sequence[Event]:
        if self._questions is None or not self._showing.is_pretty:
            return batch
        return self._questions.left_to_view(batch)

    @property
    def _is_asking(self) -> bool:
        """Whether the cursor is where a person types."""
        return self._questions is not None and self._questions.is_asking

    def _note(self, batch: Sequence[Event]) -> None:
        for event in batch:
            if (note := self._noted.get(type(event))) is not None:
                note(event)

    def is_cut_off(self, result: Result) -> bool:
        """Whether the reader closed the output before the end of the run."""
        return self._has_lost_bytes or (self._has_lost_reader and result.outcome == "interrupted")

    def _batches(self) -> Iterator[Sequence[Event]]:
        can_move = self._showing.is_pretty and self._showing.options.live and is_terminal(_STDERR)
        return self._batches_with(Spinner(self._showing.console)) if can_move else self._run.batches()

    def _batches_with(self, progress: Spinner) -> Iterator[Sequence[Event]]:
        """The same as `Run.batches`, with a sign of life while nothing comes."""
        changed = threading.Event()
        remove = self._run.hub.add_waker(changed.set)
        follower = self._run.hub.follower()
        try:
            while True:
                changed.clear()
                batch = follower.poll()
                if batch:
                    progress.erase()
                    yield batch
                elif follower.is_ended:
                    break
                elif not changed.wait(FRAME_S) and not self._is_asking:
                    progress.draw(at_line_start=self._showing.output.ends_with_newline)
        finally:
            progress.erase()
            remove()
            follower.close()

    def _write(self, pieces: Sequence[bytes]) -> None:
        try:
            self._showing.output.write_pieces(pieces)
        except ReaderGone:
            self._has_lost_bytes = True
            self._on_reader_gone()
        except HarnessError as error:
            if self.failure is None:
                self.failure = error
                self._run.cancel()

    def _on_reader_gone(self) -> None:
        if not self._has_lost_reader:
            self._has_lost_reader = True
            self._run.cancel()

    def _on_error(self, event: Error) -> None:
        if self._showing.view_name not in formats.SHOW_ERRORS_THEMSELVES:
            self._print_message(f"error: {neutralised(event.message)}")

    def _print_message(self, text: str) -> None:
        self._showing.console.say(f"{self._line_end()}{text}")
        self._showing.output.ends_with_newline = True

    def _line_end(self) -> str:
        """Where the terminal shows both streams, a message starts on a line of its own."""
        is_within = self._showing.is_on_terminal and not self._showing.output.ends_with_newline
        return "\n" if is_within and is_terminal(_STDERR) else ""

    def _on_warning(self, event: Warning) -> None:
        console = self._showing.console
        if self._showing.view_name != formats.FOR_PEOPLE and (
            event.code in _OUR_WARNINGS or console.is_verbose
        ):
            console.warning(neutralised(event.message))


class UsageLine:
    """What a run used, for the one line after it."""

    def __init__(self) -> None:
        self._fold: UsageFold | None = None

    def note(self, event: Event) -> None:
        if self._fold is None:
            from harness.views.usage import UsageFold

            self._fold = UsageFold()
        self._fold.feed(event)

    @property
    def line(self) -> str:
        if self._fold is None:
            return ""
        from harness.views.usage import summary

        return summary(self._fold.value)


def _print_end(run: Run, screen: Screen, showing: RunDisplay) -> None:
    console = showing.console
    if screen.bill.line:
        console.say(screen.bill.line)
    if not showing.is_pretty:
        return
    if isinstance(run.store, FileStore):
        console.say(f"\nlog:      {run.store.path(run.id)}")
        console.say(f"show:     harness sessions show {run.id}")
    agent = run.launch.agent
    if run.agent_session_id and "resume" in agent.supports:
        console.say(f"continue: harness run --agent {agent.name} --resume {run.agent_session_id} --prompt …")


class Spinner:
    """A moving mark and the time since the start, behind the cursor, which it never moves: what is written next takes
    its place.

    Contract: `erase` before anything else is written to the terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_s = self._touched_s = time.monotonic()
        self._frame = 0
        self._is_drawn = False

    def draw(self, *, at_line_start: bool) -> None:
        now_s = time.monotonic()
        if now_s - self._touched_s < _QUIET_S:
            return
        minutes, seconds = divmod(int(now_s - self._started_s), 60)
        clock = f"{minutes}:{seconds:02}" if minutes else f"{seconds} s"
        self._frame = (self._frame + 1) % len(_FRAMES)
        space = "" if at_line_start else " "
        sign = f"{space}\x1b[2m{_FRAMES[self._frame]} {clock}\x1b[0m"
        self._console.put(f"{_SAVE_AND_STOP_WRAPPING}{sign}{_ERASE_TO_THE_RIGHT}{_WRAP_AND_RESTORE}")
        self._is_drawn = True

    def erase(self) -> None:
        self._touched_s = time.monotonic()
        if self._is_drawn:
            self._console.put(_ERASE_TO_THE_RIGHT)
            self._is_drawn = False


def _prepare_recording(directory: str) -> None:
    """Check before the run that the files of `--record DIR` can be written. Raises UsageError."""
    try:
        make_private_directory(os.path.abspath(directory))
        with open(os.path.join(directory, "events.jsonl"), "ab"):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot record into {directory}: {error.strerror}", hint="give another directory with --record"
        ) from error


def _write_recording(store: FileStore, log_id: str, directory: str) -> None:
    """Two files of plain JSON lines, made from the log: what the agent wrote, in order of arrival
    (`{"stream":"stdout"|"stderr","line":"…"}`), and the activities.
    """
    _write_lines(os.path.join(directory, "raw.jsonl"), _raw_lines(store.path(log_id, ".raw")))
    _write_lines(os.path.join(directory, "events.jsonl"), _activities(store, log_id))


def _raw_lines(path: str) -> Iterator[bytes]:
    if not os.path.exists(path):
        return
    for entry in read_raw(path):
        if isinstance(entry, RawOutput):
            for line in entry.data.removesuffix(b"\n").split(b"\n"):
                text = line.decode("utf-8", "backslashreplace")
                yield msgspec.json.encode({"stream": entry.stream, "line": text}) + b"\n"


def _activities(store: FileStore, log_id: str) -> Iterator[bytes]:
    from harness.views import activity

    view = activity.open(ViewOptions())
    for event in read_all(store, log_id):
        yield from view.feed(event)
    yield from view.finish()


def _write_lines(path: str, lines: Iterator[bytes]) -> None:
    with open(path, "wb") as file:
        file.writelines(lines)
