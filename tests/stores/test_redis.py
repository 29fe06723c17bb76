"""What only the Redis store promises: missing records are set aside, shards agree, names heal, epochs rise."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import Any

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.errors import BadConfig, HeadraceError, Refused
from headrace.model.feed import FeedName
from headrace.model.job import State
from headrace.model.limits import FENCE_JUMP
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done, Failed, Released, Retried
from headrace.model.policy import Policy
from headrace.model.results import Counts
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.stores.redis.keys import TENANTS, feed_key, head_key, names_key, prefix_of
from headrace.stores.redis.library import LAYOUT, read_library
from tests.support.feed_play import FeedPlay
from tests.support.lua_faults import FAULTS, planted
from tests.support.play import BOOM, Play
from tests.support.redis_servers import RedisServer
from tests.support.server_cleanup import count_keys, flush
from tests.support.servers import PASSWORD, USER, redis_cluster, redis_server


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = await open_store(url)
    yield store
    await store.close()


@pytest.fixture
def server() -> RedisServer:
    """An empty server that tests may look into."""
    flush([redis_server()])
    return redis_server()


@pytest.fixture
def store(server: RedisServer, runner: asyncio.Runner) -> Iterator[Store]:
    """A store on it."""
    opening = opened(server.url_of(USER, PASSWORD))
    yield runner.run(opening.__aenter__())
    runner.run(opening.__aexit__(None, None, None))


@pytest.fixture
def play(store: Store) -> Play:
    return Play(store)


def key_of(play: Play, suffix: str, index: int = 0) -> str:
    """A key of a shard of the play's queue."""
    return prefix_of(Shard(play.queue, index)) + suffix


def quarantine(server: RedisServer, play: Play) -> list[str]:
    """What was set aside, newest first."""
    return [each.decode() for each in server.ask("LRANGE", key_of(play, "q"), 0, -1)]


# Records that are missing.


async def test_a_claim_goes_past_a_job_whose_body_is_gone_and_reports_it(server: RedisServer, play: Play) -> None:
    """QB6: the call goes on without it."""
    lost, *kept = play.ids(3)
    await play.enqueue_all(*[play.job(id) for id in (lost, *kept)])
    server.ask("HDEL", key_of(play, "b"), lost)

    claims = await play.claims(10)

    assert [claim.record.id for claim in claims.items] == kept
    assert [each.split()[-1] for each in quarantine(server, play)] == [lost]
    counts = await play.counts()
    assert (counts.waiting, counts.active) == (0, 2)
    assert await play.find(lost) is None


async def test_a_claim_that_finds_missing_bodies_only_is_empty_and_the_next_one_finds_nothing(
    server: RedisServer, play: Play
) -> None:
    await play.enqueue("ready")
    await play.enqueue("later", delay_ms=10)
    server.ask("DEL", key_of(play, "b"))

    play.advance(10)
    first, second = await play.claims(10), await play.claims(10)

    assert (first.items, second.items, second.next_at_ms) == ([], [], None)
    assert sorted(each.split()[-1] for each in quarantine(server, play)) == ["later", "ready"]
    assert await play.counts() == Counts()


@pytest.mark.parametrize("outcome", [Done(b"1"), Retried(BOOM), Failed(BOOM), Released()])
async def test_a_settle_of_a_job_whose_body_is_gone_ends_it_and_leaves_the_others_alone(
    server: RedisServer, play: Play, outcome: Any
) -> None:
    lost, kept = play.ids(2)
    await play.enqueue_all(play.job(lost), play.job(kept))
    claims = await play.claim(2)
    server.ask("HDEL", key_of(play, "b"), lost)

    answers = await play.store.jobs.settle([claim.settle(outcome) for claim in claims], now_ms=play.now_ms)

    assert [answer.id for answer in answers] == [lost, kept]
    assert answers[1].ok
    assert (await play.counts()).active == 0
    assert await play.state(lost) in (None, State.DONE)


