"""Recordings of real agent programs against the scripted model, one file a session: `PROGRAM-WHAT.tape`.

tour: parallel calls, an edit, a sub-agent. rough: 429, 529, a stream that breaks off. hosts: with telemetry left on.
image, compaction: as named.
"""

from __future__ import annotations

from pathlib import Path

from harness.gateway.fingerprint import MatchContext
from harness.gateway.recorded import Recording
from harness.gateway.tape import read_tape
from harness.log.raw import RawStart

TAPES = sorted((Path(__file__).parent / "tapes").glob("*.tape"))


def recording(path: Path) -> tuple[Recording, MatchContext]:
    entries = read_tape(str(path)).entries
    start = entries[0]
    assert isinstance(start, RawStart)
    assert start.gateway is not None
    context = MatchContext(places=((start.cwd, "<cwd>"), (start.gateway.home, "<home>")))
    return Recording(entries, context), context
