"""Tokens over many stored sessions: each once, for the right model, day and project."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from stored_corpus import Corpus, Truth, day_of

from harness.events.usage import CLASSES
from harness.sources.imports.catalogue import Catalogue
from harness.sources.imports.history import Home
from harness.sources.imports.registry import load_all


def _found(catalogue: Catalogue) -> Truth:
    found: Truth = Counter()
    for row in catalogue.usage.rows():
        for name in CLASSES:
            if count := getattr(row.usage, name):
                found[row.agent, row.model, day_of(row.at_ms), row.cwd, name] += count
    return found


def test_every_token_of_a_corpus_is_counted_once(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "home")
    corpus.fill(120)
    catalogue = Catalogue(str(tmp_path / "histories.sqlite"), load_all())
    home = Home(str(tmp_path / "home"))
    catalogue.refresh(home)
    sessions = catalogue.read(catalogue.sessions())
    assert len(sessions) == corpus.sessions
    assert _found(catalogue) == corpus.truth
    # Read in another order, the tokens of forks are still there once.
    another = Catalogue(str(tmp_path / "another.sqlite"), load_all())
    another.refresh(home)
    another.read(reversed(another.sessions()))
    assert _found(another) == corpus.truth
