"""The turns of a conversation as they are made, and where each of them ends up in the log.

A turn is there at once, its `TranscriptEntry` as soon as its event is in the log: what is put in one moment is written
in one batch, and nothing is written earlier only to know its number. `TurnOrder` decides their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.contracts.model import AssistantTurn, Call, SystemTurn, ToolTurn, Turn
from harness.conversation.compaction import Measured, compacted
from harness.conversation.left_behind import LeftBehind
from harness.conversation.suspended_run import SuspendedRun
from harness.conversation.turns import NOT_BEGUN, TranscriptEntry, TurnOrder, message_id
from harness.events import Compacted, Event, Message, Result, Signal, Task, ToolEnd
from harness.models.turn_cache import ids_in


class TurnPlace:
    """The place of a turn in the log, once it has one."""

    __slots__ = ("answer", "created_ms", "message_id", "seq", "turn")

    def __init__(self, turn: Turn | None = None, answer: TurnPlace | None = None) -> None:
        self.turn: Turn | None = turn
        self.answer: TurnPlace | None = answer
        """Of the result of a call: the answer that asked for it."""
        self.message_id: str = ""
        self.created_ms = -1
        self.seq = -1

    @classmethod
    def known(cls, entry: TranscriptEntry, answer: TurnPlace | None = None) -> TurnPlace:
        place = cls(entry.turn, answer)
        place.message_id, place.created_ms, place.seq = entry.message_id, entry.created_ms, entry.seq
        return place

    def fill(self, event: Event) -> None:
        self.seq, self.created_ms = event.seq, event.timestamp_ms

    def entry(self) -> TranscriptEntry:
        assert self.turn is not None, "only turns become entries"
        name = self.answer.message_id if self.answer is not None else self.message_id
        return TranscriptEntry(self.turn, name, self.created_ms, self.seq)


class KnownTalk(NamedTuple):
    """What a log says of a conversation besides its turns."""

    measured: Measured = Measured()
    lasting_prompt: str = ""
    left_behind: LeftBehind | None = None
    """What calls have left in the process that carried them out."""


class Paused(NamedTuple):
    """What a transcript knows of a run that waits."""

    message_id: str
    """Of its last answer."""
    calls: tuple[Call, ...]
    results: dict[str, TranscriptEntry]
    additions: tuple[TranscriptEntry, ...]


class LoopTranscript:
    def __init__(self, entries: Sequence[TranscriptEntry] = (), *, is_recorded: bool = True) -> None:
        """`is_recorded`: whether the entries are needed."""
        self.entries: list[TranscriptEntry] = list(entries)
        self.turns: list[Turn] = [entry.turn for entry in entries]
        """What the model is sent: the system prompt, if there is one, and then one for each entry."""
        self.call_ids: set[str] = ids_in(self.turns)
        self.measured = Measured()
        self.failed_summaries = 0
        """How many in a row could not be made."""
        self.tasks: list[Task] = []
        """The to-do list, as far as this process has seen it change."""
        self.told_folders: set[str] = set()
        """Folders whose instructions are in the conversation."""
        self.lasting_prompt = ""
        """The part of the system prompt with which the conversation began; empty: it has none yet."""
        self.left_behind = LeftBehind()
        """What calls of before have left in a process that may be gone, until the model was told."""
        self.is_recorded = is_recorded
        self._order = TurnOrder(self._place)
        self._has_unanswered = False
        self._has_prompt = False
        self._answer: TurnPlace | None = None
        """The last one of the model."""
        self._calls: dict[str, tuple[Call, TurnPlace]] = {}
        """By full id: the calls of the last answer, as long as their results have no place."""
        self._messages: deque[TurnPlace] = deque()
        """Turns whose messages and signals are not in the log yet."""
        self._ends: dict[str, TurnPlace] = {}
        """By full id: turns whose calls have not ended in the log yet."""
        self._at_result: list[TurnPlace] = []
        """Turns without an event of their own, which get the place of the run's `Result`."""
        self._unsettled: deque[TurnPlace] = deque()

    @classmethod
    def of_turns(
        cls, turns: Sequence[Turn], *, is_recorded: bool, before: KnownTalk | None = None
    ) -> LoopTranscript:
        """Of a run on its own, which continues these turns; they have no place in its log."""
        transcript = cls(is_recorded=is_recorded)
        transcript.continues(before or KnownTalk())
        transcript.turns += turns
        transcript.call_ids |= ids_in(turns)
        return transcript

    def continues(self, before: KnownTalk) -> None:
        """What is known of the conversation besides its turns."""
        self.measured, self.lasting_prompt = before.measured, before.lasting_prompt
        self.left_behind = before.left_behind or LeftBehind()

    @property
    def prompt(self) -> list[Turn]:
        """The system prompt, if there is one."""
        return self.turns[:1] if self._has_prompt else []

    def has_unanswered(self) -> bool:
        """Whether what was added needs an answer."""
        return self._has_unanswered

    def instruct(self, prompt: str) -> None:
        """Put the system prompt in front; the same text stays the same object."""
        if self._has_prompt:
            head = self.turns[0]
            if not prompt:
                del self.turns[0]
            elif not isinstance(head, SystemTurn) or head.text != prompt:
                self.turns[0] = SystemTurn(prompt)
        elif prompt:
            self.turns.insert(0, SystemTurn(prompt))
            if self.measured.turns:  # it was sent as well: a log has it apart from the conversation
                self.measured = self.measured._replace(turns=self.measured.turns + 1)
        self._has_prompt = bool(prompt)

    def expect_answer(self) -> TurnPlace:
        """The message of an answer is being put now; whether it counts will be known later."""
        place = TurnPlace()
        if self.is_recorded:
            self._messages.append(place)
        return place

    def add_answer(self, turn: AssistantTurn, place: TurnPlace, run_id: str) -> None:
        """The answer of the model; `place` is what `expect_answer` returned."""
        place.turn = turn
        self._answer = place
        self._calls = {f"{run_id}/{call.id}": (call, TurnPlace(answer=place)) for call in turn.calls}
        if self.is_recorded:
            # Those of the answer before may not be in the log yet.
            self._ends.update((call_id, result) for call_id, (_call, result) in self._calls.items())
        self._order.answer(place, self._calls)
        self._settle()

    def add_results(self, turns: Sequence[ToolTurn]) -> None:
        """The results of all calls of the last answer, in order."""
        calls, self._calls = self._calls, {}
        for turn, (call_id, (_call, place)) in zip(turns, calls.items(), strict=True):
            place.turn = turn
            self._order.result(call_id, place)
        self._order.settle()
        self._settle()

    def close_calls(self, ended_calls: Mapping[str, ToolTurn]) -> None:
        """The run is over: what has ended has its result, and the rest will not be carried out."""
        calls, self._calls = self._calls, {}
        for call_id, (call, place) in calls.items():
            place.turn = ended_calls.get(call_id, place.turn)
            if place.turn is None:
                place.turn = ToolTurn(call.id, NOT_BEGUN, is_error=True)
                self._ends.pop(call_id, None)
                self._at_result.append(place)
            self._order.result(call_id, place)
        self._order.settle()
        self._settle()

    def begin_step(self) -> None:
        """The model is asked with the whole conversation so far."""
        self._order.begin_step()
        self._has_unanswered = False

    def end_step(self) -> None:
        """After its answer, if there is one."""
        self._order.end_step()
        self._settle()

    def add(self, turn: Turn, *, wants_answer: bool = False) -> None:
        """A turn whose event is being put now, and which the model sees with its next step."""
        place = TurnPlace(turn)
        if self.is_recorded:
            self._messages.append(place)
        self._has_unanswered |= wants_answer
        self._order.add(place)
        self._settle()

    def additions(self) -> tuple[TranscriptEntry, ...]:
        """What was added and is in the log, but which no model has seen."""
        return tuple([place.entry() for place in self._order.additions])

    def note(self, stamped: Sequence[Event]) -> None:
        """What was put is in the log."""
        if not self._messages and not self._ends and not self._at_result:
            return
        for event in stamped:
            kind = type(event)
            if kind is Message or kind is Signal:
                place = self._messages.popleft()
                place.message_id = message_id(event)  # type: ignore[arg-type]
                place.fill(event)
            elif kind is ToolEnd:
                end = self._ends.pop(event.call_id, None)  # type: ignore[attr-defined]
                if end is not None:
                    end.fill(event)
            elif kind is Result:
                for place in self._at_result:
                    place.fill(event)
                self._at_result.clear()
        self._settle()

    def listed(self) -> list[TranscriptEntry]:
        """One for each turn but the prompt, also when entries are not recorded."""
        if self.is_recorded and not self._unsettled:
            return self.entries
        return [TranscriptEntry(turn, "", -1, -1) for turn in self.turns[len(self.prompt) :]]

    def compact(self, event: Compacted) -> None:
        """Leave out what the event says, which is in the log as everything before it is."""
        assert not self.is_recorded or not self._unsettled, "what is in the log is settled"
        turns_left = compacted(self.listed(), event)
        self.turns[:] = [*self.prompt, *(entry.turn for entry in turns_left)]
        self.measured = Measured()
        self.told_folders.clear()
        if self.is_recorded:
            self.entries[:] = turns_left

    def pause(self, ended_calls: Mapping[str, ToolTurn]) -> Paused:
        """The run waits, and everything that it put is in the log. `ended_calls`: results by full id."""
        results: dict[str, TranscriptEntry] = {}
        for call_id, (call, place) in self._calls.items():
            place.turn = ended_calls.get(call_id, place.turn)
            if place.turn is not None:
                results[call.id] = place.entry()
        return Paused(
            self._answer.message_id if self._answer is not None else "",
            tuple([call for call, _place in self._calls.values()]),
            results,
            self.additions(),
        )

    def restore(self, pending: SuspendedRun) -> None:
        """Take over a run that waits. Its answer is the last entry."""
        answer = self._answer = TurnPlace()
        answer.message_id = pending.message_id
        for call in pending.calls:
            call_id, entry = f"{pending.run_id}/{call.id}", pending.results.get(call.id)
            place = TurnPlace(answer=answer) if entry is None else TurnPlace.known(entry, answer)
            self._calls[call_id] = (call, place)
            if entry is None:
                self._ends[call_id] = place
        self._order.results = dict.fromkeys(self._calls)
        self._order.additions = [TurnPlace.known(entry) for entry in pending.additions]

    def _place(self, place: TurnPlace) -> None:
        assert place.turn is not None, "what has a place in the order is a turn"
        self.turns.append(place.turn)
        if self.is_recorded:
            self._unsettled.append(place)

    def _settle(self) -> None:
        unsettled = self._unsettled
        while unsettled and unsettled[0].seq >= 0:
            self.entries.append(unsettled.popleft().entry())
