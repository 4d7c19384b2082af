"""Drivers hold a two-way conversation with an agent program: one protocol each, as a state machine without I/O.

What the program writes goes in (`receive`), and so does what a person wants (`prompt`, `steer`, `answer` …);
moves come out. `runs/line.py` carries them out, `runs/dialogue.py` makes a run of them.

              begin                     prompt                    receive: the protocol's own end
    (new) ────────────▶ (handshake) ────────────▶ (busy) ──────────────────────────────────────▶ (idle)
                                                    │  ▲                                            │
                        receive: it asks → Asked    ▼  │ answer, or the program withdraws           │ prompt
                                                  (waits)                                           ▼
                                                                                                 (busy)

Rules
1. No I/O, no clock. A driver never raises on what a program wrote, however odd: it reads fields with
   `formats/fields.py`. What it does not know it ignores; a *request* that it does not know it refuses politely,
   in the way of the protocol, because programs wait for answers without end.
2. Ids of the program's requests are JSON values, returned exactly as they came: 0 is an id, and so is "".
3. A prompt may come before the handshake is done: the driver then holds it back.
4. A driver answers a question once, with what was asked: `allow` means this call, this time. "Always" is a
   matter of our own rules; nothing that makes a program write a file of the user's is ever sent.
5. The translator reads the same lines as the driver: moves say nothing that events of the translator say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from harness.contracts.model import Attachment
from harness.contracts.request import Request
from harness.contracts.translator import Record
from harness.events import Error, Info, Relay, RelayReply, Unknown, Warning
from harness.log.codec import storable

_encode = msgspec.json.Encoder().encode


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the user says: the prompt of a turn, or a message in the middle of one."""

    id: str
    """A UUID of ours. Programs that remember it take the same prompt only once."""
    text: str
    attachments: tuple[Attachment, ...] = ()
    schema: dict[str, Any] | None = None
    """The answer is to be JSON of this schema, where the program knows how to hold its model to that."""


class Send(msgspec.Struct, frozen=True):
    """Write this to the program: whole lines."""

    data: bytes


class AskedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a question for permission is about, as the question itself states it: it is decided by nothing else."""

    tool: str
    """The exact name of the tool, as the program says it."""
    input: Any = None
    id: str = ""
    server: str = ""
    """The MCP server of the tool, where the question names it."""
    doubt: str = ""
    """Why it is not certain what would be done; then it is asked about."""
    announced: Any = None
    """The arguments as the stream spells them, where the decision needs them otherwise."""
    is_guess: bool = False
    """Whether the name is ours, since the program states none: then it is not known what the tool does."""


class Asked(msgspec.Struct, frozen=True):
    """The program asks, and waits until `Driver.answer`."""

    relay: Relay
    calls: tuple[AskedCall, ...] = ()
    """Every call that a permission would be for."""


class Withdrawn(msgspec.Struct, frozen=True):
    """The program does not wait for this answer any more."""

    relay_id: str
    reason: str = "withdrawn"


class Taken(msgspec.Struct, frozen=True):
    """A steering message became part of the conversation."""

    prompt_id: str


class NotTaken(msgspec.Struct, frozen=True):
    """A steering message came too late, or was refused: it has to be sent as a prompt of its own."""

    prompt_id: str


class SessionKnown(msgspec.Struct, frozen=True):
    """The handshake is done, and the program's own id of its session is known (empty: it has none yet)."""

    session_id: str


class TurnStarted(msgspec.Struct, frozen=True):
    """The program began a turn by itself, without a prompt: a background task ended."""


class TurnEnded(msgspec.Struct, frozen=True):
    """The protocol's own end of a turn. The translator says the same with a `Result`, in more detail."""

    outcome: Literal["completed", "failed", "interrupted"]
    message: str = ""
    """Why it failed, where the translator cannot know: a handshake that was refused, for example."""
    is_final: bool = False
    """The conversation cannot continue in this process: it has to be closed."""
    is_urgent: bool = False
    """…and at once: given the time to end by itself, the program would do what nobody wants any more."""


class Notice(msgspec.Struct, frozen=True):
    """Something for the log that the translator cannot see."""

    event: Warning | Info | Error | Unknown


Move: TypeAlias = (
    Send | Asked | Withdrawn | Taken | NotTaken | SessionKnown | TurnStarted | TurnEnded | Notice
)
Moves: TypeAlias = Sequence[Move]


def line(record: Any) -> Send:
    """One JSON line. Programs die of malformed lines: drivers write with nothing else."""
    try:
        return Send(_encode(record) + b"\n")
    except UnicodeEncodeError:  # half of a character, in what a person or a program wrote
        return Send(_encode(storable(record)) + b"\n")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One of the offered answers to a question."""

    label: str
    description: str = ""


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One question of several that a program may ask at once. It is the payload of the `Relay`, as a list."""

    id: str
    """The key under which the program expects the answer."""
    question: str
    header: str = ""
    options: list[Choice] = []
    multiple: bool = False
    """Several options may be chosen."""


