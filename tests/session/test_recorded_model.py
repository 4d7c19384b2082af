"""A model is asked once, and its answers are replayed from then on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness import Harness, Mode, Model, Scripted, Store, UsageError
from harness.testing.sessions import approve, call, opened, recorded


async def deploy(place: str) -> str:
    "Deploy it."
    return f"deployed to {place}"


def build(model: Model, store: Store) -> Harness:
    modes = [Mode(id="build", default_model_id="m")]
    return Harness(
        id="app", modes=modes, storage=store, tools=[deploy], resolve_model=lambda _: model, environ={}
    )


def bare(model: Model, store: Store) -> Harness:
    modes = [Mode(id="build", default_model_id="m")]
    return Harness(id="app", modes=modes, storage=store, resolve_model=lambda _: model, environ={})


def real() -> Scripted:
    return Scripted([call("deploy", place="here"), "Done."], name="provider/real")


async def deployed(path: Path, model: Model | str = "") -> str:
    async with opened(build, recorded(path, model)) as app:
        app.answers(approve("deploy"))
        outcome = await app.send("Deploy it.")
        app.assert_calls("deploy")
        assert app.model.prefix_is_stable()
        return outcome.text


def test_what_was_recorded_is_replayed_without_the_model(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert asyncio.run(deployed(path, real())) == "Done."
    before = path.read_bytes()
    assert before.count(b"\n") == 2
    assert b"Deploy it." not in before, "what was asked is not kept"
    assert asyncio.run(deployed(path)) == "Done."
    assert path.read_bytes() == before


def test_another_request_than_that_of_the_recording_fails_the_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    asyncio.run(deployed(path, real()))

    async def main() -> None:
        async with opened(bare, recorded(path)) as app:
            outcome = await app.send("Deploy it.")
            assert (outcome.outcome, outcome.code) == ("failed", "recording")
            assert "runs.jsonl: the model is asked something else: tools" in outcome.error
            assert "deploy" in outcome.error

    asyncio.run(main())


def test_a_recording_that_has_ended_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"

    async def main() -> None:
        async with opened(bare, recorded(path, Scripted(["Hi."]))) as app:
            await app.send("Hello.")
        async with opened(bare, recorded(path)) as app:
            assert (await app.send("Hello.")).text == "Hi."
            outcome = await app.send("And?")
            assert "it has no further answer (delete the file" in outcome.error

    asyncio.run(main())


def test_wrong_use_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no recording"):
        recorded(tmp_path / "none.jsonl")
    (tmp_path / "odd.jsonl").write_text("hello\n")
    with pytest.raises(UsageError, match=r"odd\.jsonl is no recording"):
        recorded(tmp_path / "odd.jsonl")

    async def main() -> None:
        async with opened(build, recorded(tmp_path / "a.jsonl", real()), "More."):
            raise AssertionError("it was opened")

    with pytest.raises(UsageError, match="a recording stands alone"):
        asyncio.run(main())
