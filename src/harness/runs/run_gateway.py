"""A gateway while its agent runs: opened before the process, closed after it, and recorded with it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec
from msgspec.structs import replace

from harness.contracts.request import GatewayOptions
from harness.errors import SpawnFailed
from harness.events import Relay, RelayReply, Warning
from harness.gateway.call import Answerer, GatewayCall
from harness.gateway.call_inlet import CallInlet
from harness.gateway.call_records import CallRecords
from harness.gateway.fingerprint import MatchContext
from harness.gateway.gateway import ModelGateway
from harness.gateway.pass_on import PassOn
from harness.gateway.played import Played
from harness.gateway.recorded import Playback, Recording
from harness.gateway.routed import RoutedModels
from harness.gateway.tape import joined, read_tape
from harness.gateway.translated import Translated
from harness.gateway.tunnels import Tunnels
from harness.log import codec
from harness.log.raw import RawAction, RawCall, RawControl, RawEntry, RawEvent, RawGateway, RawStart, read_raw
from harness.process.invocation import Invocation
from harness.runs.call_spending import CallSpending
from harness.runs.gateway_plan import GatewayPlan, ModelRoute, filled
from harness.runs.recorded_answers import RecordedAnswers
from harness.runs.sealing import proxy_environment, seal_around
from harness.sandbox.protected_paths import missing_names
from harness.sandbox.rungs import NAMESPACES
from harness.system.contract import system

_SHORTEST_KEY = 8
_LISTENER = "listener"
_DIAL_S = 15.0
_UPWARDS = f"..{os.sep}.."
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]")
TOKEN_PREFIX = "hgw-"  # noqa: S105
"""The dummy key of a run begins with it."""


class RunGateway:
    """Contract: listens from its construction until `close`. What it records is in `inlet`, for the run to take.

    Raises UsageError for a recording that cannot be read.
    """

    def __init__(
        self,
        plan: GatewayPlan,
        cwd: str,
        mask: Callable[[bytes], bytes],
        spending: CallSpending | None = None,
        *,
        may_serve: bool = False,
    ) -> None:
        """`may_serve`: the program is a server, which we talk to."""
        self.inlet: CallInlet = CallInlet()
        self.played: Played | None = None
        """Of a replay."""
        self._answers: RecordedAnswers | None = None
        self.spending = spending
        """Of the run that is open; None: nothing limits it."""
        self._plan = plan
        self._cwd = cwd
        self._may_serve = may_serve
        self._inside: socket.socket | None = None
        """The way into the network of a sealed program."""
        self._dialling = threading.Lock()
        self._token = TOKEN_PREFIX + secrets.token_urlsafe(24)
        self._closers: list[Callable[[], object]] = []
        with _said_as_failed_start():
            self._folder = tempfile.mkdtemp(prefix="harness-gateway-")
            self._closers.append(partial(shutil.rmtree, self._folder, ignore_errors=True))
            self._open(mask)

    def _open(self, mask: Callable[[bytes], bytes]) -> None:
        plan = self._plan
        try:
            self.home: str = os.path.join(self._folder, "home") if plan.has_own_home else plan.start.home
            recording = _recording(plan)
            context = self._context(recording)
            answerer = self._answerer(recording, context)
            self._records = CallRecords(
                self.inlet.put,
                mask=self._masking(mask),
                context=context,
                keeps_bodies=plan.options.keeps_bodies,
            )
            tunnel = Tunnels(plan.options.allow_hosts) if plan.options.allow_hosts else None
            self._gateway = ModelGateway(
                answerer,
                token=self._token,
                records=self._records,
                tunnel=tunnel,
                is_token_in_path=plan.options.passes_login,
            )
            self._closers.append(self._gateway.close)
        except BaseException:
            self._clean_up()
            raise

    @property
    def start(self) -> RawGateway:
        """For the beginning of the raw record."""
        return replace(self._plan.start, home=self.home)

    @property
    def port(self) -> int:
        return self._gateway.port

    @property
    def faults(self) -> list[BaseException]:
        return self._gateway.faults

    def pointed(self, invocation: Invocation) -> Invocation:
        """The same command, with this gateway in place of the marks. Writes the files that the agent needs.

        Raises SpawnFailed.
        """
        with _said_as_failed_start():
            return self._pointed(invocation)

    def _pointed(self, invocation: Invocation) -> Invocation:
        config = filled(self._plan.config, self._gateway.url, self._token, self._folder)
        base = self.home if self._plan.has_own_home else self._folder
        folders = [
            base,
            *(config.env.get(name, "") for name in ("TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME")),
        ]
        folders += [config.env.get(name, "") for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")]
        for folder in filter(None, folders):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        for name, content in config.files.items():
            path = os.path.join(base, name)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        argv = filled(invocation.argv, self._gateway.url, self._token, self._folder)
        env = filled(dict(invocation.env), self._gateway.url, self._token, self._folder)
        if self._plan.options.allow_hosts:
            env |= proxy_environment(self._gateway.url, self._token)
        invocation = replace(invocation, argv=argv, env=env)
        return self._sealed(invocation) if self._plan.seal is not None else invocation

    def _sealed(self, invocation: Invocation) -> Invocation:
        assert self._plan.seal is not None
        outside = tempfile.mkdtemp(prefix="harness-gateway-")  # not seen by the program
        self._closers.append(partial(shutil.rmtree, outside, ignore_errors=True))
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._closers.append(waiting.close)
        folder = os.open(outside, os.O_RDONLY)
        try:  # the folder's own path may be longer than that of a socket can be
            waiting.bind(f"{system.descriptor_path(folder)}/{_LISTENER}")
        finally:
            os.close(folder)
        waiting.listen(1)
        threading.Thread(
            target=self._take_listener, args=(waiting,), name="gateway-handout", daemon=True
        ).start()
        own = (self.home,) if self._plan.has_own_home else (self._folder,)
        path = os.path.join(outside, _LISTENER)
        if self._plan.seal is NAMESPACES:
            invocation = replace(invocation, dial=self._dial)
        return seal_around(
            self._plan.seal,
            self._plan.agent,
            invocation,
            port=self.port,
            listener_path=path,
            own=own,
            may_serve=self._may_serve,
        )

    def _take_listener(self, waiting: socket.socket) -> None:
        """From the network of a sealed program: once, before the program starts."""
        try:
            connection = waiting.accept()[0]
        except OSError:
            return  # nothing was started
        self._closers.append(connection.close)
        try:
            _, descriptors, _, _ = socket.recv_fds(connection, 16, 1)
            for descriptor in descriptors:
                self._gateway.listen_on(socket.socket(fileno=descriptor))
            self._inside = connection
            connection.sendall(b"y")
        except OSError:
            connection.close()

    def _dial(self, port: int) -> socket.socket:
        """A connection to a server of the sealed program. Raises OSError."""
        with self._dialling:
            if self._inside is None:
                raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            self._inside.settimeout(_DIAL_S)
            self._inside.sendall(port.to_bytes(2, "big"))
            answer, descriptors, _, _ = socket.recv_fds(self._inside, 4, 1)
        if not descriptors:
            number = int.from_bytes(answer, "big") or errno.ECONNREFUSED
            raise OSError(number, os.strerror(number))
        return socket.socket(fileno=descriptors[0])

    def take(self, handle: Callable[[RawCall | RawControl | RawEvent], object]) -> None:
        self.inlet.take(handle)

    def end_run(self, handle: Callable[[RawCall | RawControl | RawEvent], object]) -> None:
        """The run is over, the program may be asked again: what comes from now on is of the next run."""
        self.inlet.detach()
        self._records.cut(lambda: self.inlet.take(handle))
        self.spending = None

    def recorded_answer(self, relay: Relay) -> RelayReply | None:
        """How a question was answered in the recording; None: it was not asked there, or a model makes the calls now."""
        if self._answers is None or self.played is None or self.played.forked_after is not None:
            return None
        return self._answers.answer(relay)

    def refusal(self, call: GatewayCall) -> str:
        """Contract: that of `Spending`, for the run that is open."""
        spending = self.spending
        if spending is None:
            return ""
        refusal = spending.refusal(call)
        for warning in spending.take_warnings():
            self._warn(warning)
        return refusal

    def close(self) -> None:
        """What is open ends now; what was answered is in the inlet."""
        self.inlet.detach()
        self._clean_up()

    def _clean_up(self) -> None:
        closers, self._closers = self._closers, []
        for close in reversed(closers):
            close()

    @property
    def secrets(self) -> dict[str, str]:
        """The token, and the key, by what they are called where they are masked: neither is ever written."""
        keys: list[str] = []
        sources: list[GatewayPlan | ModelRoute] = [self._plan, *self._plan.routes]
        for source in sources:
            headers = source.upstream.key_headers if source.upstream is not None else ()
            keys += [*(value.removeprefix("Bearer ") for _, value in headers), source.model_key]
        long = [key for key in dict.fromkeys(keys) if len(key) >= _SHORTEST_KEY]
        numbered = {f"provider key {number}": key for number, key in enumerate(long, 1)}
        return {"gateway token": self._token, **numbered}

    def _masking(self, mask: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        hidden = [secret.encode() for secret in self.secrets.values()]

        def masked(data: bytes) -> bytes:
            for secret in hidden:
                data = data.replace(secret, b"***")
            return mask(data)

        return masked

    def _context(self, recording: Recording | None) -> MatchContext:
        places = _places(self._cwd, self.home)
        for start in recording.starts if recording is not None else ():
            places += _recorded_places(start)
        pointing = self._plan.pointing
        return MatchContext(
            places=tuple(pair for pair in dict.fromkeys(places) if len(pair[0]) > 1),
            result_noise=pointing.result_noise,
            reminders=pointing.reminders,
            stand_ins=_stand_ins(self._plan),
        )

    def _answerer(self, recording: Recording | None, context: MatchContext) -> Answerer:
        model = self._model() if self._plan.mode != "replay" else None
        if recording is None:
            assert model is not None
            return model
        options = self._plan.options
        names = {name: path for path, name in _places(self._cwd, self.home)}
        pairs = [pair for start in recording.starts for pair in _recorded_places(start)]
        places: Mapping[str, str] = {path: names[name] for path, name in pairs if name in names}
        self._answers = RecordedAnswers(_entries(options), places, has_live_calls=model is not None)
        self.played = Played(
            Playback(recording, context, places, is_strict=options.is_strict),
            on_parted=lambda reason: self._stop("parted", reason),
            on_difference=(lambda what: self._stop("differs", f": {what}")) if options.is_strict else None,
            fork_at=options.fork_at,
            then=model,
            keeps_pace=options.keeps_pace,
        )
        self._closers.append(self.played.close)
        return self.played

    def _model(self) -> Answerer:
        usual = self._answering(self._plan)
        routes = [(route.pattern, self._answering(route)) for route in self._plan.routes]
        return RoutedModels(routes, usual) if routes else usual

    def _answering(self, source: GatewayPlan | ModelRoute) -> Answerer:
        if source.open_model is not None:
            translated = Translated(source.open_model, spending=self, on_losses=self._note_losses)
            self._closers.append(translated.close)
            return translated
        assert source.upstream is not None, "who answers is decided before a run starts"
        passed = PassOn(source.upstream, model=source.model.partition("/")[2], spending=self)
        self._closers.append(passed.close)
        return passed

    def _note_losses(self, losses: Sequence[str]) -> None:
        message = f"the model is asked through another API, which has no word for: {', '.join(losses)}"
        self._warn(Warning(message=message, code="gateway_translation"))

    def _warn(self, warning: Warning) -> None:
        at_ms = time.time_ns() // 1_000_000
        self.inlet.put(
            [RawEvent(at_ms=at_ms, event=msgspec.Raw(msgspec.json.encode(codec.to_builtins(warning))))]
        )

    def _stop(self, action: RawAction, detail: str) -> None:
        at_ms = time.time_ns() // 1_000_000
        self.inlet.put([RawControl(at_ms=at_ms, action=action, detail=detail)])


@contextmanager
def _said_as_failed_start() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpawnFailed(
            f"the gateway of this run cannot be set up: {reason}",
            hint=f"check that files can be made in {tempfile.gettempdir()}, the folder for temporary files (TMPDIR)",
        ) from error


def _recording(plan: GatewayPlan) -> Recording | None:
    if not plan.options.recording:
        return None
    entries = _entries(plan.options)
    starts = [entry for entry in entries if isinstance(entry, RawStart)]
    pointing = plan.pointing
    context = MatchContext(
        places=tuple(dict.fromkeys(pair for start in starts for pair in _recorded_places(start))),
        result_noise=pointing.result_noise,
        reminders=pointing.reminders,
        stand_ins=_stand_ins(plan),
    )
    return Recording(entries, context)


def _stand_ins(plan: GatewayPlan) -> tuple[str, ...]:
    """What a seal puts into the workspace, so that nothing is made there: a recorded run may have had no seal."""
    if plan.seal is None or not plan.options.recording:
        return ()
    return missing_names(plan.asked.cwd)


def _entries(options: GatewayOptions) -> list[RawEntry]:
    """Of the whole conversation. Raises UsageError."""
    return list(joined(map(entries_of, (options.recording, *options.further))))


def entries_of(path: str) -> list[RawEntry]:
    """Of a raw record, or of a tape. Raises UsageError."""
    if path.endswith(".raw"):
        return list(read_raw(path))
    return list(read_tape(path).entries)


def _recorded_places(start: RawStart) -> list[tuple[str, str]]:
    return _places(start.cwd, start.gateway.home if start.gateway is not None else "")


def _places(cwd: str, home: str) -> list[tuple[str, str]]:
    """Folders, and what stands for each. Some agents tell their model the way from the one to the other."""
    way = os.path.relpath(home, cwd) if os.path.isabs(home) and os.path.isabs(cwd) else ""
    # Some name a folder of theirs after the path of the project; of a short one that could be any word.
    slug = _NOT_IN_NAMES.sub("-", cwd) if cwd.count(os.sep) > 2 else ""
    pairs = (
        *((cwd, "<cwd>"), (home, "<home>"), (slug, "<cwd as a name>")),
        (way if way.startswith(_UPWARDS) else "", "<way home>"),
    )
    return [pair for pair in pairs if len(pair[0]) > 1]
