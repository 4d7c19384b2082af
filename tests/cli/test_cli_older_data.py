"""A data directory that an earlier version has written is listed and shown as that version did."""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict
from pathlib import Path

import pytest

from harness.cli.main import main

WRITTEN_BEFORE = sorted((Path(__file__).parents[1] / "recordings" / "data-directories").glob("*.tar.gz"))
"""`sessions` is what the version wrote, its index included; `expected` what `sessions show ID --format FORMAT` printed.

The text of a child run that stands only in its result was not in `state` and `delta` of the first version; for these
two the expected output is that of now. A cost that is not known, or that is less than $0.001, was $0.000 then.
"""


@pytest.fixture(params=WRITTEN_BEFORE, ids=lambda path: path.name.removesuffix(".tar.gz"))
def data(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):  # workers of pytest set the first
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    for name, value in (
        ("HOME", home),
        ("XDG_DATA_HOME", tmp_path / "data"),
        ("XDG_CONFIG_HOME", home / "c"),
    ):
        monkeypatch.setenv(name, str(value))
    home.mkdir()
    monkeypatch.chdir(home)
    with tarfile.open(request.param) as packed:
        packed.extraction_filter = (
            staticmethod(tarfile.data_filter) if hasattr(tarfile, "data_filter") else None
        )
        packed.extractall(tmp_path / "data" / "harness")  # its own argument for that is of Python 3.11.4
    return tmp_path / "data" / "harness"


def test_every_session_is_shown_as_before(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = defaultdict[str, dict[str, str]](dict)
    for path in (data / "expected").iterdir():
        expected[path.stem][path.suffix[1:]] = path.read_text(encoding="utf-8")
    assert expected
    for session, formats in expected.items():
        for format, text in formats.items():
            main(["sessions", "show", session, "--format", format])
            shown = capfd.readouterr().out.replace(" out, <$0.001", " out")
            assert shown == text.replace(" out, $0.000", " out"), (session, format)


def test_every_session_is_listed(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "list", "--limit", "0", "--json"]) == 0
    listed = {row["session_id"] for row in json.loads(capfd.readouterr().out)}
    assert listed == {path.stem for path in (data / "sessions").glob("*.ndjson")}
