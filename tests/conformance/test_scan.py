"""Scans: everything of a group, part by part, each part of one instant of the journal."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import count, islice

import pytest
from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.job import Record, State
from headrace.model.limits import PAYLOAD_BYTES_MAX, SCAN_PART_BYTES
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Cancelled, Done, Failed, Outcome
from headrace.model.results import ALL_IDS, Found, Group, IdRange, Scan
from tests.support.fold import Folded
from tests.support.play import BOOM, Play

GROUPS: tuple[Group, ...] = ("alive", "ended", "dead")
LONG = b'"' + b"x" * 98 + b'"'
"""Long enough that no store keeps it in a form that is always shown whole."""
OVER = 16
"""Rows by which a part may exceed its limit."""


async def parts_of(
    play: Play, shard: Shard, group: Group, limit: int = 1_000, ids: IdRange = ALL_IDS, *, payloads: bool = True
) -> AsyncIterator[Scan]:
    """The parts of one scan, one after the other."""
    cursor: str | None = None
    for _ in range(2_000):
        part = await play.store.reads.scan(
            shard, group, ids=ids, payloads=payloads, cursor=cursor, limit=limit, now_ms=play.now_ms
        )
        yield part
        cursor = part.cursor
        if cursor is None:
            return
    pytest.fail("the scan does not end")


def without_payloads(row: Found) -> Found:
    """The same row with empty payloads and without a result."""

    def bare(record: Record | None) -> Record | None:
        return None if record is None else replace(record, payload=b"")

    return replace(
        row,
        record=bare(row.record),
        blocked_job=bare(row.blocked_job),
        finished_job=None if row.finished_job is None else replace(row.finished_job, result=None),
        dead_letters=tuple(replace(each, record=replace(each.record, payload=b"")) for each in row.dead_letters),
    )


def key_of(row: Found) -> tuple[str, int]:
    """The key of a row in its group."""
    return row.id, row.dead_letters[0].key.number if row.dead_letters else 0


async def scanned(play: Play, group: Group, limit: int = 1_000) -> list[Found]:
    """All rows of a group in all shards, each once, by id."""
    found: dict[tuple[str, int], Found] = {}
    for shard in play.queue.all_shards():
        async for part in parts_of(play, shard, group, limit):
            assert len(part.rows) <= limit + OVER
            found |= {key_of(row): row for row in part.rows}
    return [found[key] for key in sorted(found)]


async def end(play: Play, ids: list[str], outcome: Outcome, payload: bytes = LONG) -> None:
    """Let jobs run and end; no other job may be ready."""
    await play.enqueue_all(*[play.job(id, payload=payload) for id in ids])
    while claims := await play.claim(1_000):
        await play.store.jobs.settle([claim.settle(outcome) for claim in claims], now_ms=play.now_ms)


async def some_of_each(play: Play) -> list[str]:
    """Jobs in every state and in several at once; returns all ids, in order."""
    names = {name: [f"{name}-{number:02}" for number in range(12)] for name in ("a", "b", "done", "gone", "dead")}
    await end(play, names["done"], Done(LONG))
    await end(play, names["gone"], Cancelled())
    await end(play, names["dead"], Failed(BOOM))
    await end(play, names["dead"][:2], Failed(BOOM))
    freed = await play.start("freed", worker="worker-2", payload=LONG)
    await play.enqueue("freed", delay_ms=50)
    await play.settle(freed, Done(b"1"))
    await play.enqueue_all(*[play.job(id, payload=LONG) for id in names["a"]])
    await play.claim(12, lease_ms=1_000)
    await play.enqueue_all(*[play.job(id, payload=LONG, delay_ms=at) for at, id in enumerate(names["a"][:6])])
    await play.cancel("a-07", running=True)
    await play.enqueue("dead-02", tag="again", headers={"trace": "1"}, payload=LONG)
    await play.enqueue_all(*[play.job(id, payload=LONG, delay_ms=at % 3) for at, id in enumerate(names["b"])])
    return sorted(["freed", *(id for each in names.values() for id in each)])


async def test_a_scan_shows_the_same_as_find_and_the_list_of_dead_letters(play: Play) -> None:
    """However small its parts are."""
    ids = await some_of_each(play)
    found = [each for each in await play.store.reads.find(play.queue, ids, now_ms=play.now_ms) if each is not None]
    dead_letters = sorted(await play.dead_letters(), key=lambda each: (each.record.id, each.key.number))

    shown = {limit: [await scanned(play, group, limit) for group in GROUPS] for limit in (1, 2, 1_000)}

    alive = [each for each in found if each.state in (State.WAITING, State.ACTIVE)]
    ended = [each.finished_job for each in found if each.finished_job is not None]
    assert (len(alive), len(ended), len(dead_letters)) == (26, 25, 14)
    for rows in shown.values():
        assert rows == [
            [replace(each, finished_job=None, dead_letters=()) for each in alive],
            [Found(each.id, State(each.state), finished_job=each) for each in ended],
            [Found(each.record.id, State.DEAD, each.record, dead_letters=(each,)) for each in dead_letters],
        ]


async def test_a_scan_shows_why_a_job_of_a_paused_queue_waits(play: Play) -> None:
    await play.enqueue("a")
    await play.configure(paused=True)

    [row] = await scanned(play, "alive")

    assert row == await play.found("a")
    assert row.why == "its queue is paused; resume it"


async def test_a_scan_leaves_out_rows_past_their_retention(play: Play) -> None:
    await play.configure(keep_done_ms=1_000, keep_dead_ms=1_000)
    old, new = play.ids(2)
    for id in (old, new):
        await play.settle(await play.start(id))
        await play.die(id)
        await play.settle(await play.start(id))
        play.advance(1)

    play.advance(998)

    assert [row.id for row in await scanned(play, "ended")] == [new]
    assert [row.id for row in await scanned(play, "dead")] == [new]


@pytest.mark.parametrize("group", GROUPS)
async def test_a_part_ends_at_about_four_mebibytes(play: Play, group: Group) -> None:
    large = b"x" * PAYLOAD_BYTES_MAX
    ids = play.ids(2 * SCAN_PART_BYTES // PAYLOAD_BYTES_MAX + 1)
    match group:
        case "alive":
            await play.enqueue_all(*[play.job(id, payload=large) for id in ids])
        case "ended":
            await end(play, ids, Done(large))
        case "dead":
            await end(play, ids, Failed(BOOM), large)

    parts = [part async for part in parts_of(play, play.queue.shard_of(ids[0]), group)]

    assert {row.id for part in parts for row in part.rows} == set(ids)
    assert max(len(part.rows) for part in parts) < len(ids)
    assert 2 <= len(parts) <= 4


async def churn(play: Play, numbers: "count[int]") -> None:
    """Jobs come, and end in every way, in one call each for many."""
    ids = [f"moves-{next(numbers):05}" for _ in range(60)]
    await play.enqueue_all(*[play.job(id, payload=LONG) for id in ids])
    claims = await play.claim(60)
    await play.enqueue_all(*[play.job(claim.lease.id, payload=LONG) for claim in claims[::5]])
    outcomes = (Done(LONG), Failed(BOOM), Cancelled())
    settled = [claim.settle(outcomes[at % 3]) for at, claim in enumerate(claims[:50])]
    await play.store.jobs.settle(settled, now_ms=play.now_ms)
    await play.store.jobs.remove(play.queue, ids[::2], now_ms=play.now_ms)


async def test_a_row_that_stays_in_its_group_is_shown_while_others_move(play: Play) -> None:
    numbers = count()
    stays = [f"stays-{number:02}" for number in range(40)]
    await play.enqueue_all(*[play.job(id, payload=LONG) for id in stays])
    for at, claim in enumerate(await play.claim(40)):
        await play.settle(claim, Failed(BOOM) if at % 2 else Done(LONG))
    dead_letters = {each.record.id for each in await play.dead_letters()}
    await play.enqueue_all(*[play.job(id, payload=LONG, delay_ms=9_000) for id in stays if id in dead_letters])
    await churn(play, numbers)

    shown: dict[Group, list[str]] = {group: [] for group in GROUPS}
    for shard in play.queue.all_shards():
        scans = {group: parts_of(play, shard, group, 7) for group in GROUPS}
        while scans:
            for group, parts in list(scans.items()):
                part = await anext(parts, None)
                if part is None:
                    del scans[group]
                else:
                    shown[group] += [row.id for row in part.rows]
            if next(numbers) < 900:
                await churn(play, numbers)

    assert dead_letters <= set(shown["alive"])
    assert dead_letters <= set(shown["dead"])
    assert set(stays) - dead_letters <= set(shown["ended"])


def check(folded: Folded, group: Group, rows: list[Found]) -> None:
    """Every row equals the fold of the journal."""
    for row in rows:
        match group:
            case "alive":
                assert folded.live[row.id] == (row.state, row.fence)
                assert (row.id in folded.blocked_jobs) is (row.blocked_job is not None)
            case "ended":
                assert folded.over[row.id] is row.state
            case "dead":
                assert folded.dead_letters[row.dead_letters[0].key.number] == row.id


def whole(folded: Folded, group: Group) -> set[str] | set[int]:
    """All rows of a group in the fold of the journal."""
    known: dict[Group, Callable[[], set[str] | set[int]]] = {
        "alive": lambda: set(folded.live),
        "ended": lambda: set(folded.over),
        "dead": lambda: set(folded.dead_letters),
    }
    return known[group]()


async def test_each_part_equals_the_journal_up_to_its_seq(play: Play) -> None:
    """Also when others write at the same time."""
    parts: list[tuple[Shard, Group, bool, Scan]] = []
    numbers = count()

    async def scan() -> None:
        for shard in play.queue.all_shards():
            for group in GROUPS:
                found = [part async for part in parts_of(play, shard, group)]
                parts.extend((shard, group, len(found) == 1, part) for part in found)

    for _ in range(6):
        await asyncio.gather(churn(play, numbers), scan(), scan())

    folded = {shard: Folded() for shard in play.queue.all_shards()}
    events = {shard: iter([each for each in await play.events() if each.shard == shard]) for shard in folded}
    reached = dict.fromkeys(folded, 0)
    for shard, group, is_whole, part in sorted(parts, key=lambda each: each[3].as_of_seq):
        while reached[shard] < part.as_of_seq:
            event = next(events[shard])
            folded[shard].add(event)
            reached[shard] = event.seq
        check(folded[shard], group, part.rows)
        if is_whole:
            keys = {key_of(row)[group == "dead"] for row in part.rows}
            assert keys == whole(folded[shard], group)
    assert len({part.as_of_seq for *_, part in parts}) > 1


@pytest.mark.parametrize("cuts", [["b"], ["a-07", "b-03", "dead-02"], ["", "a", "~"]], ids=str)
async def test_ranges_of_ids_divide_a_scan_without_a_gap_or_a_row_twice(play: Play, cuts: list[str]) -> None:
    await some_of_each(play)
    ranges = [IdRange(after, upto) for after, upto in zip(["", *cuts], [*cuts, None], strict=True)]

    for shard in play.queue.all_shards():
        for group in GROUPS:
            whole = {key_of(row) async for part in parts_of(play, shard, group) for row in part.rows}
            found = []
            for ids in ranges:
                rows = [row async for part in parts_of(play, shard, group, 5, ids) for row in part.rows]
                assert all(ids.holds(row.id) for row in rows)
                found.append({key_of(row) for row in rows})
            assert set().union(*found) == whole
            assert sum(map(len, found)) == len(whole)


async def test_a_scan_without_payloads_shows_the_same_rows_with_everything_else(play: Play) -> None:
    await end(play, ["large"], Failed(BOOM), b"9" * PAYLOAD_BYTES_MAX)
    await some_of_each(play)
    await play.enqueue("headed", headers={"trace": "1"}, tag="t", payload=LONG, delay_ms=10)

    for shard in play.queue.all_shards():
        for group in GROUPS:
            whole = {key_of(row): row async for part in parts_of(play, shard, group) for row in part.rows}
            bare = {
                key_of(row): row async for part in parts_of(play, shard, group, payloads=False) for row in part.rows
            }
            assert bare == {key: without_payloads(row) for key, row in whole.items()}


async def test_ids_cut_a_shard_into_equal_ranges_where_a_store_has_them_in_order(play: Play) -> None:
    shard = Shard(play.queue)
    unknown = await play.store.reads.split_ids(shard, 4)
    await end(play, ids_of(shard, 9, "done"), Done(b"1"))
    await play.enqueue_all(*[play.job(id) for id in ids_of(shard, 40)])

    cuts = [list(await play.store.reads.split_ids(shard, parts, now_ms=play.now_ms)) for parts in (1, 4, 1_000)]

    ids = sorted(ids_of(shard, 40))
    assert (unknown, cuts[0]) == ([], [])
    if cuts[1]:
        assert cuts[1] == [ids[9], ids[19], ids[29]]
    assert cuts[2] == []


def ids_of(shard: Shard, count: int, name: str = "job") -> list[str]:
    """Ids that belong to a shard."""
    found = (f"{name}-{number}" for number in range(100_000))
    return list(islice((id for id in found if shard.queue.index_of(id) == shard.index), count))


async def test_a_part_of_a_scan_names_its_instant_of_the_journal(play: Play) -> None:
    await some_of_each(play)

    for shard in play.queue.all_shards():
        bounds = await play.store.journal.bounds(shard)
        for group in GROUPS:
            part = await play.store.reads.scan(shard, group, now_ms=play.now_ms)
            assert (part.epoch, part.as_of_seq) == (bounds.epoch, bounds.last_seq)


async def test_an_unknown_shard_has_nothing(play: Play) -> None:
    for shard in play.queue.all_shards():
        for group in GROUPS:
            assert await play.store.reads.scan(shard, group, now_ms=play.now_ms) == Scan(0, 0, [], None)


async def test_a_group_that_does_not_exist_is_refused(play: Play) -> None:
    for group in ("waiting", "", None, State.DONE):
        with pytest.raises(Refused) as refused:
            await play.store.reads.scan(Shard(play.queue), group, now_ms=play.now_ms)  # type: ignore[arg-type]
        assert refused.value.reason == "bad_group"
        assert "use one of alive, ended, dead" in str(refused.value)


async def test_a_limit_that_is_no_number_of_rows_is_refused(play: Play) -> None:
    for limit in (0, -1, 1_001, 1.5, True):
        with pytest.raises(Refused) as refused:
            await play.store.reads.scan(Shard(play.queue), "alive", limit=limit, now_ms=play.now_ms)  # type: ignore[arg-type]
        assert refused.value.reason == "bad_limit", limit


async def test_a_cursor_that_no_scan_of_the_group_gave_is_refused(play: Play) -> None:
    await some_of_each(play)
    shards = play.queue.all_shards()
    own = {group: (await play.store.reads.scan(shards[0], group, limit=1)).cursor for group in GROUPS}
    listed = (await play.store.reads.list(play.queue, State.WAITING, limit=1, now_ms=play.now_ms)).cursor
    bad = ["?", "", "bm90IGEgY3Vyc29y", "OTk5OS8x", "é", "x" * 5_000, "MC9kZWFkL3g=", "MC9hbGl2ZS8A", listed]

    for group in GROUPS:
        wrong = [(shards[0], cursor) for cursor in bad]
        wrong += [(shards[0], cursor) for other, cursor in own.items() if other != group]
        wrong += [(shard, own[group]) for shard in shards[1:]]
        for shard, cursor in wrong:
            assert cursor is not None
            with pytest.raises(Refused) as refused:
                await play.store.reads.scan(shard, group, cursor=cursor, now_ms=play.now_ms)
            assert refused.value.reason == "bad_cursor", cursor
            assert "start without one" in str(refused.value)


async def test_a_scan_of_a_queue_with_another_number_of_shards_is_refused(play: Play) -> None:
    await play.enqueue("a")
    other = Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1)

    for shard in other.all_shards():
        with pytest.raises(Refused) as refused:
            await play.store.reads.scan(shard, "alive", now_ms=play.now_ms)
        assert refused.value.reason == "wrong_shards"


async def test_a_scan_shows_nothing_of_another_tenant(play: Play) -> None:
    """C1: every structure is per tenant."""
    other = Play(play.store, play.queue.shards, tenant="other")
    await some_of_each(play)

    assert [await scanned(other, group) for group in GROUPS] == [[], [], []]
