"""JSON that keeps names of files which are not UTF-8."""

from __future__ import annotations

import msgspec
import pytest

from harness.system import exact_json


class Place(msgspec.Struct, omit_defaults=True):
    path: str = ""
    files: dict[str, str] = {}


@pytest.mark.parametrize("path", ["/home/me", "/home/käse 😀", "/caf\udce9", "\udc80\udcff é \\udce9"])
@pytest.mark.parametrize("indent", [0, 2])
def test_what_is_written_is_read_back(path: str, indent: int) -> None:
    place = Place(path=path, files={path: "x", "a": path})
    assert exact_json.decode(exact_json.encode(place, indent=indent), Place) == place
    assert exact_json.decode(exact_json.encode(place, order="sorted"), Place) == place


def test_text_is_written_as_before() -> None:
    place = Place(path="/home/käse")
    assert exact_json.encode(place) == msgspec.json.encode(place)


@pytest.mark.parametrize(
    "data", [b"{", b'{"path":3}', b'{"path":"\\udce9"', b'{"path":"a","files":["\\udce9"]}']
)
def test_what_is_damaged_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        exact_json.decode(data, Place)
