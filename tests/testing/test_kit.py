"""An app on a store of the kit: everything of it uses that store, and nothing is left behind."""

import asyncio
import contextlib
import pickle
import threading
from pathlib import Path

import pytest

from headrace import App, Refused, State, StoreUnavailable
from headrace.testing import AsyncKit, Kit, KitClock, KitStore, using
from tests.support.stores import sqlite_url
from tests.testing.shop import LOG, NOWHERE, app, audit, mail, other, welcome_there

SOON_S = 20


def test_all_clients_of_the_app_use_the_store_of_the_block() -> None:
    with using(app) as kit:
        audit.blocking.enqueue("blocking")
        kit.run(audit.enqueue("awaited"))
        kit.client.enqueue("audit", {"what": "by its kind"}, queue="audit")
        asyncio.run(_elsewhere())

        assert [job.arguments["what"] for job in kit.enqueued()] == ["blocking", "awaited", "by its kind", "elsewhere"]
        assert len(kit.drain()) == 4


async def _elsewhere() -> None:
    async with app:
        await audit.enqueue("elsewhere")


async def test_handlers_with_process_run_in_the_test_process() -> None:
    LOG.clear()
    async with using(app):
        await mail.enqueue("here")
        await app.work(until_idle=True)

    assert LOG == ["False mail to here", "audit here"]


def test_each_event_loop_has_its_own_client() -> None:
    with using(app) as kit:
        here, again = kit.run(app.client()), kit.run(app.client())
        elsewhere = asyncio.run(app.client())

    assert (again is here, elsewhere is here) == (True, False)


async def test_using_works_in_a_coroutine() -> None:
    async with using(app) as kit:
        handle = await audit.enqueue("awaited")
        await kit.client.enqueue("audit", {"what": "by its kind"}, queue="audit")
        audit.blocking.enqueue("blocking")
        await app.work(until_idle=True)

        assert isinstance(kit, AsyncKit)
        found = await handle.find()
        assert found is not None
        assert found.state is State.DONE
        kit.assert_enqueued(audit, times=3)


async def test_after_the_block_the_app_uses_its_own_store(tmp_path: Path) -> None:
    """Also when it was open before, and when the block failed."""
    own = App(sqlite_url(tmp_path))
    ping = own.job(_ping)
    before = await own.client()
    await ping.options(id="before").enqueue()

    with contextlib.suppress(ZeroDivisionError):
        async with using(own):
            during = await own.client()
            await ping.options(id="during").enqueue()
            raise ZeroDivisionError

    await ping.options(id="after").enqueue()
    found = await before.find("default", "before", "during", "after")
    assert [each is not None for each in found] == [True, False, True]
    assert (await own.client() is before, during is before) == (True, False)
    await own.close()


async def _ping() -> None:
    return


def test_clients_of_an_ended_block_say_that_it_is_over() -> None:
    with using(app) as kit:
        handle, client = audit.blocking.enqueue("b"), kit.client

    with pytest.raises(StoreUnavailable, match="this client was closed"):
        handle.find()
    with pytest.raises(StoreUnavailable, match="this client was closed"):
        client.enqueue("audit")
    with pytest.raises(StoreUnavailable, match="the block of this testing kit is over"):
        asyncio.run(_tenants(kit))
    with pytest.raises(StoreUnavailable, match="the block of this testing kit is over"):
        kit.dead_letters()


async def _tenants(kit: Kit) -> object:
    return await kit.store.queues.tenants()


async def test_a_pending_wait_fails_when_the_block_ends() -> None:
    async with using(app) as kit:
        waiting = asyncio.create_task(kit.store.signals.wait([audit.queue], 60_000))
        await kit.store.called("wait")

    with pytest.raises(StoreUnavailable, match="the block of this testing kit is over"):
        async with asyncio.timeout(SOON_S):
            await waiting


def test_no_thread_and_no_loop_is_left_after_the_block() -> None:
    audit.app.blocking.job("warm", {})
    with using(app) as kit:
        audit.blocking.enqueue("b")
        kit.drain()
    before = threading.active_count()

    for _ in range(5):
        with using(app) as kit:
            audit.blocking.enqueue("b")
            kit.drain()

    assert threading.active_count() == before


def test_blocks_may_be_nested_and_the_innermost_holds() -> None:
    with using(app) as outer:
        audit.blocking.enqueue("outer")
        with using(app) as inner:
            audit.blocking.enqueue("inner")
        audit.blocking.enqueue("outer again")

    assert [job.arguments["what"] for job in outer.enqueued()] == ["outer", "outer again"]
    assert [job.arguments["what"] for job in inner.enqueued()] == ["inner"]


def test_two_apps_have_stores_of_their_own_or_share_one() -> None:
    with using(app) as one, using(other) as another:
        audit.blocking.enqueue("b")
        welcome_there.blocking.enqueue("c")
        apart = [len(one.enqueued()), len(another.enqueued())]

    store = KitStore()
    with using(app, store=store) as one, using(other, store=store) as another:
        audit.blocking.enqueue("b")
        welcome_there.blocking.enqueue("c")
        together = [len(one.enqueued()), len(another.enqueued())]
        worked = [len(one.drain()), len(another.drain())]
    store.end()

    assert (apart, together, worked) == ([1, 1], [2, 2], [1, 1])


def test_the_url_is_never_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the environment names another one later."""
    unset = App()
    ping = unset.job(_ping)

    with using(unset) as kit:
        ping.blocking.enqueue()
        kit.drain()
    monkeypatch.setenv("HEADRACE_URL", NOWHERE)

    assert repr(unset) == "<App at redis://127.0.0.1:1/0 with 1 jobs>"


def test_a_client_of_the_block_cannot_be_carried_to_another_process() -> None:
    with using(app) as kit, pytest.raises(Refused, match="stays in this process"):
        pickle.dumps(kit.client)


def test_the_clock_stands_until_it_is_moved_and_never_goes_back() -> None:
    with using(app, now=1_000_000) as kit:
        assert kit.clock.now_ms() == 1_000_000
        assert kit.clock.advance("5m") == 1_300_000
        assert kit.clock.advance(1) == 1_301_000
        assert kit.clock.move_to(1_400_000) == 1_400_000
        with pytest.raises(Refused, match="it goes forward only"):
            kit.clock.move_to(1)
        with pytest.raises(Refused, match="cannot be negative"):
            kit.clock.advance("-1s")
        assert repr(kit.clock) == "<KitClock at 1400000>"
        handle = audit.blocking.enqueue("b")

    assert int(handle.id.replace("-", "")[:12], 16) == 1_400_000, "ids are made by the same clock"


def test_a_store_brings_its_own_clock() -> None:
    store = KitStore(KitClock(5_000))
    with pytest.raises(Refused, match="a store has its clock already"):
        using(app, store=store, now=1)
    store.end()
