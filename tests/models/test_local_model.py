"""The local model, where it is installed: a real one, which is also another's server of Chat Completions."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import msgspec
import pytest

from harness.contracts.model import Ask, UserTurn
from harness.errors import HarnessError, UsageError
from harness.events import Error, Message, StepEnd, UsageDelta
from harness.models import local
from harness.models.local import has_weights
from harness.models.registry import open_model
from lacking import lacking
from model_asking import ask, kinds, only

needs_weights = pytest.mark.skipif(
    find_spec("xllamacpp") is None or not has_weights(), reason=lacking("weights of the local model")
)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}},
    "required": ["name"],
}


@needs_weights
def test_it_answers_and_counts() -> None:
    question = Ask(turns=[UserTurn("What is the capital of France?")], max_output_tokens=12, temperature=0.0)
    events = ask(open_model("local/smollm2"), question)
    assert only(events, Message).text.strip()
    assert (only(events, UsageDelta).usage.output or 0) > 0
    assert kinds(events)[-1] == "StepEnd"


@needs_weights
def test_it_can_be_held_to_a_schema() -> None:
    question = Ask(turns=[UserTurn("Invent a person.")], schema=PERSON, max_output_tokens=60, temperature=0.0)
    events = ask(open_model("local/smollm2"), question)
    assert list(msgspec.json.decode(only(events, Message).text)) == ["name"]


@needs_weights
def test_a_prompt_that_is_too_long_is_its_own_error() -> None:
    events = ask(open_model("local/smollm2"), Ask(turns=[UserTurn("word " * 9000)]))
    assert kinds(events) == ["Error", "StepEnd"]
    assert "context" in only(events, Error).message
    assert only(events, StepEnd).stop_reason == "error"


def test_without_weights_it_says_how_to_get_them(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(UsageError) as raised:
        open_model("local/smollm2")
    assert raised.value.hint == "harness models fetch local"


def test_a_file_that_is_no_model_is_an_error_of_the_far_side(tmp_path: object) -> None:
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    path = f"{tmp_path}/bad.gguf"
    with open(path, "wb") as file:
        file.write(b"not weights")
    events = ask(open_model(f"local/{path}"))
    assert kinds(events) == ["Error", "StepEnd"]
    assert only(events, Error).code == "local_model"


def test_a_library_that_the_system_lacks_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lacking:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "xllamacpp":
                raise ImportError("libgomp.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Lacking(), *sys.meta_path])
    with pytest.raises(HarnessError, match=r"libgomp\.so\.1 is missing; install libgomp1 \(apt\)"):
        local._start("weights", "key")
