"""The scripted model: a gateway on loopback that answers every model API from one script.

    with LabServer(ScriptRun(script)) as server:
        ...  # point an agent at server.url

A path is matched by its end, so a base URL may have any prefix. Streams are sent event by event in chunks, and can
break in the middle; connections stay open. The server listens on 127.0.0.1 only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from harness.gateway.call_records import CallRecords
from harness.gateway.gateway import ModelGateway
from harness.gateway.http_requests import RequestBounds
from harness.gateway.tape import TapeWriter
from harness.lab.request_log import RequestEntry, RequestLog
from harness.lab.script_answers import ScriptAnswers
from harness.lab.script_run import ScriptRun
from harness.log.raw import RawGateway, RawStart
from harness.version import __version__

PAGE_PATH = "/lab/page"
_PAGE = (
    b"<!doctype html><html><head><title>Lab page</title></head>"
    b"<body><h1>Lab page</h1><p>Hello from the lab.</p></body></html>\n"
)
_HTML = "text/html; charset=utf-8"
_BOUNDS = RequestBounds(connections=1024)


class LabServer:
    """Contract: answers from its construction until `close`, which ends every open answer at once. `record_path` gets a
    tape of all calls.

    Raises UsageError when the port is taken or the tape cannot be written.
    """

    def __init__(
        self,
        script_run: ScriptRun | None = None,
        *,
        port: int = 0,
        record_path: str = "",
        recorded_as: RawStart | None = None,
        on_entry: Callable[[RequestEntry], object] | None = None,
    ) -> None:
        """`recorded_as`: what the tape says of the agent that asks, where that is known."""
        self.log = RequestLog(on_entry)
        self._closing = threading.Event()
        self._answers = ScriptAnswers(script_run, self.log, self._closing)
        self._tape = TapeWriter(record_path) if record_path else None
        try:
            self._gateway = ModelGateway(
                self._answers,
                records=CallRecords(self._tape.write) if self._tape is not None else None,
                port=port,
                bounds=_BOUNDS,
                pages={PAGE_PATH: (_HTML, _PAGE)},
                on_local=lambda call, local: self.log.note(call, local.status, local.outcome),
            )
        except BaseException:
            if self._tape is not None:
                self._tape.close()
            raise
        if self._tape is not None:
            self._tape.write([recorded_as or start_of_tape()])
        self.port = self._gateway.port
        self.url = self._gateway.url

    @property
    def script_run(self) -> ScriptRun | None:
        """May be given later, when it needs the server's own address."""
        return self._answers.script_run

    @script_run.setter
    def script_run(self, script_run: ScriptRun) -> None:
        self._answers.script_run = script_run

    @property
    def requests(self) -> list[RequestEntry]:
        """All so far, in order of arrival."""
        return self.log.entries

    @property
    def faults(self) -> list[BaseException]:
        """What went wrong in the server itself; should stay empty."""
        return self._gateway.faults

    @property
    def tape_failure(self) -> str:
        """Why nothing more is recorded; empty when all is well."""
        return self._tape.failure if self._tape is not None else ""

    def close(self) -> None:
        self._closing.set()
        self._gateway.close()
        if self._tape is not None:
            self._tape.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_of_tape(agent: str = "", *, version: str = "", cwd: str = "", home: str = "") -> RawStart:
    """How a tape begins. With the name of an agent it can be replayed."""
    return RawStart(
        at_ms=time.time_ns() // 1_000_000,
        agent=agent,
        version=version,
        cwd=cwd,
        recorder=__version__,
        gateway=RawGateway(mode="script", home=home),
    )
