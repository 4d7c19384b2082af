"""Conversations for the tests of handing over: those of all recorded stores, and one that was made up.

`make golden` rewrites the expected files of `golden/`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.contracts.conversation import (
    HandedAnswer,
    HandedCall,
    HandedConversation,
    HandedPrompt,
    Losses,
)
from harness.contracts.history import Home
from harness.contracts.writer import HandoverPlace, HandoverWriter, with_origin
from harness.events.operation import Command, Fetch, List, Read, Search, Write
from harness.folds.handed_conversation import conversation_of
from harness.histories.handover.budget import within_budget
from harness.histories.handover.registry import load, names

sys.path.insert(0, str(Path(__file__).parents[1]))
from stored_homes import cases, opened, sessions

GOLDEN = Path(__file__).parent / "golden"
CWD = "/workspace/shop"
AT_MS = 1_794_770_000_000


def writers() -> list[HandoverWriter]:
    return [writer for name in names() if (writer := load(name)) is not None]


def place(home: str, session_id: str = "", *, cwd: str = CWD) -> HandoverPlace:
    return HandoverPlace(
        home=Home(home, {}, (cwd,)),
        cwd=cwd,
        folder=f"{home}/own",
        session_id=session_id or "11111111-2222-4333-8444-555555555555",
        version="1.2.3",
    )


@cache
def recorded() -> dict[str, HandedConversation]:
    """Of every session of every recorded store in which something was said."""
    return dict(_recorded())


def _recorded() -> Iterator[tuple[str, HandedConversation]]:
    for case in cases():
        with TemporaryDirectory() as directory:
            for session in sessions(case, case.unpack(Path(directory))):
                conversation = conversation_of(opened(case, session).events())
                if conversation.turns:
                    yield f"{case} {session.session_id}", with_origin(within_budget(conversation))


def _call(
    name: str, asked: object, operation: object, output: str, *, has_failed: bool = False
) -> HandedCall:
    operations = () if operation is None else (operation,)
    return HandedCall(
        tool_name=name,
        input=asked,
        operations=operations,  # type: ignore[arg-type]
        output=output,
        has_failed=has_failed,
        at_ms=AT_MS + 2_000,
        ended_ms=AT_MS + 3_000,
    )


def made_up() -> HandedConversation:
    """Every kind of turn and of call."""
    app = f"{CWD}/src/app.py"
    edit = {"path": app, "edits": [{"oldText": "a + b", "newText": "a - b"}]}
    calls = (
        _call(
            "shell",
            {"command": ["bash", "-lc", "make test"]},
            Command(command="make test"),
            "1 failed",
            has_failed=True,
        ),
        _call("view", {"p": app}, Read(path=app, start_line=2, end_line=4), "b\nc\nd"),
        _call("look", {"q": "total"}, Search(query="total", path=CWD), "src/app.py:1"),
        _call("dir", {}, List(path=CWD), "src"),
        _call("put", {"content": "one\n"}, Write(path=f"{CWD}/made.txt"), "ok"),
        _call("change", edit, Write(path=app), "ok"),
        _call("patches", {"changes": 2}, Write(path=app), "ok"),
        _call("web/fetch it", "https://example.org", Fetch(url="https://example.org"), "<p>hello</p>"),
        _call("Bash", {"weird": True}, None, "(no output)"),
    )
    return with_origin(
        HandedConversation(
            agent="otter",
            version="9.9",
            session_id="s-1",
            cwd=CWD,
            turns=(
                HandedPrompt(text="Fix «total» 🦦\nplease", at_ms=AT_MS),
                HandedAnswer(text="I look first.", calls=calls[:4], at_ms=AT_MS + 1_000),
                HandedAnswer(calls=calls[4:], at_ms=AT_MS + 4_000),
                HandedAnswer(text="Done.\n\n```py\nx = 1\n```", at_ms=AT_MS + 5_000),
                HandedPrompt(text="And now?", at_ms=AT_MS + 6_000),
                HandedAnswer(text="Nothing more.", at_ms=AT_MS + 7_000),
            ),
            losses=Losses(reasoning=True, shortened=3),
        )
    )


def golden_files(writer: HandoverWriter) -> dict[str, bytes]:
    """Name → what the writer makes of the made-up conversation, in a home of no machine."""
    files = writer.files(made_up(), place("/home/user"))
    return {
        f"{writer.agent}{Path(file.path).suffix if number == 0 else f'-{Path(file.path).name}'}": b"".join(
            (file.path.encode(), b"\n", file.data)
        )
        for number, file in enumerate(files)
    }
