"""The part of a store's contract that speaks of finding logs."""

from __future__ import annotations

from harness.events import Message, SessionStart, TextDelta
from harness.log.store import Fork, Metadata, Query, Store
from harness.testing.small_logs import found, write


def logs_are_found_by_kind_resource_and_settings(store: Store) -> None:
    for log_id, kind, resource, settings in (
        ("1", "run", "", {}),
        ("2", "thread", "me", {}),
        ("3", "thread", "you", {"project": "x"}),
        ("4", "thread", "me", {"hidden": True}),
        ("5", "thread", "me", {"hidden": False, "project": "x"}),
    ):
        metadata = Metadata(
            session_id=log_id,
            kind=kind,  # type: ignore[arg-type]
            resource_id=resource,
            settings=dict(settings),
            created_ms=1,
            updated_ms=int(log_id),
        )
        store.create(metadata).close()

    assert found(store, Query()) == ["5", "4", "3", "2", "1"]
    assert found(store, Query(kind="run")) == ["1"]
    assert found(store, Query(kind="thread", resource_id="me")) == ["5", "4", "2"]
    assert found(store, Query(resource_id="")) == ["1"]
    assert found(store, Query(resource_id="me", without_settings=("hidden",))) == ["5", "2"]
    assert found(store, Query(settings={"project": "x"})) == ["5", "3"]
    assert found(store, Query(limit=2)) == ["5", "4"]
    assert found(store, Query(limit=2, offset=3)) == ["2", "1"]
    assert found(store, Query(offset=9)) == []
    assert store.resource_ids() == ["me", "you"]


def forks_are_found_and_left_out(store: Store) -> None:
    write(store, "a", range(2))
    write(store, "b", range(2, 3), Fork("a", 2))

    assert sorted(found(store, Query())) == ["a", "b"]
    assert found(store, Query(include_forks=False)) == ["a"]
    assert found(store, Query(fork_of="a")) == ["b"]
    (fork,) = store.find(Query(fork_of="a"))
    assert fork.fork == Fork("a", 2)


def the_last_changed_is_found_first(store: Store) -> None:
    for log_id in ("a", "b", "c"):
        store.create(Metadata(session_id=log_id, created_ms=10, updated_ms=10)).close()
    writer = store.open("a")
    writer.append([TextDelta(seq=0, timestamp_ms=500, run_id="r", text="x")])

    assert found(store, Query()) == ["a", "c", "b"]
    assert store.find(Query())[0].updated_ms == 500
    metadata = store.metadata("b")
    metadata.updated_ms = 900
    store.save_metadata(metadata)
    assert found(store, Query()) == ["b", "a", "c"]
    assert found(store, Query(live_first=True)) == ["a", "b", "c"]
    assert found(store, Query(live_first=True, limit=1, offset=1)) == ["b"]
    writer.close()
    assert found(store, Query(live_first=True)) == ["b", "a", "c"]


def what_waits_or_goes_on_is_found(store: Store) -> None:
    for log_id, kind, outcome, activity in (
        ("rest", "thread", "completed", ""),
        ("new", "thread", "", ""),
        ("runs", "thread", "completed", "running"),
        ("waits", "thread", "completed", "waiting"),
        ("older", "thread", "suspended", ""),
        ("live", "run", "", ""),
        ("done", "run", "failed", ""),
    ):
        store.create(
            Metadata(session_id=log_id, kind=kind, outcome=outcome, activity=activity)  # type: ignore[arg-type]
        ).close()

    assert sorted(found(store, Query(active=True))) == ["live", "older", "runs", "waits"]
    assert sorted(found(store, Query(active=True, kind="thread"))) == ["older", "runs", "waits"]
    assert found(store, Query(active=True, kind="run", limit=5)) == ["live"]


def some_are_left_out_and_all_are_counted(store: Store) -> None:
    for number, log_id in enumerate(("a", "b", "c", "d")):
        store.create(
            Metadata(
                session_id=log_id,
                kind="thread" if number % 2 else "run",
                prompt=f"needle {log_id}",
                created_ms=1,
                updated_ms=number + 1,
            )
        ).close()

    assert found(store, Query(excluding=("d", "b", "nobody"))) == ["c", "a"]
    assert found(store, Query(excluding=("d",), limit=1, offset=1)) == ["b"]
    assert found(store, Query(excluding=("c",), text="needle", kind="run")) == ["a"]
    for query, count in (
        (Query(), 4),
        (Query(limit=1, offset=2), 4),
        (Query(kind="run"), 2),
        (Query(text="needle"), 4),
        (Query(text="needle b"), 1),
        (Query(text="nothing"), 0),
        (Query(excluding=("a", "b")), 2),
        (Query(include_forks=False, kind="thread"), 2),
        (Query(live_first=True), 4),
    ):
        assert store.total(query) == count, query
    store.delete("a")
    assert store.total(Query()) == 3


def words_are_found_in_prompts_titles_and_messages(store: Store) -> None:
    store.create(Metadata(session_id="prompt", prompt="Mend the Ängström parser")).close()
    store.create(Metadata(session_id="title", name="Parser wars 100%")).close()
    writer = store.create(Metadata(session_id="message"))
    writer.append(
        [
            SessionStart(seq=0, timestamp_ms=1, run_id="r"),
            Message(seq=1, timestamp_ms=1, run_id="r", role="user", text="why does tests/foo_bar.py fail?"),
            TextDelta(seq=2, timestamp_ms=1, run_id="r", text="only streamed"),
            Message(seq=3, timestamp_ms=1, run_id="r", role="assistant", text='it says "日本語" twice'),
        ]
    )

    def ids(text: str) -> list[str]:
        return sorted(found(store, Query(text=text)))

    assert ids("parser") == ["prompt", "title"]
    assert ids("ÄNGSTRÖM") == ["prompt"]
    assert ids("mend parser") == ["prompt"]
    assert ids("mend wars") == []
    assert ids("foo_bar.py") == ["message"]
    assert ids("foo-bar.py") == []
    assert ids("fooxbar.py") == []
    assert ids("日本") == ["message"]
    assert ids("100%") == ["title"]
    assert ids("100%wars") == []
    assert ids('"') == ["message"]
    assert ids("why twice") == ["message"], "words may stand in different messages"
    assert ids("' OR 1=1 --") == []
    assert ids("  ") == ["message", "prompt", "title"]
    writer.append([Message(seq=4, timestamp_ms=1, run_id="r", role="user", text="zebra")])
    assert ids("zebra") == ["message"], "what came after the first search is found"
    writer.close()
    store.delete("message")
    assert ids("zebra") == []


def a_renamed_log_is_found_by_its_new_title(store: Store) -> None:
    store.create(Metadata(session_id="t", name="before")).close()
    assert found(store, Query(text="before")) == ["t"]
    metadata = store.metadata("t")
    metadata.name = "after"
    store.save_metadata(metadata)

    assert found(store, Query(text="before")) == []
    assert found(store, Query(text="after")) == ["t"]


CHECKS = (
    logs_are_found_by_kind_resource_and_settings,
    forks_are_found_and_left_out,
    the_last_changed_is_found_first,
    what_waits_or_goes_on_is_found,
    some_are_left_out_and_all_are_counted,
    words_are_found_in_prompts_titles_and_messages,
    a_renamed_log_is_found_by_its_new_title,
)
