"""A secret that is cut over the pieces of a streamed text never shows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log.redact.redactor import Redactor
from planted_secrets import (
    KNOWN,
    PEM,
    PEM_BODY,
    STREAMED,
    assert_unseen,
    delta,
    delta_text,
    json_line,
    made_up,
    redacted,
)


@pytest.mark.parametrize("secret", [*[text for text, _ in STREAMED], *KNOWN.values()])
@pytest.mark.parametrize("one_block", [True, False])
def test_a_secret_cut_in_two_anywhere_never_shows(secret: str, one_block: bool) -> None:
    hidden = next((hidden for text, hidden in STREAMED if text == secret), secret)
    for cut in range(1, len(secret)):
        lines = [
            delta("the key: "),
            delta(secret[:cut], 1),
            b'{"other":1}\n',
            delta(secret[cut:], 2),
            delta(" done"),
        ]
        redactor = Redactor(KNOWN, ("text",))
        blocks = [b"".join(lines)] if one_block else lines
        output = b"".join(redactor.feed(block) for block in blocks)
        assert not redactor.held
        check_streamed(output, secret, hidden)
        assert output.split(b"\n")[2] == b'{"other":1}'


def check_streamed(output: bytes, secret: str, hidden: str) -> None:
    text = delta_text(output)
    assert text.startswith("the key: ")
    assert text.endswith(" done")
    assert text.count("[REDACTED:") == 1
    shown = text.removeprefix("the key: ").partition("[REDACTED:")[0]
    assert secret.startswith(shown)
    # A prefix that everybody knows may have gone out before there was a secret behind it.
    leaked = max(0, len(shown) - secret.index(hidden))
    assert leaked < len("github_pat_") + 4
    assert_unseen(hidden[leaked:], output)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_secret_cut_in_three_with_anything_between_never_shows(data: st.DataObject) -> None:
    secret, hidden = data.draw(st.sampled_from([*STREAMED, *[(value, value) for value in KNOWN.values()]]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(secret)), min_size=2, max_size=2)))
    pieces = ["the key: " + secret[: cuts[0]], secret[cuts[0] : cuts[1]], secret[cuts[1] :] + " done"]
    noise = st.lists(st.sampled_from([b"plain\n", b'{"uuid":"6b0d549b","n":1}\n', delta("")]), max_size=2)
    lines: list[bytes] = []
    for number, piece in enumerate(pieces):
        lines += [*data.draw(noise), delta(piece, number)]
    redactor = Redactor(KNOWN, ("text", "delta"))
    output = b""
    while lines:
        count = data.draw(st.integers(1, len(lines)))
        output += redactor.feed(b"".join(lines[:count]))
        before, lines = lines[:count], lines[count:]
        assert redactor.held or output.endswith(before[-1][-4:])
    assert not redactor.held
    others = [line for line in output.split(b"\n") if b"text_delta" not in line]
    assert all(line in {b"", b"plain", b'{"uuid":"6b0d549b","n":1}'} for line in others)
    check_streamed(b"\n".join(line for line in output.split(b"\n") if b"text_delta" in line), secret, hidden)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_secret_in_many_pieces_with_flushes_shows_at_most_its_first_characters(data: st.DataObject) -> None:
    secret = data.draw(st.sampled_from(list(KNOWN.values())))
    redactor = Redactor(KNOWN, ("text",))
    output = b""
    rest = "the key: " + secret + " done"
    while rest:
        size = data.draw(st.integers(1, 9))
        output += redactor.feed(delta(rest[:size]))
        rest = rest[size:]
        if data.draw(st.booleans()):
            output += redactor.flush()
            assert not redactor.held
    output += redactor.flush()
    text = delta_text(output)
    public = len("sk-ant-") if secret.startswith("sk-ant-") else 0
    assert text.startswith("the key: ")
    assert text.endswith(" done")
    assert text.count("[REDACTED:") == 1
    shown = text.removeprefix("the key: ").removesuffix(" done").partition("[REDACTED:")[0]
    assert secret.startswith(shown)
    assert len(shown) < public + 8
    assert text.endswith("] done")


def test_a_line_waits_only_for_a_significant_beginning_and_is_released_as_it_was() -> None:
    value = KNOWN["DEPLOY_TOKEN"]
    redactor = Redactor(KNOWN, ("text",))
    for harmless in ("no secret", value[:3], "sk-ant-abc", "ghp_", "https://host:8080"):
        line = delta(harmless)
        assert redactor.feed(line) is line
        assert not redactor.held
    suspicious, other, decided = delta(f"x {value[:6]}"), b'{"text":1}\n', delta(" no")
    assert redactor.feed(suspicious) == b""
    assert redactor.feed(other) == b""
    assert redactor.held
    assert redactor.feed(decided) == suspicious + other + decided
    assert not redactor.held


def test_a_flush_masks_a_telling_tail_and_releases_a_short_one() -> None:
    value = KNOWN["DEPLOY_TOKEN"]
    redactor = Redactor(KNOWN, ("text",))
    assert redactor.feed(delta(value[:7])) == b""
    assert redactor.flush() == delta(value[:7])
    assert delta_text(redactor.feed(delta(value[7:] + "."))) == "[REDACTED:DEPLOY_TOKEN]."
    assert redactor.feed(delta(value[:9])) == b""
    assert delta_text(redactor.flush()) == "[REDACTED:DEPLOY_TOKEN]"
    assert delta_text(redactor.feed(delta(value[9:] + "."))) == "."


def test_lines_without_a_delta_key_never_wait() -> None:
    redactor = Redactor(KNOWN, ("text",))
    line = json_line({"result": KNOWN["DEPLOY_TOKEN"][:9]})
    assert redactor.feed(line) is line


def test_the_whole_message_after_its_pieces_is_no_continuation_of_them() -> None:
    redactor = Redactor(KNOWN, ("text",))
    redactor.feed(delta("sk-ant-" + made_up(40)))
    message = json_line({"type": "assistant", "message": {"content": [{"type": "text", "text": "Thekey"}]}})
    assert redactor.feed(message) == message
    assert delta_text(redactor.feed(delta("rest of it"))) == " of it"


def test_snapshots_of_a_growing_text_do_not_give_a_known_value_away() -> None:
    value = KNOWN["DEPLOY_TOKEN"]
    redactor = Redactor(KNOWN, ("text",))
    snapshots = [delta("it is " + value[:length]) for length in range(1, len(value) + 1)]
    output = b"".join(redactor.feed(line) for line in snapshots) + redactor.flush()
    assert_unseen(value, output)
    assert_unseen(value, redacted(b"".join(snapshots), KNOWN, ("text",)))


def test_a_private_key_in_many_pieces_is_masked() -> None:
    redactor = Redactor(KNOWN, ("text",))
    text = f"here:\n{PEM}\nthat was it"
    output = b"".join(redactor.feed(delta(text[start : start + 7])) for start in range(0, len(text), 7))
    shown, _, rest = delta_text(output).partition("[REDACTED:private-key]")
    assert f"here:\n{PEM}".startswith(shown)
    assert rest == "\nthat was it"
    for line in PEM_BODY.split("\n"):
        assert_unseen(line, output)


def test_a_block_whose_only_piece_is_cut_off_is_no_trouble() -> None:
    redactor = Redactor(KNOWN, ("text",))
    secret = next(iter(KNOWN.values()))
    block = b'{"text":"it is ' + secret.encode()[:-4] + b'\n{"other":"x"}\n'
    output = redactor.feed(block) + redactor.flush()
    assert output.endswith(b'\n{"other":"x"}\n')
