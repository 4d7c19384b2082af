"""The worker of one turn with an agent that is held in a conversation: reads it, records it, relays its questions.

    work ── prompt ──▶ reads until the driver says that the turn ended ──▶ the line rests, or is closed
                         ▲    │
      reply, steer, stop ┘    └ Asked → the rules answer, or a person does in time, or it is refused

Rules
1. The thread of the run alone uses line and driver. `reply`, `steer` and `stop` from other threads are
   queued, and wake it.
2. A stop is a message of the protocol first; if the turn has not ended after five seconds, or at a second
   stop, the signals follow. What is asked after a stop is refused, what is said is not sent.
3. While the run waits for an answer, the silence of the program counts as nothing; the time of the whole run does.
4. Every question of the turn is answered before it ends, at the latest by a refusal.
5. A turn that the program began by itself is not cut short: a prompt waits until it is over.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from msgspec.structs import replace

from harness.approvals.rules import Rule
from harness.contracts.driver import (
    Asked,
    Moves,
    Notice,
    NotTaken,
    Prompt,
    Send,
    SessionKnown,
    Taken,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)
from harness.contracts.worker import OnEnd
from harness.errors import AgentNotFound, HarnessError, UsageError
from harness.events import Error, Event, Message, Relay, RelayReply, Result, SteeringQueued
from harness.log.hub import Hub
from harness.log.raw import RawCall, RawControl, RawEvent, RawExit, RawInput
from harness.process.child import OutputChunk
from harness.questions.open_questions import OpenRelays, answering
from harness.runs.launch import Launch, not_found
from harness.runs.line import Line
from harness.runs.process_worker import HOLD_MS, LIMIT, LimitWatch, gate_of, open_gateway, spending_of
from harness.runs.program_conversation import NO_TOOLS, ProgramConversation
from harness.runs.questions import AskedCalls, approver_of, granted_by, of_plan, shown, tools_of, unasked
from harness.runs.recorder import Recorder, TranslatedRun
from harness.runs.refusals import refusal_to_ask

if TYPE_CHECKING:
    from harness.runs.run_gateway import RunGateway

INTERRUPT_S = 5.0
"""For a turn to end by itself after it was interrupted."""
HANDSHAKE_S = 60.0
"""For the program to be ready; some start MCP servers first."""
ASK_TIMEOUT_S = 300.0
"""For an answer, where neither the request nor the session says how long."""
MOST_REFUSALS = 50
"""In one turn, in a row, without a person: then the turn ends."""
MOST_REFUSALS_IN_ALL = 500
"""Of a turn in which other calls are allowed in between."""
_STOPPED = "the run was stopped"
_DECIDED_LATER = "it is decided when the tool is called"
_Given = TypeVar("_Given", bound="Moves | None")


class Dialogue:
    """Contract: `work` runs once, in one thread; `stop`, `steer` and `reply` may be called from any, at any time."""

    def __init__(
        self,
        launch: Launch,
        hub: Hub,
        recorder: Recorder,
        on_end: OnEnd,
        conversation: ProgramConversation | None = None,
    ) -> None:
        self._launch = launch
        self._hub = hub
        self._recorder = recorder
        self._on_end = on_end
        self._conversation = conversation
        recorder.hide({f"tool token {n}": tool.token for n, tool in enumerate(launch.request.tool_servers)})
        self._log = TranslatedRun(launch, hub, recorder)
        own = conversation.approver if conversation is not None else None
        self._approver = own or approver_of(launch)
        if conversation is not None:
            conversation.approver = self._approver  # what was allowed for always holds for the next run too
        self._tools = conversation.tools if conversation is not None else NO_TOOLS
        self._unattended = answering(launch.request.on_ask, self._give)
        self._asked_calls = AskedCalls(tools_of(launch), launch.invocation.cwd, self._masked)
        self._gate = gate_of(launch, hub, self._give)
        self._spending = spending_of(launch, self._log.cost)
        self._line: Line | None = None
        self._gateway: RunGateway | None = None
        self._commands: deque[Callable[[Line], None]] = deque()
        self._lock = threading.Lock()
        self._waiting: OpenRelays[float] = OpenRelays()
        """Each with its deadline, in milliseconds."""
        self._steered: dict[str, SteeringQueued] = {}
        """Sent to the program, and not taken yet: by the id under which the program knows it."""
        self.untaken: list[SteeringQueued] = []
        """Messages that the program did not take in this turn: they have to be sent again."""
        self._is_over = False
        """Nothing is taken from other threads any more."""
        self._stops = 0
        self._is_interrupted = False
        self._signals_ms = inf
        """When an interrupted turn should have ended by itself."""
        self._started_ms = inf
        self._turn_end: TurnEnded | None = None
        self._refusals = self._all_refusals = 0
        """Without a person: in a row, and in all."""
        self._is_version_open = launch.request.permissions == "ask"

    # From any thread

    @property
    def result(self) -> Result | None:
        return self._log.result

    @property
    def is_steerable(self) -> bool:
        line = self._line
        is_free = not (self._is_over or self._is_interrupted or self._turn_end)
        return line is not None and is_free and line.driver.can_steer

    def stop(self) -> None:
        self._later(self._stop)
        if self._gate is not None:
            self._gate.changed.set()

    def steer(self, text: str, message_id: str = "") -> None:
        message = SteeringQueued(id=message_id or str(uuid4()), text=text)
        if not self.is_steerable or not self._later(lambda line: self._steer(line, message)):
            raise UsageError(
                f"{self._launch.agent.title} takes no message now",
                hint="send it when the run has ended",
            )

    def reply(self, reply: RelayReply) -> bool:
        """The first answer counts, which is decided here. Raises UsageError for what is no answer to the question."""
        if self._gate is not None and self._gate.reply(reply):
            self._wake()
            return True
        answered = self._waiting.take(reply)
        if answered is None:
            return False
        relay = answered[0]
        return self._later(lambda line: self._answer(line, relay, reply))

    def note(self, event: Event) -> bool:
        """Put into the log what a tool of ours asks, that the program calls; False when the run is over."""
        return self._later(lambda _line: self._give(event))

    def _later(self, command: Callable[[Line], None]) -> bool:
        """False when the run is over, so that nothing is done any more."""
        with self._lock:
            if self._is_over:
                return False
            self._commands.append(command)
        self._wake()
        return True

    def _wake(self) -> None:
        line = self._line
        if line is not None:
            line.child.wake()

    # In the thread of the run

    def work(self) -> None:
        try:
            line, switches = self._line_before()
            try:
                self._gateway = line.gateway if line else open_gateway(self._launch, self._recorder)
            finally:
                self._begin(line)
            if self._gateway is not None:
                self._gateway.spending = self._spending
            exit = self._converse(line, switches) if self._is_admitted(line) else self._not_begun()
        except HarnessError as error:
            exit = RawExit(
                at_ms=self._hub.clock(),
                failure="agent_not_found" if isinstance(error, AgentNotFound) else "spawn_failed",
                message=error.words,
            )
        if self._gateway is not None and not exit.is_alive:
            self._gateway.close()
        self._log.take(exit)
        self._recorder.close()
        if self._log.result is not None:
            self._on_end(self._log.result, self._log.session)

    def _line_before(self) -> tuple[Line | None, Moves]:
        """The process of the run before, if it can be used for this one, and what makes it fit."""
        conversation = self._conversation
        line = conversation.take(self._launch) if conversation is not None else None
        if line is None or conversation is None:
            return None, ()
        switches = self._switched(line)
        if switches is not None:
            return line, switches
        line.close()
        conversation.unread += line.unread
        return None, ()

    def _begin(self, line: Line | None) -> None:
        start = self._gateway.start if self._gateway is not None else None
        entry = replace(self._recorder.start_entry(self._hub.clock(), start), two_way=True)
        if line is not None:
            if self._gateway is not None:  # it knows its own token, which this run does not yet
                self._recorder.hide(self._gateway.secrets)
            entry = replace(entry, session_id=line.driver.session_id, carried=dict(line.carried))
        self._log.take(entry)

    def _is_admitted(self, line: Line | None) -> bool:
        """Before the prompt, at the limits of `harness budget`. A process that is not used for it is given back."""
        gate, clock = self._gate, self._hub.clock
        step = gate.wait(lambda: bool(self._commands)) if gate is not None and self._launch.prompt else "run"
        if gate is not None and step != "run":
            is_stop = step == "wait"
            self._log.take(
                RawControl(
                    at_ms=clock(),
                    action="stop" if is_stop else LIMIT,
                    detail="" if is_stop else gate.reason,
                )
            )
            if line is not None and self._conversation is not None:
                self._conversation.give(line)
        return step == "run"

    def _not_begun(self) -> RawExit:
        with self._lock:
            self._is_over = True
        return RawExit(at_ms=self._hub.clock())

    def _converse(self, line: Line | None, switches: Moves) -> RawExit:
        launch = self._launch
        if not launch.binary:
            raise not_found(launch.agent)
        is_new = line is None
        line = self._line = line or Line(launch, self._gateway)
        if self._gateway is not None:
            self._gateway.inlet.attach(line.child.wake)
        if self._spending is not None:
            self._spending.attach(line.child.wake)
        self._started_ms = self._hub.clock()
        watch = LimitWatch(launch, self._started_ms)
        try:
            self._record_unread(line)
            held_moves, line.held = line.held, []
            self._do(line, self._moves(line.driver.begin) if is_new else [*held_moves, *switches])
            if is_new:
                self._approver.begin_turn()  # another process, and so another shell
            if launch.prompt:
                if line.driver.is_busy:
                    self._follow(line, watch)
                self._prompt(line)
            self._follow(line, watch)
            return self._over(line)
        except BaseException:
            line.close()
            raise

    def _prompt(self, line: Line) -> None:
        if self._is_interrupted or not line.is_open:
            return
        launch, self._turn_end = self._launch, None  # what ended until now was another turn
        line.turns += 1
        files, schema = tuple(launch.request.attachments), launch.request.output_schema
        prompt = Prompt(id=str(uuid4()), text=launch.prompt, attachments=files, schema=schema)
        self._do(line, self._moves(lambda: line.driver.prompt(prompt)))

    def _switched(self, line: Line) -> Moves | None:
        """A process that answered earlier prompts may have another model. None: it cannot change that."""
        model = self._launch.request.model
        if not model or model == line.model:
            return ()
        line.model = model
        return self._moves(lambda: line.driver.configure(model=model))

    def _record_unread(self, line: Line) -> None:
        """Record what came while no run listened, from this process or from the one before it."""
        if self._conversation is not None:
            self._record(self._conversation.unread)
            self._conversation.unread = []
        unread, line.unread = line.unread, []
        self._record(unread)

    def _record(self, unread: Iterable[OutputChunk | Send]) -> None:
        now_ms = self._hub.clock()
        for block in unread:
            if isinstance(block, Send):
                self._record_input(block.data)
            else:
                self._log.take_all(self._recorder.entries([block], now_ms))

    def _moves(self, call: Callable[[], _Given]) -> _Given | Moves:
        """What a driver wants done. One that fails cannot be trusted with the conversation any more."""
        try:
            return call()
        except Exception as error:  # noqa: BLE001 # whatever it is, the run has to end in an orderly way
            return [TurnEnded("failed", f"the driver failed: {error!r}", is_final=True)]

    def _follow(self, line: Line, watch: LimitWatch) -> None:
        """Read until the turn has ended, or the program cannot say anything any more."""
        clock, recorder, child = self._hub.clock, self._recorder, line.child
        held_until_ms = inf
        self._obey(line)
        while child.exit is None and child.stdout_open and self._turn_end is None:
            deadline_ms = min(held_until_ms, watch.deadline_ms, self._deadline_ms(line))
            chunks = child.read(None if deadline_ms == inf else max(0.0, (deadline_ms - clock()) / 1000))
            now_ms = clock()
            if chunks:
                watch.note_output(now_ms)
                self._log.take_all(recorder.entries(chunks, now_ms))
                moves = line.heard(chunks)
                self._check_version()
                self._do(line, moves if self._turn_end is None else ())
            self._take_calls(line)
            if now_ms >= held_until_ms:
                self._log.take_all(recorder.release(now_ms))
            held_until_ms = min(held_until_ms, now_ms + HOLD_MS) if recorder.holds_back else inf
            self._look(line)
            watch.note_waiting(now_ms, waits=bool(self._waiting) or self._is_paused or self._tools.waits)
            self._enforce(line, now_ms)
            limit = watch.reached(now_ms, self._log.pipeline.lifecycle, self._log.cost)
            if limit is not None:
                self._log.take(limit)
                self._interrupt(line)
            self._obey(line)

    def _take_calls(self, line: Line) -> None:
        """What the gateway saw; or why the run must end."""
        if self._gateway is not None:
            self._gateway.take(lambda entry: self._take_call(entry, line))

    def _take_call(self, entry: RawCall | RawControl | RawEvent, line: Line) -> None:
        self._log.take(entry)
        if isinstance(entry, RawControl):
            self._interrupt(line)

    @property
    def _is_paused(self) -> bool:
        return self._gate is not None and self._gate.waits

    def _look(self, line: Line) -> None:
        """At the limits of `harness budget` the program is paused while a person is asked."""
        if self._gate is None or self._is_interrupted or self._turn_end is not None:
            return
        did_wait = self._gate.waits
        step = self._spending.look(self._gate) if self._spending else self._gate.look(self._log.cost)
        if step == "wait" and not did_wait:
            line.child.pause()
        elif step != "wait" and did_wait:
            line.child.resume()
        if step == "end":
            self._log.take(RawControl(at_ms=self._hub.clock(), action=LIMIT, detail=self._gate.reason))
            self._interrupt(line)

    def _obey(self, line: Line) -> None:
        """Carry out what other threads asked for."""
        while self._commands:
            self._commands.popleft()(line)

    def _deadline_ms(self, line: Line) -> float:
        """When something has to be done although nothing happens."""
        waiting = min((deadline_ms for _, deadline_ms in self._waiting), default=inf)
        ready = inf if line.driver.is_ready else self._started_ms + HANDSHAKE_S * 1000
        gate_deadline_ms = self._gate.deadline_ms if self._gate is not None else inf
        return min(waiting, ready, self._signals_ms, gate_deadline_ms)

    def _enforce(self, line: Line, now_ms: int) -> None:
        if now_ms >= self._signals_ms:
            self._signals_ms = inf
            line.child.stop()
        if not line.driver.is_ready and now_ms >= self._started_ms + HANDSHAKE_S * 1000:
            message = f"{self._launch.agent.title} did not answer within {HANDSHAKE_S:g} s"
            self._turn_end = TurnEnded("failed", message, is_final=True)
        for relay, deadline_ms in self._waiting:
            if now_ms >= deadline_ms and self._waiting.withdraw(relay.id):
                reason = "there was no answer in time"
                refusal = RelayReply(id=relay.id, approved=False, by="timeout", reason=reason)
                self._answer(line, relay, refusal)

    def _check_version(self) -> None:
        """A shim says one version and starts another, as a folder's own settings want it: what works here counts."""
        session = self._log.session
        if session is not None and self._is_version_open:
            self._is_version_open = False
            if (refusal := refusal_to_ask(self._launch.agent, session.version or None)) is not None:
                self._give(Error(message=refusal.message, code="cannot_be_held"))
                self._turn_end = TurnEnded("failed", refusal.message, is_final=True)

    def _over(self, line: Line) -> RawExit:
        """The turn has ended, or the process has."""
        with self._lock:
            self._is_over = True
        self._obey(line)  # an answer or a message that came with the end
        self._waiting.withdraw_all()
        for relay in self._tools.withdraw():
            self._give(RelayReply(id=relay.id, approved=False, by="policy", reason=_STOPPED))
        if line.is_open:
            self._do(line, self._moves(line.driver.cancel_all))
        turn_end = self._turn_end
        self.untaken += self._steered.values()
        self._steered.clear()
        line.carried = self._log.pipeline.translator.carried()
        lives = turn_end is not None and not turn_end.is_final and line.is_open and line.child.stdout_open
        conversation = self._conversation if lives else None
        if self._gateway is not None:
            self._gateway.inlet.detach()  # a last call of the program need not wait for this thread
        if conversation is None:
            self._close(line, is_urgent=turn_end is not None and turn_end.is_urgent)
        else:
            line.unread += self._recorder.unfinished()
        if self._gateway is not None:
            if conversation is None:
                self._gateway.close()
            self._gateway.end_run(self._log.take)
        self._log.take_all(self._recorder.finish(self._hub.clock()))
        words = self._recorder.masked(turn_end.message) if turn_end is not None else ""
        exit = line.exit(self._hub.clock(), turn_end, words, is_alive=conversation is not None)
        if conversation is not None:
            conversation.give(line)
        return exit

    def _close(self, line: Line, *, is_urgent: bool) -> None:
        """Close the line, and record what the program still writes."""
        child, clock = line.child, self._hub.clock
        if child.exit is None:
            child.kill() if is_urgent else child.close_stdin()
            deadline_ms = clock() + INTERRUPT_S * 1000
            while child.exit is None and clock() < deadline_ms:
                chunks = child.read((deadline_ms - clock()) / 1000)
                self._log.take_all(self._recorder.entries(chunks, clock()))
        child.close()

    # Moves of the driver

    def _do(self, line: Line, moves: Moves) -> None:
        for move in moves:
            match move:
                case Send():
                    self._write(line, move.data)
                case Asked():
                    self._ask(line, move)
                case Withdrawn():
                    self._withdraw(move)
                case Taken():
                    self._taken(move.prompt_id)
                case NotTaken():
                    if (message := self._steered.pop(move.prompt_id, None)) is not None:
                        self.untaken.append(message)
                case TurnEnded():
                    self._turn_end = move
                case TurnStarted():
                    self._turn_end = None  # the program continues by itself: so does the run
                case Notice():
                    self._give(move.event)
                case SessionKnown():
                    pass  # the driver knows it, and the run ends with it

    def _write(self, line: Line, data: bytes) -> None:
        self._record_input(data)
        line.child.write(data)

    def _record_input(self, data: bytes) -> None:
        self._recorder.write(RawInput(at_ms=self._hub.clock(), data=self._recorder.masked_bytes(data)))

    def _ask(self, line: Line, question: Asked) -> None:
        """It is decided by mode and rules first, then as an unattended run answers, then by a person."""
        if self._recorder.holds_back:  # what was said before the question comes before it
            self._log.take_all(self._recorder.release(self._hub.clock()))
        relay, decided = question.relay, None
        if question.calls and all(map(self._tools.owns, question.calls)):
            decided = RelayReply(id=relay.id, approved=True, by="policy", reason=_DECIDED_LATER)
        elif relay.kind == "permission":
            calls = self._asked_calls.proposed(question, self._log.pipeline.lifecycle)
            decision = self._approver.decide(calls)
            relay = shown(relay, decision, self._asked_calls.masked(calls), self._approver.workspace)
            if decision.answer != "ask":
                is_allowed = decision.answer == "allow"
                decided = RelayReply(id=relay.id, approved=is_allowed, by="policy", reason=decision.why)
        if decided is None and self._gateway is not None:
            decided = self._gateway.recorded_answer(relay)
        if decided is None and self._unattended is not None:
            decided = self._unattended(relay)
        if decided is None and self._is_interrupted:
            decided = RelayReply(id=relay.id, approved=False, by="policy", reason=_STOPPED)
        if decided is not None:
            decided = of_plan(decided, self._approver) if relay.kind == "plan" else decided
            self._note_refusal(decided)
            self._give(unasked(decided, relay.call_id or relay.id))
            reply = replace(decided, id=relay.id)
            moves = self._moves(lambda: line.driver.answer(reply))
            self._do(line, moves or ())
            return
        timeout_s = self._launch.request.ask_timeout_s
        if timeout_s is None:
            timeout_s = ASK_TIMEOUT_S if self._conversation is None else self._conversation.ask_timeout_s
        deadline_ms = inf if timeout_s is None else self._hub.clock() + timeout_s * 1000
        masked, _ = self._log.masked(relay)
        self._waiting.add(masked, deadline_ms)  # before it is shown: an answer may come at once
        self._give(masked)

    def _answer(self, line: Line, relay: Relay, reply: RelayReply) -> None:
        if relay.kind == "plan":
            reply = of_plan(reply, self._approver)
        moves = self._moves(lambda: line.driver.answer(reply))
        if moves is None:
            return  # it was withdrawn in the meantime, which is in the log
        if reply.approved and relay.kind == "permission":
            self._approver.note_allowed(self._asked_calls.answered(relay.id))
        if reply.by == "person":
            self._grant(*granted_by(relay, reply))
        self._give(reply)
        self._do(line, moves)

    def _note_refusal(self, reply: RelayReply) -> None:
        """A program that asks on and on, and is refused each time, would never end."""
        if reply.approved:
            self._refusals = 0
            return
        self._refusals, self._all_refusals = self._refusals + 1, self._all_refusals + 1
        is_over = self._refusals >= MOST_REFUSALS or self._all_refusals >= MOST_REFUSALS_IN_ALL
        if is_over and self._turn_end is None:
            message = f"{self._launch.agent.title} was refused {self._all_refusals} times: the turn was ended"
            self._give(Error(message=message, code="refused_too_often"))
            self._turn_end = TurnEnded("failed", message, is_final=True)

    def _grant(self, rules: Sequence[Rule], label: str) -> None:
        for rule in rules:
            self._approver.grant(rule)
        if rules and self._conversation is not None and self._conversation.on_grant is not None:
            self._conversation.on_grant(rules, label)

    def _withdraw(self, move: Withdrawn) -> None:
        self._waiting.withdraw(move.relay_id)
        self._asked_calls.withdraw(move.relay_id)
        self._give(RelayReply(id=move.relay_id, approved=False, by="policy", reason=move.reason))

    def _steer(self, line: Line, message: SteeringQueued) -> None:
        """It is in the log from now on, so that it is not lost whatever happens to the program."""
        prompt = Prompt(id=str(uuid4()), text=message.text)
        is_free = self._turn_end is None and not self._is_interrupted and line.is_open
        moves = self._moves(lambda: line.driver.steer(prompt)) if is_free else None
        self._log.note(self._log.masked(message)[0])
        if moves is None:
            self.untaken.append(message)
            return
        self._steered[prompt.id] = message
        self._do(line, moves)

    def _taken(self, prompt_id: str) -> None:
        if (message := self._steered.pop(prompt_id, None)) is not None:
            self._give(Message(role="user", text=message.text, id=message.id))

    def _stop(self, line: Line) -> None:
        if self._turn_end is not None:
            return  # there is nothing left to stop
        self._stops += 1
        if self._stops == 1:
            self._log.take(RawControl(at_ms=self._hub.clock(), action="stop"))
            self._interrupt(line)
        else:
            line.child.stop()

    def _interrupt(self, line: Line) -> None:
        """End the turn by the protocol; the signals follow when that takes too long."""
        self._is_interrupted = True
        if self._gate is not None and self._is_paused:
            self._gate.withdraw(_STOPPED)
            line.child.resume()
        for relay in [*self._waiting.withdraw_all(), *self._tools.withdraw()]:
            self._give(RelayReply(id=relay.id, approved=False, by="policy", reason=_STOPPED))
        if not line.driver.is_ready:
            line.child.stop()
            return
        self._signals_ms = min(self._signals_ms, self._hub.clock() + INTERRUPT_S * 1000)
        self._do(line, self._moves(line.driver.interrupt))
        self._do(line, self._moves(line.driver.cancel_all))

    def _masked(self, value: Any) -> Any:
        return self._log.masked(Relay(id="", input=value))[0].input

    def _give(self, event: Event) -> Any:
        """Put an event into the log, with secrets masked; returns it as it is there."""
        return self._log.give(event, self._hub.clock())
