"""Lists queues, workers and feeds the same way on every store."""

import msgspec
import pytest

from headrace.inspect.feeds import feed_of, list_feeds
from headrace.inspect.queues import list_queues, show_queue
from headrace.inspect.workers import list_workers
from headrace.model.errors import Refused
from headrace.model.feed import FeedName, Publication
from headrace.model.results import Counts
from headrace.stores.contract.store import Store
from tests.inspect.conftest import MAIL


async def test_queues_are_listed_with_their_counts_and_the_sum(store: Store) -> None:
    found, everywhere = await list_queues(store, "acme"), await list_queues(store, None)

    mail, web = found.queues
    assert (mail.queue, mail.shards, web.queue, web.waiting) == ("mail", 3, "web", 1)
    counts = (mail.waiting, mail.later, mail.blocked, mail.active, mail.done, mail.cancelled, mail.dead)
    assert counts == (1, 1, 1, 1, 1, 1, 2)
    assert web.oldest_due_at_ms is not None
    assert web.oldest_due_at is not None
    assert found.total == Counts(2, 1, 1, 1, 1, 1, 2, web.oldest_due_at_ms)
    assert [row.queue for row in everywhere.queues] == ["mail", "web"]


async def test_a_queue_is_shown_with_its_settings_workers_and_journal(store: Store) -> None:
    await store.queues.configure(MAIL, {"priority": 7})

    view = await show_queue(store, "acme", "mail")

    assert [(each.name, each.value) for each in view.settings if each.value != each.default] == [("priority", 7)]
    assert (view.version, view.queue.active, [row.worker for row in view.workers]) == (1, 1, ["worker-1"])
    assert [row.shard for row in view.journal] == [0, 1, 2]
    assert sum(row.events for row in view.journal) == sum(row.last_seq for row in view.journal) > 10
    assert set(msgspec.to_builtins(view)) == {"queue", "version", "settings", "workers", "journal"}


async def test_workers_are_listed_with_the_jobs_they_hold(store: Store) -> None:
    [worker] = (await list_workers(store, "acme", None)).workers

    assert (worker.worker, worker.queues, worker.active) == ("worker-1", ["mail"], 1)
    assert 0 <= worker.seen_ms_ago < 600_000
    assert (await list_workers(store, "acme", "web")).workers == []


async def test_feeds_are_listed_with_what_they_hold(store: Store) -> None:
    for name in ("news", "board"):
        await store.feeds.create(FeedName(name, "acme"), instance="test")
    await store.items.publish(FeedName("news", "acme"), [Publication(b"1", id="a")], instance="test")

    found = await list_feeds(store, "acme")

    assert [(row.feed, row.items, row.total, row.changes) for row in found.feeds] == [
        ("board", 0, 0, 1),
        ("news", 1, 1, 2),
    ]
    assert set(msgspec.to_builtins(found.feeds[0])) >= {"type", "version", "items_max", "created_at", "cursor"}


async def test_an_unknown_feed_is_refused_with_the_nearest_name(store: Store) -> None:
    with pytest.raises(Refused, match="it has none yet; create one with: headrace feeds create NAME"):
        await feed_of(store, "acme", "news")
    await store.feeds.create(FeedName("news", "acme"), instance="test")

    with pytest.raises(Refused, match="did you mean 'news'"):
        await feed_of(store, "acme", "nesw")
    assert (await feed_of(store, "acme", "news")).items == 0
