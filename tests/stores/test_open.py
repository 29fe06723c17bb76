"""Opening a store by its URL, and the sentences that refuse a wrong one."""

from pathlib import Path

import pytest

from headrace.model.clock import ManualClock
from headrace.model.errors import BadConfig
from headrace.model.job import new_job
from headrace.model.names import Queue
from headrace.stores.memory.store import MemoryStore
from headrace.stores.open import open_store
from headrace.stores.sqlite.store import SqliteStore


async def test_memory_is_opened_fresh_each_time() -> None:
    first, second = await open_store("memory://"), await open_store("memory://")
    await first.jobs.enqueue([new_job(Queue("mail"), "send", fresh_id="a")])

    names = [(await store.queues.names("default")).rows for store in (first, second)]

    assert isinstance(first, MemoryStore)
    assert [len(each) for each in names] == [1, 0]
    await first.close()
    await second.close()


async def test_sqlite_with_four_slashes_is_an_absolute_path(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/headrace.db")
    await store.close()

    assert isinstance(store, SqliteStore)
    assert str(tmp_path).startswith("/")
    assert (tmp_path / "headrace.db").exists()


async def test_sqlite_with_three_slashes_is_a_path_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    store = await open_store("sqlite:///headrace.db")
    await store.close()

    assert (tmp_path / "headrace.db").exists()


async def test_a_path_may_hold_escaped_characters(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/my%20queue%3F%23.db")
    await store.close()

    assert (tmp_path / "my queue?#.db").exists()


@pytest.mark.parametrize(
    ("query", "profile"), [("", "durable"), ("?profile=durable", "durable"), ("?profile=fast", "fast")]
)
async def test_the_profile_is_an_option_of_the_url(tmp_path: Path, query: str, profile: str) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/headrace.db{query}")
    health = await store.health()
    await store.close()

    assert health.profile == profile


async def test_health_says_what_a_store_promises(tmp_path: Path) -> None:
    stores = [await open_store(url) for url in ("memory://", f"sqlite:///{tmp_path}/headrace.db")]
    answers = [await store.health() for store in stores]
    for store in stores:
        await store.close()

    assert [(health.store, health.profile) for health in answers] == [("memory", "volatile"), ("sqlite", "durable")]
    assert all("survive" in health.promise for health in answers)
    assert all(health.version and health.epoch >= 1 for health in answers)


async def test_the_clock_of_a_store_can_be_given(tmp_path: Path) -> None:
    for url in ("memory://", f"sqlite:///{tmp_path}/headrace.db"):
        store = await open_store(url, clock=ManualClock(7_000))
        await store.jobs.enqueue([new_job(Queue("mail"), "send", fresh_id="a", delay_ms=5)])
        [found] = await store.reads.find(Queue("mail"), ["a"])
        await store.close()

        assert found is not None
        assert found.record is not None
        assert (found.record.enqueued_at_ms, found.record.run_at_ms) == (7_000, 7_005)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("", "memory://"),
        ("headrace.db", "sqlite:///"),
        ("/var/lib/headrace.db", "sqlite:////"),
        ("mysql://localhost/jobs", "known URLs"),
        ("sqlite:", "three slashes"),
        ("sqlite://", "three slashes"),
        ("sqlite:///", "three slashes"),
        ("sqlite://headrace.db", "three slashes"),
        ("sqlite://host/headrace.db", "three slashes"),
        ("sqlite://[/headrace.db", "URL"),
        ("sqlite:///headrace.db?profile=reckless", "durable, fast"),
        ("sqlite:///headrace.db?profile=", "durable, fast"),
        ("sqlite:///headrace.db?mode=ro", "profile"),
        ("sqlite:///headrace.db?profile=fast&sync=off", "sync"),
        ("sqlite:///headrace.db#part", "%23"),
        ("sqlite:///:memory:", "memory://"),
        ("memory://?profile=fast", "none"),
        ("memory://jobs", "memory://"),
    ],
)
async def test_a_wrong_url_is_refused_with_what_to_write_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BadConfig) as refused:
        await open_store(url)

    assert hint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert is_empty(tmp_path), "a refused URL leaves no file"


def is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing."""
    return not list(folder.iterdir())
