"""How much of a conversation a provider need not read again: no times, bytes on the wire, in all four APIs.

usage: python benchmarks/prefix.py [anthropic|responses|chat|gemini]...      (default: all)

`harness chat -a native` sends ten messages to a scripted server on loopback. Meanwhile a file appears at the top of the folder,
the program is ended and another one continues, the mode is changed twice, and in the end the conversation is summed up. Providers
read tools, then instructions, then turns; what a request shares with the one before it, from the first byte on, comes from
their cache. Only a summary may break it, and once. Exit code 1 if anything else does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from harness.lab import LabServer, ScriptRun, parse_script

MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-6",
    "responses": "openai/gpt-5.5",
    "chat": "openai-chat/gpt-5.5",
    "gemini": "gemini/gemini-2.5-pro",
}
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
_LIST = '{ tool = "list", input = {} }'
_FILE = '{ tool = "bash", input = { command = "touch a-new-file-at-the-top" } }'
# The first process sends five messages, the one that continues five more, and sums up.
FIRST = ("one", "two", "make a file", "four", "five")
SECOND = ("six", "seven", "/mode plan", "eight", "/mode build", "nine", "ten", "/compact", "eleven")
TURNS = (
    ('{ text = "One." }', "message 1"),
    (_LIST, "message 2"),
    ('{ text = "Two." }', "its call"),
    (_FILE, "message 3"),
    ('{ text = "Three." }', "a new file at the top"),
    ('{ text = "Four." }', "message 4"),
    ('{ text = "Five." }', "message 5"),
    ('{ text = "Six." }', "message 6, after a restart"),
    (_LIST, "message 7"),
    ('{ text = "Seven." }', "its call"),
    ('{ text = "Eight." }', "message 8, in plan mode"),
    ('{ text = "Nine." }', "message 9, in build mode"),
    ('{ text = "Ten." }', "message 10"),
    ('{ text = "Goal: count. Done: ten messages." }', "asked for a summary"),
    ('{ text = "Eleven." }', "message 11, after the summary"),
)
SCRIPT = "turns = [\n{}\n]\norder = 'arrival'".format(",\n".join(turn for turn, _ in TURNS))


class Sent(NamedTuple):
    what: str
    bytes: int
    reused: int
    before: int
    """Bytes of the request before."""

    @property
    def is_whole(self) -> bool:
        return self.reused == self.before


def as_read(body: dict[str, Any]) -> bytes:
    """In the order in which providers read it, without the marks that say where Anthropic's cache is to end."""
    first = [body.get(name) for name in ("tools", "system", "instructions", "systemInstruction")]
    turns = next(body[name] for name in ("messages", "input", "contents") if name in body)
    return b"\n".join(json.dumps(_unmarked(part)).encode() for part in (*first, *turns))


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(inner) for name, inner in value.items() if name != "cache_control"}
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value


def shared(before: bytes, after: bytes) -> int:
    """How many bytes both begin with."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(before), len(after)))


def requests_of(bodies: Sequence[dict[str, Any]]) -> Iterator[Sent]:
    read = [as_read(body) for body in bodies]
    names = [what for _, what in TURNS]
    yield Sent(names[0], len(read[0]), 0, 0)
    for what, (before, after) in zip(names[1:], pairwise(read), strict=False):
        yield Sent(what, len(after), shared(before, after), len(before))


def talk(model: str) -> list[dict[str, Any]]:
    """The bodies that the server was sent."""
    with tempfile.TemporaryDirectory(prefix="harness-prefix-") as home, LabServer() as server:
        server.script_run = ScriptRun(parse_script(tomllib.loads(SCRIPT)))
        work = Path(home, "work")
        work.mkdir()
        urls = {
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "GOOGLE_GEMINI_BASE_URL": server.url,
        }
        places = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"), home)
        environ = {**os.environ, **urls, **places, **dict.fromkeys(KEYS, "lab-key")}
        words = [sys.executable, "-m", "harness", "chat", "-a", "native", "-m", model, "-d", str(work)]
        words += ["--permissions", "full-access"]
        for lines, more in ((FIRST, ()), (SECOND, ("--resume", "last"))):
            text = "".join(f"{line}\n" for line in lines)
            subprocess.run(
                [*words, *more], input=text, env=environ, check=True, capture_output=True, text=True
            )
        return [entry.body for entry in server.requests if entry.outcome in ("answered", "over")]


def main() -> int:
    wanted = sys.argv[1:] or list(MODELS)
    if unknown := [name for name in wanted if name not in MODELS]:
        sys.exit(f"unknown API: {', '.join(unknown)}; there are: {', '.join(MODELS)}")
    is_broken = False
    for api in wanted:
        bodies = talk(MODELS[api])
        rows = list(requests_of(bodies))
        print(f"\n{api}: {'request':<40} {'bytes':>9} {'reused':>9} {'of the one before':>18}")
        for row in rows:
            share = f"{100 * row.reused / row.before:.1f} %" if row.before else "–"
            print(f"{'':{len(api) + 1}} {row.what:<40} {row.bytes:>9,} {row.reused:>9,} {share:>18}")
        whole = rows[1:-1]
        reused, read = sum(row.reused for row in whole), sum(row.before for row in whole)
        print(f"{api}: {reused:,} of {read:,} bytes reused up to the summary, {len(rows)} requests")
        if keys := {body["prompt_cache_key"] for body in bodies if "prompt_cache_key" in body}:
            print(f"{api}: {len(keys)} prompt_cache_key in {len(bodies)} requests of two processes")
        is_broken |= len(rows) != len(TURNS) or not all(row.is_whole for row in whole) or len(keys) > 1
    return int(is_broken)


if __name__ == "__main__":
    sys.exit(main())
