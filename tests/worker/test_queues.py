"""A worker of several queues claims in their order, or by shares, and starves none."""

import asyncio

import pytest

from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.testing.faults import FaultyStore
from headrace.worker.claimer import QueueOrder
from headrace.worker.handlers import Handlers, handler_of
from tests.worker.support import MAIL, job, jobs, run_until_idle

URGENT, BULK, REPORTS = Queue("urgent"), Queue("bulk"), Queue("reports")


class Log:
    """Handlers that say from which queue they were called, in order."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def work(self, where: str) -> None:
        """On the loop."""
        self.ran.append(where)

    def plain(self, where: str) -> None:
        """In a thread."""
        self.ran.append(where)

    def handlers(self, *plain: Queue) -> Handlers:
        """Both, the plain one at home in these queues."""
        handlers = Handlers()
        for queue in (URGENT, BULK, REPORTS):
            handler = handler_of("plain", self.plain) if queue in plain else handler_of("work", self.work)
            handlers.register(handler, queue)
        return handlers


async def fill(store: Store, queue: Queue, count: int, kind: str = "work") -> None:
    """Jobs that know where they are."""
    payload = b'{"where":"%s"}' % queue.name.encode()
    await store.jobs.enqueue([job(str(n), kind, queue=queue, payload=payload) for n in range(count)])


async def test_queues_are_emptied_in_order(store: Store) -> None:
    """Q37, QB12: the first queue goes first, and the order is not turned round."""
    log = Log()
    await fill(store, BULK, 5)
    await fill(store, URGENT, 5)

    await run_until_idle(store, log.handlers(), queues=["urgent", "bulk"], capacity=1)

    assert log.ran == ["urgent"] * 5 + ["bulk"] * 5


@pytest.mark.parametrize("plain", [URGENT, BULK], ids=["urgent-in-threads", "bulk-in-threads"])
async def test_the_order_holds_wherever_handlers_run(store: Store, plain: Queue) -> None:
    """Q37, QB12: a queue with handlers in threads is not claimed out of order."""
    log = Log()
    for queue in (REPORTS, BULK, URGENT):
        await fill(store, queue, 5, "plain" if queue == plain else "work")

    await run_until_idle(store, log.handlers(plain), queues=["urgent", "bulk", "reports"], capacity=1)

    assert log.ran == ["urgent"] * 5 + ["bulk"] * 5 + ["reports"] * 5


async def test_within_a_queue_the_higher_priority_goes_first(store: Store) -> None:
    """QB12: 9 before 0, and among equals the one that waited longer."""
    ran = []

    async def work(number: int) -> None:
        ran.append(number)

    given = [(5, 1), (0, 2), (9, 3), (5, 4), (9, 5)]
    await store.jobs.enqueue(
        [job(str(n), queue=BULK, priority=priority, payload=b'{"number":%d}' % n) for priority, n in given]
    )
    handlers = Handlers()
    handlers.register(handler_of("work", work), BULK)
    await run_until_idle(store, handlers, capacity=1)

    assert ran == [3, 5, 1, 4, 2]


@pytest.mark.parametrize("plain", [(), (BULK,)], ids=["all-on-the-loop", "bulk-in-threads"])
async def test_queues_with_shares_go_first_as_often_as_their_shares_say(store: Store, plain: tuple[Queue, ...]) -> None:
    """Q37: three of four claims begin with the queue that has three of four shares."""
    log = Log()
    await fill(store, URGENT, 100)
    await fill(store, BULK, 100, "plain" if plain else "work")

    await run_until_idle(store, log.handlers(*plain), queues={"urgent": 3, "bulk": 1}, capacity=1)

    assert log.ran[:40].count("urgent") == 30
    assert log.ran[:40].count("bulk") == 10
    assert max(len(run) for run in "".join(name[0] for name in log.ran[:40]).split("b")) <= 3
    assert len(log.ran) == 200


async def test_a_queue_with_nothing_to_do_leaves_its_turns_to_the_others(store: Store) -> None:
    """Q37: the unused share of a queue goes to the others."""
    log = Log()
    await fill(store, BULK, 50)

    await run_until_idle(store, log.handlers(), queues={"urgent": 100, "bulk": 1, "reports": 100}, capacity=10)

    assert log.ran == ["bulk"] * 50


async def test_no_queue_is_dropped_when_the_worker_is_full(store: Store) -> None:
    """Q37, QB11: forty queues, a capacity of two: all are worked off."""
    ran = []

    async def work() -> None:
        await asyncio.sleep(0)
        ran.append(1)

    queues = [Queue(f"queue-{n}") for n in range(40)]
    handlers = Handlers()
    handlers.register(handler_of("work", work), *queues)
    for queue in queues:
        await store.jobs.enqueue([job(str(n), queue=queue) for n in range(5)])
    await run_until_idle(store, handlers, capacity=2)

    assert len(ran) == 200


async def test_a_worker_claims_from_the_queues_of_its_handlers_by_default(flaky: FaultyStore) -> None:
    """Q37: in the order of registration."""
    log = Log()

    await run_until_idle(flaky, log.handlers())

    assert list(flaky.claims[0].queues) == [URGENT, BULK, REPORTS]


async def test_queues_that_are_not_named_are_left_alone(store: Store) -> None:
    log = Log()
    await fill(store, URGENT, 3)
    await fill(store, BULK, 3)

    await run_until_idle(store, log.handlers(), queues=["bulk"])

    assert log.ran == ["bulk"] * 3
    assert (await store.queues.counts(URGENT)).waiting == 3


async def test_a_named_queue_has_the_shards_of_its_handler(store: Store) -> None:
    ran = []

    async def work() -> None:
        ran.append(1)

    cut = Queue("mail", shards=4)
    handlers = Handlers()
    handlers.register(handler_of("work", work), cut)
    await store.jobs.enqueue(jobs(20, queue=cut))
    await run_until_idle(store, handlers, queues=["mail"])

    assert len(ran) == 20


async def test_names_belong_to_the_tenant_of_the_worker(store: Store) -> None:
    ran = []

    async def work(tenant: str) -> None:
        ran.append(tenant)

    other = Queue("mail", tenant="acme")
    handlers = Handlers()
    handlers.register(handler_of("work", work))
    await store.jobs.enqueue([job("a", queue=other, payload=b'{"tenant":"acme"}')])
    await store.jobs.enqueue([job("a", queue=MAIL, payload=b'{"tenant":"default"}')])
    await run_until_idle(store, handlers, queues=["mail"], tenant="acme")

    assert ran == ["acme"]


def test_shares_are_spread_evenly() -> None:
    """Q37: not three in a row and then one, but as even as it goes."""
    order = QueueOrder({URGENT: 3, BULK: 2, REPORTS: 1}, is_weighted=True)

    first = []
    for _ in range(12):
        first.append(order.current()[0].name[0])
        order.advance()

    assert "".join(first) == "uburbu" * 2


def test_without_shares_the_order_never_changes() -> None:
    order = QueueOrder({URGENT: 1, BULK: 1}, is_weighted=False)

    order.advance()

    assert order.current() == [URGENT, BULK]
