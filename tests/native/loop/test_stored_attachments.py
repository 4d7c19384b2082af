"""Images and files that tools give are in the log, and a conversation that is taken up again still has them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conversation_kit import Talk, in_loop
from harness import FileStore, Request, start
from harness.contracts.model import Ask, Attachment, ToolTurn
from harness.contracts.tool import ToolContext, ToolOutput
from harness.conversation.turns import tool_turn
from harness.events import ToolEnd
from harness.folds.run_events.events import outcome_of
from harness.log.codec import decode, encode
from harness.native.loop import tool_messages
from harness.native.tools.function_tool import tool
from played_model import calls, play, says

PNG = Attachment("image/png", b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(200))).decode(), "dot.png")
PDF = Attachment("application/pdf", b64encode(b"%PDF-1.4 nothing").decode())


@tool(quick=True)
def picture() -> ToolOutput:
    """Give a picture."""
    return ToolOutput(text="here it is", attachments=(PNG, PDF))


@tool
async def ask(context: ToolContext) -> str:
    """Ask a person."""
    return str(await context.suspend("why?"))


def given(*attachments: Attachment, text: str = "here") -> Any:
    @tool(quick=True)
    def give() -> ToolOutput:
        return ToolOutput(text=text, attachments=attachments)

    return give


def end_of(*attachments: Attachment, **options: Any) -> tuple[ToolEnd, ToolTurn]:
    """What the log and the model get of them."""
    played = play(calls(("c", "give", {})), says("ok"), tools=(given(*attachments),), **options)
    [end] = played.of(ToolEnd)
    turn = played.model.asked[1][0][-1]
    assert isinstance(turn, ToolTurn)
    read_back = decode(encode(end))
    assert isinstance(read_back, ToolEnd)
    assert tool_turn("c", read_back) == turn
    return end, turn


@in_loop
async def test_another_process_shows_the_model_the_same_pictures() -> None:
    first = Talk(calls(("c", "picture", {})), says("seen"), tools=(picture,))
    await first.send("look")
    first.check()
    second = first.elsewhere(says("still here"), tools=(picture,))
    await second.send("again")
    second.check()

    assert ToolTurn("c", "here it is", attachments=(PNG, PDF)) in second.model.asked[0][0]


@in_loop
async def test_a_run_that_waited_still_has_the_pictures_of_its_other_calls() -> None:
    first = Talk(calls(("c", "picture", {}), ("q", "ask", {})), tools=(picture, ask))
    await first.send("look")
    first.check()
    second = first.elsewhere(says("so"), tools=(picture, ask))
    await second.answer("because")
    second.check()

    emitted = second.model.asked[0][0][-2:]
    assert emitted == (ToolTurn("c", "here it is", attachments=(PNG, PDF)), ToolTurn("q", "because"))


def test_a_picture_that_was_read_is_seen_again_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.models.scripted import Scripted

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    seen: list[Ask] = []
    answer = Scripted.answer

    def remembering(self: Scripted, ask: Ask) -> Any:
        seen.append(ask)
        return answer(self, ask)

    monkeypatch.setattr(Scripted, "answer", remembering)
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(200)))
    script, store = tmp_path / "script.json", FileStore(str(tmp_path / "sessions"))

    def run(*events: Any, **options: Any) -> str:
        script.write_bytes(msgspec.json.encode({"responses": [{"events": [event]} for event in events]}))
        request = Request(
            agent="native", model=f"scripted/{script}", prompt="go", cwd=str(tmp_path), **options
        )
        begun = start(request, store=store)
        assert begun.wait().success
        return begun.id

    said = {"type": "text", "content": "A dot."}
    first = run({"type": "tool_call", "name": "read", "input": {"filePath": "dot.png"}}, said)
    run(said, resume=first)

    [live] = [turn for turn in seen[1].turns if isinstance(turn, ToolTurn)]
    [read_back] = [turn for turn in seen[2].turns if isinstance(turn, ToolTurn)]
    assert live == read_back
    assert live.attachments == (PNG,)


def test_a_text_file_is_reported_with_the_text_so_that_it_is_masked_and_shortened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "tok-8f3a9c2e7b")
    note = Attachment("text/plain", b64encode(b"it is tok-8f3a9c2e7b").decode(), "note.txt")
    played = play(calls(("c", "give", {})), says("ok"), tools=(given(note, PNG),), redact=True)

    [end] = played.of(ToolEnd)
    assert "8f3a9c2e7b" not in encode(end).decode()
    assert end.output.startswith('here\n<file name="note.txt">\nit is ')
    assert [part["media_type"] for part in end.parts] == ["image/png"]
    emitted = played.model.asked[1][0][-1]
    assert emitted == ToolTurn(
        "c", 'here\n<file name="note.txt">\nit is tok-8f3a9c2e7b\n</file>', attachments=(PNG,)
    )

    long = Attachment("text/csv", b64encode(b"1,2,3\n" * 5000).decode())
    end, turn = end_of(long, most_output_characters=100)
    assert "characters left out" in turn.text
    assert (end.parts, turn.attachments) == (None, ())


def test_bytes_that_look_like_a_secret_are_left_as_they_are() -> None:
    looks_so = Attachment("image/png", PNG.data[:12] + "AKIAIOSFODNN7EXAMPLF" + "AAAA")
    played = play(calls(("c", "give", {})), says("ok"), tools=(given(looks_so),), redact=True)

    [end] = played.of(ToolEnd)
    assert tool_turn("c", end).attachments == (looks_so,)


def test_what_is_too_large_is_said_and_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_messages, "MOST_ATTACHED_CHARACTERS", len(PNG.data) + 10)
    end, turn = end_of(PNG, PNG, PDF)

    assert turn.attachments == (PNG,)
    assert turn.text == (
        "here\n[dot.png: 0.0 MB, too large to be shown]\n[application/pdf: 0.0 MB, too large to be shown]"
    )
    assert end.parts is not None
    assert len(end.parts) == 1


def test_a_file_is_what_is_in_it_whatever_it_is_called() -> None:
    jpeg = b64encode(b"\xff\xd8\xff\xe0 and so on").decode()
    page = b64encode(b"<html>not found</html>").decode()
    _end, turn = end_of(Attachment("image/png", jpeg, "a.png"), Attachment("image/png", page, "b.png"))

    assert turn.attachments == (Attachment("image/jpeg", jpeg, "a.png"),)
    assert turn.text == "here\n[b.png: what is in it is not image/png]"
    assert end_of(Attachment("image/png", "no base64!"))[1].attachments == ()
    other = Attachment("audio/wav", b64encode(b"RIFF").decode())
    assert end_of(other)[1].attachments == (other,)


def test_a_log_without_parts_is_read_as_before_and_what_is_reported_of_a_call_has_no_bytes() -> None:
    old = decode(b'{"type":"ToolEnd","seq":3,"call_id":"r/c","tool_name":"read","success":true,"output":"x"}')
    assert isinstance(old, ToolEnd)
    assert tool_turn("c", old) == ToolTurn("c", "x")
    end, _turn = end_of(PNG)
    assert outcome_of(end) == {"context": "here"}
