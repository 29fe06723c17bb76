"""Overview: the queues of a tenant with their counts, by name, in a page or by their names."""

import pytest

from headrace.model.errors import Refused
from headrace.model.names import Queue
from headrace.model.results import Page, QueueOverview
from tests.support.play import Play


async def overview(play: Play, **options: object) -> Page[QueueOverview]:
    """The overview of the play's tenant now."""
    return await play.store.queues.overview(play.queue.tenant, now_ms=play.now_ms, **options)  # type: ignore[arg-type]


def names(page: Page[QueueOverview]) -> list[str]:
    """The names of a page."""
    return [each.queue.full_name for each in page.rows]


async def create(play: Play, *wanted: str) -> None:
    """Create queues by an enqueue each."""
    for name in wanted:
        await Play(play.store, play.queue.shards, name=name).enqueue()


async def test_an_overview_shows_each_queue_with_its_settings_and_counts(play: Play) -> None:
    """The same as single calls would show, whatever the states."""
    await play.configure(fail_handler=True, max_attempts=3)
    await play.die("dead")
    await play.start("active")
    await play.enqueue("active")
    for number in range(5):
        await play.enqueue(f"ready-{number}")
    await play.enqueue("later", delay_ms=5)
    play.advance(7)
    await play.configure(paused=True)

    found = (await overview(play)).rows

    assert [each.queue for each in found] == [play.queue, play.queue.fail_queue]
    for each in found:
        config = await play.store.queues.configuration(each.queue)
        assert (each.version, each.paused) == (config.version, config.paused)
        assert each.counts == await play.counts(each.queue)
        assert each.last_seq == len(await play.events(each.queue))
    assert found[0].counts.waiting == 6
    assert found[0].counts.oldest_due_ms is not None


async def test_last_seq_grows_with_every_event_and_only_then(play: Play) -> None:
    await play.enqueue("a")
    [before] = (await overview(play)).rows
    await play.counts()
    [idle] = (await overview(play)).rows
    await play.claim_one()

    [after] = (await overview(play)).rows

    assert idle.last_seq == before.last_seq
    assert after.last_seq == before.last_seq + 1


async def test_the_pages_of_an_overview_show_every_queue_once_by_name(play: Play) -> None:
    wanted = ["b", "a.b", "z", "a", "a-b", "c", "aa"]
    await create(play, *wanted)

    first = await overview(play, limit=3)
    second = await overview(play, limit=3, cursor=first.cursor)
    third = await overview(play, limit=3, cursor=second.cursor)

    assert names(first) + names(second) + names(third) == sorted(wanted)
    assert third.cursor is None


async def test_a_prefix_narrows_an_overview(play: Play) -> None:
    await create(play, "mail", "mail.high", "mailer", "mai", "nail")

    first = await overview(play, prefix="mail", limit=2)
    second = await overview(play, prefix="mail", limit=2, cursor=first.cursor)

    assert names(first) + names(second) == ["mail", "mail.high", "mailer"]
    assert second.cursor is None
    assert names(await overview(play, prefix="x")) == []


async def test_an_overview_of_names_leaves_out_unknown_ones(play: Play) -> None:
    await create(play, "b", "a", "c")

    page = await overview(play, names=["c", "unknown", "a", "no queue", "c", ""])

    assert (names(page), page.cursor) == (["a", "c"], None)
    assert names(await overview(play, names=[])) == []


async def test_an_overview_knows_queues_of_other_numbers_of_shards(play: Play) -> None:
    for shards in (1, 2, 5):
        await Play(play.store, shards, name=f"queue-{shards}").enqueue("a")
        await Play(play.store, shards, name=f"queue-{shards}").enqueue("b")

    found = (await overview(play)).rows

    assert [(each.queue.shards, each.counts.waiting) for each in found] == [(1, 2), (2, 2), (5, 2)]


async def test_an_overview_shows_one_tenant_only(play: Play) -> None:
    await play.enqueue("a")
    await Play(play.store, play.queue.shards, tenant="other").enqueue("b")

    assert [each.queue for each in (await overview(play)).rows] == [play.queue]
    assert names(await play.store.queues.overview("nobody")) == []


async def test_an_overview_shows_many_queues_on_one_page(play: Play) -> None:
    wanted = [f"queue-{number:03}" for number in range(120)]
    for name in wanted:
        await play.store.queues.configure(Queue(name, play.queue.tenant), {"paused": name.endswith("7")})

    found = (await overview(play, limit=1_000)).rows

    assert [each.queue.name for each in found] == wanted
    assert [each.queue.name for each in found if each.paused] == [name for name in wanted if name.endswith("7")]


async def test_a_deleted_queue_is_not_in_an_overview(play: Play) -> None:
    await play.enqueue("a")
    await play.remove("a")
    while not await play.store.queues.delete(play.queue):
        pass

    assert (await overview(play)).rows == []


@pytest.mark.parametrize(
    "options", [{"names": ["x"] * 1_001}, {"names": [5]}, {"prefix": 5}, {"cursor": "\x00"}, {"limit": 0}]
)
async def test_wrong_arguments_of_an_overview_are_refused(play: Play, options: dict[str, object]) -> None:
    with pytest.raises(Refused):
        await overview(play, **options)