async def test_a_repair_goes_past_a_job_whose_body_is_gone_and_reports_it(server: RedisServer, play: Play) -> None:
    lost, kept = play.ids(2)
    await play.enqueue_all(play.job(lost), play.job(kept))
    await play.claim(2, lease_ms=1_000)
    server.ask("HDEL", key_of(play, "b"), lost)

    play.advance(1_000)
    await play.repair()

    counts = await play.counts()
    assert (counts.waiting, counts.active) == (1, 0)
    assert (await play.record(kept)).stalls == 1
    assert [each.split()[-1] for each in quarantine(server, play)] == [lost]


async def test_a_lease_without_its_delivery_never_breaks_a_call(server: RedisServer, play: Play) -> None:
    claim = await play.start("a", lease_ms=1_000)
    server.ask("DEL", key_of(play, "a"))

    extended = await play.extend(claim.lease)
    settled = await play.settle(claim)
    play.advance(1_000)
    await play.repair()

    assert (extended.status, settled.status) == ("not_active", "not_active")
    assert (await play.counts()).active == 0


async def test_the_quarantine_is_bounded(server: RedisServer, play: Play) -> None:
    for part in range(3):
        await play.enqueue_all(*[play.job(f"job-{part}-{number:03}") for number in range(600)])
    server.ask("DEL", key_of(play, "b"))

    for _ in range(20):
        await play.claims(1_000)

    assert len(quarantine(server, play)) == 1_000
    assert await play.counts() == Counts()


# Shards that agree.


@pytest.mark.parametrize("clustered", [False, True], ids=["single", "cluster"])
async def test_a_configuration_reaches_every_shard_with_its_line(clustered: bool) -> None:
    servers = redis_cluster().servers if clustered else [redis_server()]
    flush(servers)
    url = (redis_cluster() if clustered else redis_server()).url_of(USER, PASSWORD)
    async with opened(url) as store:
        play = Play(store, 5)

        await play.configure(max_attempts=3)
        await asyncio.gather(*[play.configure(priority=number) for number in range(8)])

        last = await store.queues.configuration(play.queue)
        lines = {shard: [event.line.version for event in await play.events()] for shard in play.queue.all_shards()}
        claims = [await play.start(id, lease_ms=1) for id in ("a", "b", "c", "d", "e", "f", "g")]
    assert (last.version, last.max_attempts) == (9, 3)
    assert {claim.priority for claim in claims} == {last.priority}
    assert all(set(versions) <= set(range(1, 10)) and versions[-1] == 9 for versions in lines.values())


async def test_a_shard_that_missed_a_configuration_takes_the_next_one(server: RedisServer, store: Store) -> None:
    play = Play(store, 3)
    await play.configure(max_attempts=3)
    fields = ("cfg", "about")
    old = server.ask("HMGET", key_of(play, "m", 2), *fields)
    await play.configure(max_attempts=4)
    server.ask("HSET", key_of(play, "m", 2), *chain.from_iterable(zip(fields, old, strict=True)))

    config = await play.configure(paused=True)

    assert (config.version, config.max_attempts) == (3, 4)
    assert len({server.ask("HGET", key_of(play, "m", index), "cfg") for index in range(3)}) == 1


async def test_a_shard_that_is_missing_is_made_again_with_the_configuration_in_force(
    server: RedisServer, store: Store
) -> None:
    play = Play(store, 3)
    await play.configure(max_attempts=7)
    id = next(id for id in map(str, range(100)) if play.queue.index_of(id) == 2)
    server.ask("DEL", key_of(play, "m", 2), key_of(play, "j", 2))

    answer = await play.enqueue(id)

    assert answer.status == "created"
    assert len({server.ask("HGET", key_of(play, "m", index), "cfg") for index in range(3)}) == 1


# Names that heal.


async def test_a_name_without_a_queue_is_not_shown(server: RedisServer, play: Play) -> None:
    await play.enqueue("a")
    server.ask("ZADD", names_key("acme"), 0, "ghost", 0, "mail.fail")

    page = await play.store.queues.names("acme")

    assert page.rows == [play.queue]


