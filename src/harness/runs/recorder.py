"""From the agent's bytes to raw entries: whole lines, secrets masked, everything stored on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import to_builtins
from msgspec.structs import replace

from harness.events import Event, Result, SessionStart, UsageDelta, Warning
from harness.formats.json_lines import LineBlocks
from harness.log import codec
from harness.log.hub import Hub, Source
from harness.log.raw import RawEntry, RawEvent, RawGateway, RawOutput, RawStart, RawWriter
from harness.log.redact.redactor import Redactor, redact_text, secrets_in
from harness.process.child import OutputChunk
from harness.runs.launch import Launch
from harness.runs.pipeline import Pipeline
from harness.usage.run_cost import CostMeter, prices_of, unpriced_warning
from harness.version import __version__

StreamName = Literal["stdout", "stderr"]

_MOST_UNWRITTEN_BYTES = 16 * 1024 * 1024
"""How much waits for a disk that refuses, before the oldest of it is given up."""


class Recorder:
    """Contract: what `entries` yields has no secret in it, and `write` has put it on disk before it is shown."""

    def __init__(self, launch: Launch, *, redact: bool) -> None:
        self._launch = launch
        self._secrets: dict[str, str] = {}
        self._blocks: dict[StreamName, LineBlocks] = {"stdout": LineBlocks(), "stderr": LineBlocks()}
        self._redactors: dict[StreamName, Redactor] = {}
        if redact:
            self._secrets = secrets_in(launch.invocation.env)
            self._redactors = {
                "stdout": Redactor(self._secrets, launch.delta_keys),
                "stderr": Redactor(self._secrets),
            }
        self._raw: RawWriter | None = None
        self._unwritten: list[RawEntry] = []
        self.failure: OSError | None = None
        """Set once the raw file could not be written."""

    def hide(self, secrets: Mapping[str, str]) -> None:
        """Mask these as well, each by its name. Only before anything was recorded."""
        if not self._redactors:
            return
        self._secrets |= {name: secret for name, secret in secrets.items() if secret}
        self._redactors = {
            "stdout": Redactor(self._secrets, self._launch.delta_keys),
            "stderr": Redactor(self._secrets),
        }

    def open(self, path: str) -> None:
        """Keep the raw entries in that file from now on."""
        try:
            self._raw = RawWriter(path)
        except OSError as error:
            self.failure = error

    def masked(self, text: str) -> str:
        if not self._redactors:
            return text
        return redact_text(text, self._secrets)

    def masked_bytes(self, data: bytes) -> bytes:
        """The same for lines that we write."""
        return self.masked(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def masked_all(self, value: Any) -> Any:
        """The same for every text in a value."""
        match value:
            case str():
                return self.masked(value)
            case list() | tuple():
                return [self.masked_all(item) for item in value]
            case dict():
                return {key: self.masked_all(item) for key, item in value.items()}
        return value

    def start_entry(self, at_ms: int, gateway: RawGateway | None = None) -> RawStart:
        launch = self._launch
        asked_request = launch.request
        if launch.gateway is not None:  # how it is pointed at a gateway is of no use to anybody later
            own = launch.gateway.asked
            asked_request = replace(
                asked_request, extra_args=own.extra_args, model=own.model, env=own.env, gateway=None
            )
        request = to_builtins(asked_request)
        request["env"] = sorted(request["env"])  # names only: values may be secrets
        for name in ("prompt", "prompt_id", "briefing", "attachments"):
            del request[name]
        return RawStart(
            at_ms=at_ms,
            agent=launch.agent.name,
            native=launch.request.native,
            version=launch.version,
            argv=self.masked_all(list(launch.invocation.argv)),
            cwd=launch.request.cwd,
            model=self.masked(asked_request.model),
            prompt=self.masked(launch.request.prompt),
            prompt_id=launch.request.prompt_id,
            files=self.masked_all(to_builtins(launch.request.attachments)),
            warnings=list(launch.warnings),
            sandbox=launch.sandbox,
            recorder=__version__,
            gateway=gateway,
            request=self.masked_all({key: value for key, value in request.items() if value}),
        )

    def entries(self, chunks: Sequence[OutputChunk], at_ms: int) -> Iterator[RawOutput]:
        """What the chunks make whole."""
        for chunk in chunks:
            block = self._blocks[chunk.stream].feed(chunk.data)
            if block:
                yield from self._masked_block(chunk.stream, block, at_ms)

    @property
    def holds_back(self) -> bool:
        """Whether something waits for its other half, and must be released soon."""
        return any(redactor.held for redactor in self._redactors.values())

    def release(self, at_ms: int) -> Iterator[RawOutput]:
        """What was held back, as it is."""
        for stream, redactor in self._redactors.items():
            if data := redactor.flush():
                yield RawOutput(at_ms=at_ms, stream=stream, data=data)

    def unfinished(self) -> list[OutputChunk]:
        """Lines that have begun and not ended, for another run of the same process: this one leaves them out."""
        rests = [OutputChunk(stream, blocks.finish()) for stream, blocks in self._blocks.items()]
        return [chunk for chunk in rests if chunk.data]

    def finish(self, at_ms: int) -> Iterator[RawOutput]:
        """What is left when the agent has ended: last lines without an end."""
        for stream, blocks in self._blocks.items():
            if rest := blocks.finish():
                yield from self._masked_block(stream, rest, at_ms)
        yield from self.release(at_ms)

    def write(self, entry: RawEntry) -> None:
        """Store an entry. While the disk refuses, `failure` is set, and what waits is tried again next time."""
        if self._raw is None:
            return
        self._unwritten.append(entry)
        try:
            while self._unwritten:
                self._raw.write(self._unwritten[0])
                del self._unwritten[0]
        except OSError as error:
            self.failure = error
            self._give_up_oldest()

    def close(self) -> None:
        if self._raw is not None:
            with suppress(OSError):
                for entry in self._unwritten:
                    self._raw.write(entry)
            self._raw.close()
            self._raw = None

    def _give_up_oldest(self) -> None:
        outputs = [entry for entry in self._unwritten if isinstance(entry, RawOutput)]
        too_much = sum(len(entry.data) for entry in outputs) - _MOST_UNWRITTEN_BYTES
        for entry in outputs:
            if too_much <= 0:
                return
            too_much -= len(entry.data)
            self._unwritten.remove(entry)

    def _masked_block(self, stream: StreamName, block: bytes, at_ms: int) -> Iterator[RawOutput]:
        redactor = self._redactors.get(stream)
        data = block if redactor is None else redactor.feed(block)
        if data:
            yield RawOutput(at_ms=at_ms, stream=stream, data=data)


# The log of one run of an agent program: raw entries go to disk, are translated, and become events of the log.


class TranslatedRun:
    """Contract: used by the thread of the run alone. `take` gets every entry of the run, in order."""

    def __init__(self, launch: Launch, hub: Hub, recorder: Recorder) -> None:
        self.result: Result | None = None
        self.session: SessionStart | None = None
        self.pipeline: Pipeline = Pipeline(launch.new_translator())
        self.cost: CostMeter = CostMeter(prices_of(launch.request.cwd), launch.request.model)
        self.source: Source = hub.source(launch.run_id or hub.log_id)
        self._recorder = recorder
        self._has_warned = False
        self._is_limited = _counts_money(launch)
        self._unpriced: frozenset[str] = frozenset()

    def take_all(self, entries: Iterable[RawEntry]) -> None:
        for entry in entries:
            self.take(entry)

    def take(self, entry: RawEntry) -> None:
        """Disk first, then the log, which shows it."""
        self._recorder.write(entry)
        events = list(self.pipeline.feed(entry))
        self.cost.note(events)
        if events and type(end := events[-1]) is Result and not end.run_id:
            events[-1] = self.cost.priced(end)
        if self._recorder.failure is not None and not self._has_warned:
            self._has_warned = True
            events.insert(0, _raw_incomplete(self._recorder.failure))
        if events:
            self._note(self.source.append(events, entry.at_ms))
        if self._is_limited and self.result is None and any(type(event) is UsageDelta for event in events):
            self._warn_of_unpriced(entry.at_ms)

    def _warn_of_unpriced(self, at_ms: int) -> None:
        """Say once of each model that the limit of the run does not count it."""
        news = sorted(self.cost.unpriced - self._unpriced)
        self._unpriced |= set(news)
        for model in news:
            self.give(unpriced_warning(model), at_ms)

    def give(self, event: Event, at_ms: int) -> Any:
        """Log what the program did not write, with secrets masked, so that the raw record gives it too."""
        masked, data = self.masked(event)
        self.take(RawEvent(at_ms=at_ms, event=msgspec.Raw(data)))
        return masked

    def masked(self, event: Event) -> tuple[Any, bytes]:
        """The event as the log may have it, and its JSON."""
        data = msgspec.json.encode(self._recorder.masked_all(codec.storable(codec.to_builtins(event))))
        return codec.decode(data), data

    def note(self, event: Event) -> None:
        """Log something that is said of the run, not by it: no raw record gives it."""
        self.source.append([event])

    def _note(self, events: Sequence[Event]) -> None:
        if self.session is None:
            self.session = next((event for event in events if type(event) is SessionStart), None)
        last = events[-1]
        if type(last) is Result and last.run_id == self.source.run_id:
            self.result = last


def _counts_money(launch: Launch) -> bool:
    """Whether what an agent program says it used is held against a limit of the run: a gateway refuses calls before that,
    and `harness budget` warns by itself.
    """
    has_limit = launch.request.limits.max_budget_usd is not None and "max_budget_usd" in launch.watched_limits
    return has_limit and launch.gateway is None and launch.budget is None


def _raw_incomplete(error: OSError) -> Warning:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return Warning(message=f"what the agent writes is not kept completely: {reason}", code="raw_incomplete")