class Driver:
    """The base of every driver: the table of open questions, and what each protocol fills in.

    One thread at a time uses a driver. `line_id` distinguishes this process from others in one log.
    """

    skips: ClassVar[tuple[bytes, ...]] = ()
    """Beginnings of lines that say nothing to the driver, such as pieces of streamed text: they are not decoded."""
    skips_unless: ClassVar[tuple[tuple[bytes, bytes], ...]] = ()
    """(beginning, mark): lines that begin so are decoded only where they contain the mark, such as large tool results."""
    capabilities: frozenset[str] = frozenset()
    """Of steer, approve, ask, plan, files, model, mode, fork: what works with this program, as far as is known."""

    def __init__(self, request: Request, line_id: str) -> None:
        self.request = request
        self.open: dict[str, Any] = {}
        """Relay id → the question as the protocol knows it."""
        self.is_ready = False
        """The handshake is done."""
        self.is_busy = False
        self.session_id = ""
        self._line_id = line_id
        self._question_count = 0

    # What each protocol fills in

    def begin(self) -> Moves:
        """The handshake."""
        raise NotImplementedError

    def prompt(self, prompt: Prompt) -> Moves:
        """Begin a turn. Only while none runs."""
        raise NotImplementedError

    def receive(self, record: Record) -> Moves:
        """Take a JSON object that the program wrote."""
        raise NotImplementedError

    def steer(self, prompt: Prompt) -> Moves | None:
        """Give the running turn a message; `Taken` or `NotTaken` follows. None: it takes none now."""
        del prompt
        return None

    def interrupt(self) -> Moves:
        """End the turn, not the process; `TurnEnded` follows. Open questions are answered by `cancel_all`."""
        raise NotImplementedError

    def configure(self, *, model: str = "", mode: str = "") -> Moves | None:
        """Switch model or mode of the session. None: only a new process can."""
        del model, mode
        return None

    def _answered(self, native: Any, reply: RelayReply) -> Moves:
        """Write the answer to a question. `native`: what was given to `_ask`."""
        raise NotImplementedError

    def _cancelled(self, native: Any) -> Moves:
        """Answer a question of a turn that is being interrupted."""
        raise NotImplementedError

    # What all have in common

    @property
    def can_steer(self) -> bool:
        """Whether `steer` would be taken now, as far as is known."""
        return self.is_busy and "steer" in self.capabilities

    def answer(self, reply: RelayReply) -> Moves | None:
        """Answer a question. None when it is not open (any more): the first answer counts."""
        if reply.id not in self.open:
            return None
        return self._answered(self.open.pop(reply.id), reply)

    def cancel_all(self) -> Moves:
        """Answer every open question of an interrupted turn: some programs end it only then."""
        natives, self.open = list(self.open.values()), {}
        return [move for native in natives for move in self._cancelled(native)]

    def _ask(self, native: Any, relay: Relay, *calls: AskedCall) -> Asked:
        """Open a question under an id that no other question of the log has. The id of `relay` is not used.

        `calls`: what a permission would be for; without any, the call that the relay shows.
        """
        self._question_count += 1
        relay = msgspec.structs.replace(relay, id=f"{self._line_id}-{self._question_count}")
        self.open[relay.id] = native
        if relay.kind == "permission" and not calls:
            calls = (AskedCall(tool=relay.tool_name, input=relay.input, id=relay.call_id),)
        return Asked(relay, calls)

    def _withdraw(self, is_meant: Any) -> list[Move]:
        """Close the questions for which `is_meant(native)` holds."""
        ids = [relay_id for relay_id, native in self.open.items() if is_meant(native)]
        for relay_id in ids:
            del self.open[relay_id]
        return [Withdrawn(relay_id) for relay_id in ids]


def question_relay(questions: Sequence[AskedQuestion], **more: Any) -> Relay:
    """A `Relay` for one question or several. With several, the answer is an object: id of the question → answer."""
    if len(questions) == 1:
        [question] = questions
        options = [option.label for option in question.options] or None
        more = {"question": question.question, "options": options, **more}
    else:
        more = {"question": "\n".join(question.question for question in questions), **more}
    return Relay(id="", kind="question", payload=msgspec.to_builtins({"questions": list(questions)}), **more)


def answers_of(questions: Sequence[AskedQuestion], answer: Any) -> dict[str, list[str]]:
    """The answers by question: from an object, from a list (several choices) or from one value for the only question."""
    if isinstance(answer, dict) and len(questions) == 1 and questions[0].id not in answer:
        answer = answer.get("answer", answer)
    answers: dict[str, list[str]] = {}
    for question in questions:
        choice = (
            answer.get(question.id, answer.get(question.question)) if isinstance(answer, dict) else answer
        )
        values = choice if isinstance(choice, list) else [] if choice is None else [choice]
        answers[question.id] = [
            value if isinstance(value, str) else _encode(value).decode() for value in values
        ]
    return answers