async def test_a_name_without_a_queue_can_be_used_with_any_number_of_shards(server: RedisServer, store: Store) -> None:
    server.ask("ZADD", names_key("acme"), 0, "mail")
    server.ask("ZADD", TENANTS, 0, "acme")
    play = Play(store, 4)

    answer = await play.enqueue("a")

    assert answer.status == "created"
    assert (await store.queues.names("acme")).rows == [play.queue]


async def test_pages_of_names_are_full_although_some_have_no_queue(server: RedisServer, store: Store) -> None:
    for number in range(6):
        await Play(store, name=f"queue-{number}").configure(paused=True)
    server.ask("ZADD", names_key("acme"), *[word for number in range(9) for word in (0, f"queue-{number}-ghost")])

    first = await store.queues.names("acme", limit=4)
    second = await store.queues.names("acme", cursor=first.cursor, limit=4)

    assert [queue.name for queue in first.rows] == [f"queue-{number}" for number in range(4)]
    assert [queue.name for queue in second.rows] == ["queue-4", "queue-5"]


async def test_a_queue_of_two_makers_is_cut_once(store: Store) -> None:
    plays = [Play(store, shards) for shards in range(1, 9)]

    answers = await asyncio.gather(*[play.enqueue("a") for play in plays])

    [cut] = (await store.queues.names("acme")).rows
    assert sorted(answer.status for answer in answers) == ["created"] + ["wrong_shards"] * 7
    assert [play.queue for play, answer in zip(plays, answers, strict=True) if answer.ok] == [cut]


async def test_deleting_and_creating_at_once_loses_no_job_and_no_name(server: RedisServer, store: Store) -> None:
    play = Play(store, 3)
    kept: list[str] = []

    async def delete() -> None:
        for _ in range(60):
            with suppress(Refused):  # it has jobs just now
                await store.queues.delete(play.queue)

    async def create() -> None:
        for number in range(60):
            id = f"job-{number}"
            answer = await play.enqueue(id)
            assert answer.status == "created"
            if number % 5:
                await play.remove(id)
            else:
                kept.append(id)
                for claim in await play.claim(10):
                    await play.settle(claim)
                    kept.remove(claim.lease.id)

    await asyncio.gather(create(), delete(), delete())

    waiting = (await store.reads.list(play.queue, State.WAITING, now_ms=play.now_ms)).rows
    assert sorted(each.id for each in waiting) == sorted(kept)
    there = any(server.ask("EXISTS", head_key(shard)) for shard in play.queue.all_shards())
    assert (await store.queues.names("acme")).rows == ([play.queue] if there else [])
    await play.store.queues.purge(play.queue, now_ms=play.now_ms)
    while not await store.queues.delete(play.queue):
        pass
    assert count_keys([server]) == {"subscriptions": 0}


# Restarts.


async def test_after_the_death_of_the_server_epoch_and_fence_jump_and_nothing_is_lost() -> None:
    with RedisServer(aof="always").launch() as server:
        async with opened(server.url) as store:
            play = Play(store)
            shard = Shard(play.queue, 0)
            before = await play.start("a")
            await play.enqueue("b")
            first = await store.journal.bounds(shard)
            server.kill()
            server.start()

            for _ in range(20):  # the dead connections are noticed one by one
                try:
                    claims = await play.claim(10)
                    break
                except HeadraceError:
                    continue
            after = await store.journal.bounds(shard)

            [claim] = claims
            entries = await store.journal.read(shard, 0, 99)
            settled = await play.settle(before)
    assert claim.record.id == "b"
    assert claim.lease.fence > before.lease.fence + FENCE_JUMP
    assert first.epoch == 1 < after.epoch
    assert [entry.epoch for entry in entries] == [1, 1, 1, after.epoch]
    assert [entry.last_seq for entry in entries] == [1, 2, 3, 4]
    assert settled.status == "done"


