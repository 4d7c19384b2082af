"""Tool calls in the messages of a state: streamed, approved, carried out, ended."""

from __future__ import annotations

from typing import Any

from harness.events import (
    Forked,
    ReplInput,
    ReplOutput,
    ReplProgress,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
)
from harness.folds.page_state import shapes
from harness.folds.page_state.messages import CallPlace, MessageWriter, ShownRun
from harness.folds.page_state.object_stream import Path
from harness.folds.page_state.tree import Tree

LONGEST_OUTPUT = 100_000
"""Characters of a call's output that a state holds; the log has all of it."""
_REPL = "repl"


class Calls:
    def __init__(self, tree: Tree, messages: MessageWriter) -> None:
        self._tree = tree
        self._messages = messages

    def place(self, shown_run: ShownRun, call_id: str, name: str, at_ms: int) -> CallPlace:
        """The place of a call; an unknown call is added."""
        existing = shown_run.calls.get(call_id)
        if existing is None:
            existing = self._adopted(shown_run, call_id)
        if existing is None:
            message = self._messages.current(shown_run, at_ms, begins=True)
            part = self._messages.add_part(shown_run, {"type": "tool", "callId": call_id}, at_ms)
            calls = (*message, "toolCalls")
            call = shapes.tool_call(call_id, name)
            if "toolCalls" in self._tree.at(message):
                place = self._tree.push(calls, call)
            else:
                self._tree.set(calls, [call])
                place = (*calls, "0")
            existing = shown_run.calls[call_id] = CallPlace(place, part, at_ms)
        elif name:
            self._tree.change((*existing.place, "name"), name)
        return existing

    def writing(self, shown_run: ShownRun, event: ToolInputDelta) -> None:
        call = self.place(shown_run, event.call_id, event.tool_name, event.timestamp_ms)
        if call.is_open and not call.is_started and event.text:
            self._tree.append((*call.place, "inputText"), event.text)

    def waiting(
        self, shown_run: ShownRun, call_id: str, name: str, value: Any, relay_id: str, at_ms: int
    ) -> None:
        """The call waits for an answer."""
        call = self.place(shown_run, call_id, name, at_ms)
        if not call.is_started:
            self._tree.change((*call.place, "inputText"), "")
            self._tree.set((*call.place, "input"), value)
        self._tree.set((*call.place, "relayId"), relay_id)

    def asks(self, shown_run: ShownRun, call_id: str, relay_id: str, at_ms: int) -> None:
        """The sub-agent of the call waits for an answer; the call itself continues."""
        call = self.place(shown_run, call_id, "", at_ms)
        self._tree.set((*call.place, "relayId"), relay_id)

    def refused(self, shown_run: ShownRun, call_id: str, reason: str) -> None:
        """It will never be carried out."""
        call = shown_run.calls.get(call_id) or self._adopted(shown_run, call_id)
        if call is not None and call.is_open and not call.is_started:
            if reason:
                self._tree.set((*call.place, "output"), reason)
                self._tree.set((*call.place, "outputLength"), len(reason))
            call.is_refused = True
            self._close(call, "error")

    def start(self, shown_run: ShownRun, event: ToolStart) -> None:
        earlier = shown_run.calls.get(event.call_id)
        if earlier is not None and earlier.is_started and not earlier.is_open:
            del shown_run.calls[event.call_id]  # some agents use ids again
        call = self.place(shown_run, event.call_id, event.tool_name, event.timestamp_ms)
        call.is_started, call.started_ms = True, event.timestamp_ms
        if self._tree.text((*call.place, "inputText")):
            self._tree.set((*call.place, "inputText"), "")
        if event.input is not None:
            self._tree.set((*call.place, "input"), event.input)
        if event.operations:
            self._tree.set((*call.place, "operations"), event.operations)

    def progress(self, shown_run: ShownRun, event: ToolProgress) -> None:
        call = shown_run.calls.get(event.call_id)
        if call is not None and call.is_open and event.text:
            self._grow(call, event.text)

    def end(self, shown_run: ShownRun, event: ToolEnd) -> None:
        call = self.place(shown_run, event.call_id, event.tool_name, event.timestamp_ms)
        if event.output is not None:
            self._settle_output(call, event.output)
        if event.operations is not None:
            self._tree.set((*call.place, "operations"), event.operations)
        if files := [shapes.named(file) for file in shapes.files_of(event.parts)]:
            self._tree.set((*call.place, "files"), files)
        self._tree.change((*call.place, "exitCode"), event.exit_code)
        duration_ms = event.duration_ms
        if duration_ms is None and call.started_ms >= 0:
            duration_ms = max(0, event.timestamp_ms - call.started_ms)
        self._tree.change((*call.place, "durationMs"), duration_ms)
        self._close(call, "error" if event.success is False or call.is_refused else "complete")

    def repl_input(self, shown_run: ShownRun, event: ReplInput) -> None:
        code = {"code": event.code}
        self.start(
            shown_run,
            ToolStart(call_id=event.id, tool_name=_REPL, input=code, timestamp_ms=event.timestamp_ms),
        )

    def repl_progress(self, shown_run: ShownRun, event: ReplProgress) -> None:
        self.progress(shown_run, ToolProgress(call_id=event.id, text=event.text))

    def repl_output(self, shown_run: ShownRun, event: ReplOutput) -> None:
        output = "\n".join(text for text in (event.stdout, event.error) if text)
        self.end(
            shown_run,
            ToolEnd(
                call_id=event.id,
                tool_name=_REPL,
                success=not event.error,
                output=output,
                duration_ms=event.duration_ms,
                timestamp_ms=event.timestamp_ms,
            ),
        )

    def forked(self, shown_run: ShownRun, event: Forked) -> None:
        call = self.place(shown_run, event.call_id, "", event.timestamp_ms)
        self._tree.set((*call.place, "logId"), event.log_id)

    def close_all(self, shown_run: ShownRun) -> None:
        """The run has ended, and with it all its calls."""
        for call in shown_run.calls.values():
            if call.is_open:
                self._close(call, "complete" if call.is_started else "error")

    def home_below(self, caller: ShownRun, call_id: str, at_ms: int) -> Path:
        """The list in which a sub-agent's messages are."""
        call = self.place(caller, call_id, "", at_ms)
        home = (*call.place, "messages")
        if "messages" not in self._tree.at(call.place):
            self._tree.set(home, [])
        return home

    def _adopted(self, shown_run: ShownRun, call_id: str) -> CallPlace | None:
        """The same call under the id that the model gave it while it was streamed."""
        own_id = call_id.removeprefix(f"{shown_run.run_id}/")
        call = shown_run.calls.get(own_id)
        if own_id == call_id or call is None or call.is_started or not call.is_open:
            return None
        shown_run.calls[call_id] = shown_run.calls.pop(own_id)
        self._tree.set((*call.place, "id"), call_id)
        self._tree.set((*call.part, "callId"), call_id)
        return call

    def _grow(self, call: CallPlace, text: str) -> None:
        length = self._tree.at((*call.place, "outputLength"))
        self._tree.set((*call.place, "outputLength"), length + len(text))
        if piece := text[: max(0, LONGEST_OUTPUT - length)]:
            self._tree.append((*call.place, "output"), piece)

    def _settle_output(self, call: CallPlace, output: str) -> None:
        current = self._tree.text((*call.place, "output"))
        cut = output[:LONGEST_OUTPUT]
        if cut.startswith(current) and len(cut) > len(current) > 0:
            self._tree.append((*call.place, "output"), cut[len(current) :])
        elif cut != current:
            self._tree.set((*call.place, "output"), cut)
        self._tree.change((*call.place, "outputLength"), len(output))

    def _close(self, call: CallPlace, status: str) -> None:
        call.is_open = False
        self._tree.change((*call.place, "status"), status)
