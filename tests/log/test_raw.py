"""The raw record: every byte, every order, also after damage."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.log.raw import RawControl, RawEntry, RawExit, RawOutput, RawStart, RawWriter, read_raw

START = RawStart(at_ms=1, agent="claude", prompt="hi\n", argv=["claude", "-p"])
EXIT = RawExit(at_ms=9, code=0)
BLOCKS = st.lists(
    st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(min_size=1, max_size=200)), max_size=8
)


def write(path: Path, entries: list[RawEntry]) -> bytes:
    path.unlink(missing_ok=True)
    writer = RawWriter(str(path))
    for entry in entries:
        writer.write(entry)
    writer.close()
    return path.read_bytes()


@given(blocks=BLOCKS)
def test_every_byte_comes_back_in_order(tmp_path_factory: object, blocks: list[tuple[str, bytes]]) -> None:
    path = Path(tmp_path_factory.mktemp("raw")) / "x.raw"  # type: ignore[attr-defined]
    outputs = [RawOutput(at_ms=5, stream=stream, data=data) for stream, data in blocks]  # type: ignore[arg-type]
    entries: list[RawEntry] = [START, *outputs, RawControl(at_ms=6, action="timeout", detail="3 s"), EXIT]

    write(path, entries)

    assert list(read_raw(str(path))) == entries


def test_output_that_looks_like_a_head_is_only_output(tmp_path: Path) -> None:
    tricky = b'{"kind":"stdout","at_ms":5,"size":3}\nabc\n{"kind":"exit","at_ms":1}\n'
    entries: list[RawEntry] = [START, RawOutput(at_ms=5, stream="stdout", data=tricky), EXIT]

    write(tmp_path / "x.raw", entries)

    assert list(read_raw(str(tmp_path / "x.raw"))) == entries


def test_a_cut_end_costs_only_the_entry_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "x.raw"
    entries: list[RawEntry] = [
        START,
        *(RawOutput(at_ms=5, stream="stdout", data=b"line %d\n" % n) for n in range(3)),
    ]
    whole = write(path, entries)

    for cut in range(len(whole) - 1):
        path.write_bytes(whole[:cut])
        read = list(read_raw(str(path)))
        assert read == entries[: len(read)]


def test_a_damaged_size_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.raw"
    entries: list[RawEntry] = [
        START,
        *(RawOutput(at_ms=5, stream="stdout", data=b"line %d\n" % n) for n in range(3)),
        EXIT,
    ]
    whole = write(path, entries)

    path.write_bytes(whole.replace(b'"size":7', b'"size":9', 1))

    assert list(read_raw(str(path))) == entries


def test_a_damaged_head_costs_its_own_entry(tmp_path: Path) -> None:
    path = tmp_path / "x.raw"
    entries: list[RawEntry] = [
        START,
        *(RawOutput(at_ms=5, stream="stdout", data=b"line %d\n" % n) for n in range(3)),
        EXIT,
    ]
    whole = write(path, entries)

    path.write_bytes(whole.replace(b'{"kind":"stdout"', b'{"kimd":"stdout"', 1))

    assert list(read_raw(str(path))) == [entries[0], *entries[2:]]
