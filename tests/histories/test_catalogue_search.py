"""Search over stored sessions: words, parts of words, files, commands and commits, each with its passage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.history import Home
from harness.contracts.reading import commits_in
from harness.histories.catalogue import Catalogue
from harness.histories.catalogue_filter import EVERYTHING, SessionFilter
from harness.histories.catalogue_search import FoundSession, SessionSearch, parts_of
from harness.histories.registry import load_all
from stored_homes import HomeCase, cases

TOOLS = [case for case in cases() if str(case).endswith("/tools")]


def _catalogue(directory: Path, home: Home) -> Catalogue:
    catalogue = Catalogue(str(directory / "histories.sqlite"), load_all())
    catalogue.refresh(home)
    catalogue.read(catalogue.sessions())
    return catalogue


def _found(catalogue: Catalogue, text: str = "", **asked: str) -> list[FoundSession]:
    return [*catalogue.search(SessionSearch(parts=parts_of(text), **asked))]


class ClaudeHome:
    """A home with one session of Claude, whose lines a test writes."""

    def __init__(self, directory: Path) -> None:
        self.home = Home(str(directory))
        self.path = directory / ".claude/projects/-work-shop/11111111-2222-4333-8444-555555555555.jsonl"
        self.path.parent.mkdir(parents=True)
        self._count = 0

    def add(self, kind: str, content: Any, **more: Any) -> None:
        self._count += 1
        message = {"role": kind, "content": content, **more}
        if kind == "assistant":
            message = {"id": f"msg_{self._count}", "model": "claude-opus-4-5", **message}
        record = {
            "parentUuid": None,
            "type": kind,
            "message": message,
            "uuid": str(self._count),
            "timestamp": f"2026-11-15T19:{self._count:02d}:00.000Z",
            "cwd": "/work/shop",
            "sessionId": self.path.stem,
        }
        with self.path.open("a") as file:
            file.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")

    def run(self, command: str, output: str, name: str = "Bash", key: str = "command") -> None:
        call_id = f"toolu_{self._count}"
        self.add("assistant", [{"type": "tool_use", "id": call_id, "name": name, "input": {key: command}}])
        self.add("user", [{"type": "tool_result", "tool_use_id": call_id, "content": output}])


@pytest.fixture
def claude(tmp_path: Path) -> ClaudeHome:
    home = ClaudeHome(tmp_path / "home")
    home.add("user", "Please mend the naïve Parser of stored_corpus.py")
    home.add("assistant", [{"type": "text", "text": "The tokenizer was off by one; it is mended."}])
    return home


@pytest.mark.parametrize("case", TOOLS, ids=str)
def test_every_store_can_be_searched(case: HomeCase, tmp_path: Path) -> None:
    catalogue = _catalogue(tmp_path, case.unpack(tmp_path / "home"))
    (session, *_more) = [one for one in catalogue.sessions() if not one.is_child]
    word = max(session.prompt.split(), key=len).strip(".,")
    hits = [hit for hit in _found(catalogue, word) if hit.session.session_id == session.session_id]
    assert hits
    assert word.casefold() in hits[0].passage.text.casefold()
    assert _found(catalogue, "a-word-that-no-session-has") == []


@pytest.mark.parametrize(
    "words",
    [
        "parser",
        "PARS",
        "okenize",
        "stored_corpus.py",
        '"off by one"',
        "mended tokenizer",
        "naïve",
        "naive",
        '"the naïve parser"',
    ],
)
def test_words_beginnings_parts_and_quoted_parts_are_found(
    words: str, claude: ClaudeHome, tmp_path: Path
) -> None:
    (hit,) = _found(_catalogue(tmp_path, claude.home), words)
    assert hit.session.session_id == claude.path.stem


@pytest.mark.parametrize(
    "words", ["parser missing", '"by off one"', '"mended the tokenizer"', "xyzzy", '"…"']
)
def test_what_was_not_said_is_not_found(words: str, claude: ClaudeHome, tmp_path: Path) -> None:
    assert _found(_catalogue(tmp_path, claude.home), words) == []


def test_a_passage_says_when_and_what(claude: ClaudeHome, tmp_path: Path) -> None:
    (hit,) = _found(_catalogue(tmp_path, claude.home), "tokenizer")
    assert hit.passage.text == "The tokenizer was off by one; it is mended."
    assert hit.passage.at_ms == 1794769320000


def test_files_are_found_by_what_was_done_with_them(claude: ClaudeHome, tmp_path: Path) -> None:
    claude.run("/work/shop/src/cart.py", "…", name="Read", key="file_path")
    claude.run("/work/shop/src/price.py", "…", name="Edit", key="file_path")
    claude.run("wc -l docs/notes.txt", "3")
    catalogue = _catalogue(tmp_path, claude.home)
    found = {
        path: _found(catalogue, file=path)[0].passage.how
        for path in ("src/cart.py", "/work/shop/src/price.py", "notes.txt")
    }
    assert [*found.values()] == ["read", "wrote", "named in a command"]
    assert _found(catalogue, file="src/cart.pyx") == []
    (hit,) = _found(catalogue, "tokenizer", file="cart.py")
    assert (hit.passage.how, hit.passage.text[:13]) == ("read", "The tokenizer")


def test_commands_and_commits_are_found(claude: ClaudeHome, tmp_path: Path) -> None:
    claude.run("git log --oneline", "[fake 0123abc] not a commit of this session")
    claude.run(
        "git add -A && git commit -m 'Mend the parser'", "[main 89abcde] Mend the parser\n 1 file changed"
    )
    catalogue = _catalogue(tmp_path, claude.home)
    (hit,) = _found(catalogue, command="git commit")
    assert hit.passage.text.startswith("git add -A && git commit")
    for commit in ("89abcde", "89abcdef00112233445566778899aabbccddeeff"):
        (hit,) = _found(catalogue, commit=commit)
        assert (hit.passage.how, hit.passage.text) == ("committed", "89abcde")
    assert _found(catalogue, commit="0123abc") == []
    assert _found(catalogue, commit="89abcd0") == []


def test_a_session_that_grows_is_read_only_from_where_it_was_left(claude: ClaudeHome, tmp_path: Path) -> None:
    catalogue = _catalogue(tmp_path, claude.home)
    whole = claude.path.read_bytes()
    # The bytes that were read are damaged in their middle, which a second reading of them would show.
    claude.path.write_bytes(whole.replace(b"Please mend", b"Please fend"))
    claude.add("user", "And now the lexer")
    claude.run("git commit -am more", "[main 7777777] more")
    catalogue.refresh(claude.home)
    (session,) = catalogue.read(catalogue.sessions())
    assert (session.runs, session.prompt[:11]) == (2, "Please mend")
    assert _found(catalogue, "lexer")
    assert _found(catalogue, commit="7777777")
    assert _found(catalogue, "tokenizer"), "what was read before is still known"


@pytest.mark.parametrize("change", ["shorter", "replaced", "rewritten"])
def test_a_file_that_is_not_the_one_that_was_read_is_read_again(
    change: str, claude: ClaudeHome, tmp_path: Path
) -> None:
    catalogue = _catalogue(tmp_path, claude.home)
    lines = claude.path.read_bytes().splitlines(keepends=True)
    other = [line.replace(b"tokenizer", b"pager") for line in lines]
    if change == "shorter":
        claude.path.write_bytes(other[0])
    elif change == "replaced":
        beside = claude.path.with_suffix(".new")
        beside.write_bytes(b"".join(other))
        beside.replace(claude.path)
    else:
        claude.path.write_bytes(b"".join([*other, *other[1:]]))
    catalogue.refresh(claude.home)
    catalogue.read(catalogue.sessions())
    assert _found(catalogue, "tokenizer") == []
    assert len(_found(catalogue, "pager")) == (change != "shorter")
    assert len(_found(catalogue, "parser")) == 1


def test_a_deleted_session_is_found_without_a_passage(claude: ClaudeHome, tmp_path: Path) -> None:
    catalogue = _catalogue(tmp_path, claude.home)
    claude.path.unlink()
    catalogue.refresh(claude.home)
    (hit,) = _found(catalogue, "tokenizer")
    assert hit.session.gone_ms
    assert hit.passage.text == ""
    assert [*catalogue.search(SessionSearch(parts=("tokenizer",)), SessionFilter(with_deleted=False))] == []


def test_secrets_reach_neither_the_index_nor_a_passage(claude: ClaudeHome, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    claude.add("assistant", [{"type": "text", "text": f"The password is {secret} today"}])
    claude.run(f"curl -H 'Authorization: token {secret}' example.org", "ok")
    claude.run("git commit -m x", "[main 1234567] x")
    catalogue = _catalogue(tmp_path, claude.home)
    (hit,) = _found(catalogue, "password")
    assert secret not in hit.passage.text
    (hit,) = _found(catalogue, command="curl")
    assert secret not in hit.passage.text
    assert _found(catalogue, secret) == []
    catalogue.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("histories.sqlite*"))
    assert secret.encode() not in stored
    assert secret.encode().lower() not in stored.lower()


def test_filters_hold_in_a_search(claude: ClaudeHome, tmp_path: Path) -> None:
    catalogue = _catalogue(tmp_path, claude.home)
    asked = SessionSearch(parts=("parser",))
    for chosen, count in (
        (EVERYTHING, 1),
        (SessionFilter(agent="claude"), 1),
        (SessionFilter(agent="codex"), 0),
        (SessionFilter(project="/work"), 1),
        (SessionFilter(project="/work/sho"), 0),
        (SessionFilter(model="opus"), 1),
        (SessionFilter(model="haiku"), 0),
        (SessionFilter(since_ms=1794769000000), 1),
        (SessionFilter(until_ms=1794769000000), 0),
        (SessionFilter(outcome="failed"), 0),
    ):
        assert len([*catalogue.search(asked, chosen)]) == count, chosen


def test_a_catalogue_that_is_mostly_about_what_was_deleted_is_filled_again(
    claude: ClaudeHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.histories.catalogue_writer._MOST_OUTDATED", 1)
    catalogue = _catalogue(tmp_path, claude.home)
    for _ in range(3):
        claude.path.write_bytes(claude.path.read_bytes().replace(b"Please", b"Please do"))
        catalogue.refresh(claude.home)
        (session,) = catalogue.read(catalogue.sessions())
    assert len(_found(catalogue, "parser")) == 1
    assert session.prompt.startswith("Please do do")


@pytest.mark.parametrize(
    ("output", "commits"),
    [
        ("[main 0123abc] A change\n 1 file changed", ["0123abc"]),
        ("0123abc A change\n", ["0123abc"]),
        ("0123abc A change\n4567def An older one\n", ["0123abc"]),
        ("0123456789abcdef0123456789abcdef01234567\n", ["0123456789abcdef0123456789abcdef01234567"]),
        ("commit 0123abcd\nAuthor: somebody\n", ["0123abcd"]),
        ("[main 0123abc] A change\n89abcde another line", ["0123abc"]),
        ("deadbeefs are no hash\nnothing to commit", []),
    ],
)
def test_commits_are_found_in_what_the_command_prints(output: str, commits: list[str]) -> None:
    assert commits_in(output) == commits