@pytest.mark.parametrize("is_saved", [True, False], ids=["saved once", "never saved"])
async def test_two_lives_that_lost_the_same_tail_share_no_epoch_and_no_fence(is_saved: bool) -> None:
    lives: list[tuple[int, int]] = []
    with RedisServer().launch() as server:
        for life in range(3):
            async with opened(server.url) as store:
                play = Play(store)
                if not is_saved or not life:
                    await play.enqueue("a")
                if is_saved and not life:
                    server.ask("SAVE")
                claim = await play.claim_one()
                lives.append((claim.lease.fence, (await store.journal.bounds(Shard(play.queue, 0))).epoch))
            server.kill()
            server.start()
    fences, epochs = zip(*lives, strict=True)
    assert fences[0] < fences[1] < fences[2]
    assert epochs[0] < epochs[1] < epochs[2]


async def test_a_shard_that_a_newer_headrace_has_written_is_refused_and_left_alone(
    server: RedisServer, play: Play
) -> None:
    claim = await play.start("a")
    server.ask("HSET", head_key(Shard(play.queue, 0)), "about", f"{LAYOUT + 1} 1 and something else")
    before = {key: server.ask("DUMP", key) for key in server.ask("KEYS", "*")}
    store, shard = play.store, Shard(play.queue, 0)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: play.enqueue("b"),
        lambda: play.claim(1),
        lambda: play.settle(claim),
        lambda: play.extend(claim.lease),
        lambda: play.cancel("a"),
        play.repair,
        lambda: play.configure(paused=True),
        play.counts,
        lambda: play.find("a"),
        lambda: store.journal.bounds(shard),
        lambda: store.reads.scan(shard, "alive"),
        lambda: store.integrity.check(shard),
    ]

    for call in calls:
        with pytest.raises(BadConfig, match=f"holds data of layout {LAYOUT + 1}, .* use a newer Headrace"):
            await call()

    assert {key: server.ask("DUMP", key) for key in server.ask("KEYS", "*")} == before


async def test_a_shard_that_an_older_headrace_has_written_is_refused_and_left_alone(
    server: RedisServer, play: Play
) -> None:
    """Its counters stand in fields of their own, which this library does not read."""
    await play.enqueue("a")
    head = head_key(Shard(play.queue, 0))
    server.ask("HDEL", head, "head", "about")
    server.ask("HSET", head, "layout", LAYOUT - 1, "seq", 1)
    before = {key: server.ask("DUMP", key) for key in server.ask("KEYS", "*")}

    for call in (lambda: play.enqueue("b"), lambda: play.claim(1), play.counts):
        with pytest.raises(BadConfig, match=f"holds queues of layout {LAYOUT - 1}, .* no longer reads"):
            await call()

    assert {key: server.ask("DUMP", key) for key in server.ask("KEYS", "*")} == before


async def test_a_feed_that_a_newer_headrace_has_written_is_refused(server: RedisServer, store: Store) -> None:
    news = FeedPlay(store)
    await news.create()
    await news.put("a")
    server.ask("HSET", feed_key(FeedName("news", "acme")), "layout", LAYOUT + 1)

    for call in (news.put("b"), news.end(), news.page()):
        with pytest.raises(BadConfig, match=f"holds data of layout {LAYOUT + 1}"):
            await call


async def test_a_reader_sees_the_new_epoch_before_the_first_write_after_a_restart() -> None:
    with RedisServer(aof="always").launch() as server:
        async with opened(server.url) as store:
            await Play(store).enqueue("a")
        server.kill()
        server.start()
        async with opened(server.url) as store:
            play = Play(store)
            scan = await store.reads.scan(Shard(play.queue, 0), "alive", now_ms=play.now_ms)
            snapshot = await store.reads.snapshot(Shard(play.queue, 0), now_ms=play.now_ms)
            bounds = await store.journal.bounds(Shard(play.queue, 0))
            claim = await play.claim_one()
            again = await store.journal.bounds(Shard(play.queue, 0))
    assert 1 < scan.epoch == snapshot.epoch == bounds.epoch == again.epoch
    assert claim.lease.fence > FENCE_JUMP


