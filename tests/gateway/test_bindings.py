"""Ids of the program are found in results and put into answers; nothing else is touched."""

from __future__ import annotations

import json

from harness.gateway.bindings import Bindings, bound_words, joined, looks_made
from tape_files import TAPES, recording

OLD, NEW = "019a83c2-0000-7000-8000-00000000000a", "019a83c2-1111-7000-8000-00000000000b"


def test_an_id_at_the_same_place_is_bound_if_a_later_call_has_it() -> None:
    before, after = f"agent_id: {OLD}\nline_7 = 7", f"agent_id: {NEW}\nline_7 = 77"
    assert bound_words(before, after, {OLD, "7"}) == {OLD: NEW}
    assert bound_words(before, after, set()) == {}


def test_names_versions_and_counts_are_never_bound() -> None:
    before = "def total_2024(): version 1.2.3, 17 files, tested_name_1"
    after = "def total_2025(): version 1.2.4, 18 files, tested_name_2"
    words = set(before.replace("(", " ").replace(",", " ").split()) | {"total_2024", "17"}
    assert bound_words(before, after, words) == {}


def test_a_number_is_an_id_where_it_is_called_one() -> None:
    assert looks_made("process id: 4711", 12, "4711")
    assert not looks_made("there are 4711", 10, "4711")


def test_an_id_that_pieces_cut_in_two_is_replaced() -> None:
    pieces = [f'{{"id": "{OLD[:10]}', f'{OLD[10:]}"}}']
    stream = b"".join(
        b"event: content_block_delta\ndata: "
        + json.dumps(
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": piece},
            }
        ).encode()
        + b"\n\n"
        for piece in pieces
    )
    bindings = Bindings()
    bindings.bind({OLD: NEW})
    changed = bindings.put_into(stream)
    assert NEW.encode() in changed
    assert changed.count(b"data: ") == 1
    assert bindings.undo_in(f'"x {NEW} y"'.encode()) == f'"x {OLD} y"'.encode()


def test_an_answer_without_them_stays_byte_for_byte() -> None:
    bindings = Bindings({"/somewhere/else": "/here"})
    bindings.bind({OLD: NEW})
    for path in TAPES:
        for call in recording(path)[0].calls:
            assert bindings.put_into(call.content) == call.content


def test_a_folder_is_replaced_and_not_one_whose_name_begins_alike() -> None:
    bindings = Bindings({"/root": "/tmp/home", "/root/project": "/root/project"})
    text = b"/root/.cache /root/project/a.py /rootless /root"
    assert bindings.put_into(text) == b"/tmp/home/.cache /root/project/a.py /rootless /tmp/home"


def test_joined_streams_say_the_same() -> None:
    for path in TAPES:
        for call in recording(path)[0].calls:
            if call.request.purpose == "answer" and call.response.status == 200:
                assert len(joined(call.content)) <= len(call.content) + 200
