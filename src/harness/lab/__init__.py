"""The lab: a scripted model for real agents, on loopback, in every wire format that they speak.

A script (`read_script`) says what the model answers; a `Server` answers so; a bench (`load_bench`) says
how one agent is run offline and what each call by meaning is in its own words. `Rehearsal` is all of it.
"""

from __future__ import annotations

from harness.lab.bench import Bench, Place, Rig, bench_names, load_bench, set_up
from harness.lab.journal import Entry
from harness.lab.play import Play
from harness.lab.rehearsal import Rehearsal
from harness.lab.script import Script
from harness.lab.script_file import parse_script, read_script
from harness.lab.server import Server

__all__ = [
    "Bench",
    "Entry",
    "Place",
    "Play",
    "Rehearsal",
    "Rig",
    "Script",
    "Server",
    "bench_names",
    "load_bench",
    "parse_script",
    "read_script",
    "set_up",
]