async def test_a_scan_that_goes_on_on_another_server_shows_all_that_stays(play: Play) -> None:
    """Each server has its own order of hash tables, and a restarted server another one."""
    flush(redis_cluster().servers)
    ids = [f"job-{number:03}" for number in range(200)]
    async with opened(redis_cluster().url_of(USER, PASSWORD)) as other:
        for each in (play, Play(other)):
            await each.enqueue_all(*[each.job(id, payload=b"x" * 100) for id in ids])
        first = await play.store.reads.scan(Shard(play.queue), "alive", limit=100, now_ms=play.now_ms)
        shown, cursor = {row.id for row in first.rows}, first.cursor

        while cursor is not None:
            part = await other.reads.scan(Shard(play.queue), "alive", cursor=cursor, limit=100, now_ms=play.now_ms)
            shown |= {row.id for row in part.rows}
            cursor = part.cursor

    assert 100 <= len(first.rows) < 200
    assert shown == set(ids)


# Names and ids that could be taken for something else.

HOSTILE = [
    "{a}",
    "a}b{c",
    "hr:{acme/mail/0}:m",
    "a:b",
    "a/b",
    "a#1",
    "#",
    "%",
    "*",
    "[a",
    "(a",
    "-",
    "+",
    "é",
    "🙂" * 64,
    "\\",
    '"',
    "'",
]


async def test_an_id_may_hold_anything_that_can_be_printed(server: RedisServer, store: Store) -> None:
    play = Play(store, 3)
    await play.enqueue_all(*[play.job(id, tag=id, kind=id[:128], idempotency_key=id) for id in HOSTILE])

    found = await store.reads.find(play.queue, HOSTILE, now_ms=play.now_ms)
    listed = [each.id for each in (await store.reads.list(play.queue, State.WAITING, now_ms=play.now_ms)).rows]
    claims = await play.claim(100, worker=HOSTILE[1])
    await store.jobs.settle([claim.settle(Failed(BOOM)) for claim in claims], now_ms=play.now_ms)
    replayed = await store.dead.replay(play.queue, HOSTILE, now_ms=play.now_ms)

    assert [each and each.id for each in found] == HOSTILE
    assert listed == sorted(HOSTILE, key=lambda id: (play.queue.index_of(id), id))
    assert sorted(claim.record.id for claim in claims) == sorted(HOSTILE)
    assert [answer.status for answer in replayed] == ["replayed"] * len(HOSTILE)
    slots = {key.partition(b"}")[0] for key in server.ask("KEYS", "hr:{acme/*")}
    assert slots == {prefix_of(shard).partition("}")[0].encode() for shard in play.queue.all_shards()}


async def test_queues_whose_names_look_alike_do_not_meet(store: Store) -> None:
    names = ["a", "a.b", "a.f", "f", "a-0", "a_0", "A", "a.fai", "m"]
    plays = [Play(store, 2, name=name) for name in names]
    for each in plays:
        await each.configure(fail_handler=True)
        await each.die("x", policy=Policy(max_attempts=1))

    counts = [await each.counts() for each in plays]
    fail_queues = [await each.counts(each.queue.fail_queue) for each in plays]

    assert [(each.dead, each.waiting) for each in counts] == [(1, 0)] * len(names)
    assert [(each.dead, each.waiting) for each in fail_queues] == [(0, 1)] * len(names)
    listed = (await store.queues.names("acme", limit=100)).rows
    assert [queue.full_name for queue in listed] == sorted([*names, *[f"{name}.fail" for name in names]])


async def test_a_fail_queue_is_claimed_before_anybody_has_named_it(server: RedisServer, store: Store) -> None:
    play = Play(store, 3)
    await play.configure(fail_handler=True)
    await play.die("x")
    server.ask("ZREM", names_key("acme"), "mail.fail")

    request = ClaimRequest(queues=[play.queue.fail_queue], worker="worker-1", nonce=play.nonce())
    claims = await store.jobs.claim(request, now_ms=play.now_ms)

    assert [claim.record.id for claim in claims.items] == ["x#1"]
    assert claims.items[0].lease.queue == Queue("mail", "acme", 3).fail_queue


# Faults.


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_planted_fault_still_fits_the_functions(fault: str) -> None:
    source = read_library().source

    assert planted(fault, source) != source
