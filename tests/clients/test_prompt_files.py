"""Files beside a prompt: attached by name, or mentioned in the text."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest

from harness.clients.prompt_files import MOST_MENTIONED_BYTES, attached_files, mentioned_files
from harness.errors import UsageError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def names(text: str, folder: Path) -> list[str]:
    return [one.name for one in mentioned_files(text, str(folder))]


def test_what_a_file_is_is_seen_in_it_and_not_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "shot.txt").write_bytes(PNG)
    (tmp_path / "notes.png").write_text("grüße")
    shot, notes = attached_files([str(tmp_path / "shot.txt"), str(tmp_path / "notes.png")])
    assert (shot.media_type, shot.name) == ("image/png", "shot.txt")
    assert (notes.media_type, b64decode(notes.data).decode()) == ("text/plain", "grüße")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"", "empty"), (b"\xff\xfe\x00bin", "no text, picture or PDF")],
)
def test_what_no_model_could_be_shown_is_refused(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=reason):
        attached_files([str(path)])


def test_a_folder_and_an_odd_name_are_refused(tmp_path: Path) -> None:
    for path in (str(tmp_path), "a\0b"):
        with pytest.raises(UsageError, match="cannot attach"):
            attached_files([path])


def test_files_that_a_prompt_names_are_found_once_each(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    (tmp_path / "with blank.md").write_text("text")
    (tmp_path / "end.").write_text("dot")
    text = 'see @src/a.py, @"with blank.md" (and @src/a.py). Not me@src/a.py, `@src/a.py`, @nobody or @src; @end.'
    assert names(text, tmp_path) == ["src/a.py", "with blank.md", "end."]


def test_nothing_outside_of_the_folder_is_taken(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "secret").write_text("x")
    (inside / "link").symlink_to(tmp_path / "secret")
    assert names(f"@../secret @{tmp_path}/secret @link", inside) == []


def test_what_is_too_long_or_no_text_is_left_to_the_tools(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * (MOST_MENTIONED_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\0\1")
    (tmp_path / "shot.png").write_bytes(PNG)
    assert names("@long @binary @shot.png", tmp_path) == ["shot.png"]
