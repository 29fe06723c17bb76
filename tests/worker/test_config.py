"""The configuration of a worker is checked when it is built."""

import os
from datetime import timedelta
from typing import Any

import pytest

from headrace.client.client import Client
from headrace.model.errors import BadConfig
from headrace.model.job import State
from headrace.model.names import FAIL_KIND, Queue
from headrace.stores.contract.store import Store
from headrace.worker.config import WorkerConfig, WorkerSettings
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.worker import Worker
from tests.worker.support import MAIL, build_handlers, find


async def work() -> None:
    """A handler."""


def settings(store: Store, **config: Any) -> WorkerSettings:
    """What holds."""
    return Worker(store, build_handlers(work=work), WorkerConfig(**config)).settings


async def test_defaults_are_sane(store: Store) -> None:
    """T25: four hundred units, sixteen threads, a process for each core, leases of 30 s, a heartbeat of a third."""
    found = Worker(store, build_handlers(work=work)).settings

    assert (found.capacity, found.threads, found.pool_size) == (400, 16, os.cpu_count())
    assert (found.lease_ms, found.heartbeat_ms, found.grace_ms) == (30_000, 10_000, 25_000)
    assert (found.poll_ms, found.repair_ms, found.jobs_per_pool_process) == (10_000, 10_000, None)
    assert found.queues == {MAIL: 1}
    assert str(os.getpid()) in found.name


async def test_durations_may_be_written_in_any_way(store: Store) -> None:
    """T25: text with a unit, seconds, or a timedelta."""
    found = settings(store, lease=12, heartbeat="2500ms", grace=timedelta(minutes=1), poll=0.5)

    assert (found.lease_ms, found.heartbeat_ms, found.grace_ms, found.poll_ms) == (12_000, 2_500, 60_000, 500)


async def test_a_worker_of_named_queues_handles_their_dead_letters_only(store: Store) -> None:
    """The jobs of another's fail handler may be retried for hours."""
    handlers, other = build_handlers(work=work), Queue("other")
    handlers.register(handler_of("more", work), other)
    for queue in (MAIL, other):
        handlers.register_fail(handler_of(FAIL_KIND, work), queue)

    settings = Worker(store, handlers, WorkerConfig(queues=["other"])).settings
    free = Worker(store, handlers).settings

    assert list(settings.queues) == [other, other.fail_queue]
    assert list(free.queues) == [MAIL, other, MAIL.fail_queue, other.fail_queue]


async def test_a_tenant_alone_means_the_queues_of_the_handlers_by_name_of_this_tenant(store: Store) -> None:
    """As the jobs of these handlers for this tenant are sent: to queues of the same names, cut likewise."""
    handlers = build_handlers(work=work)
    for queue in (Queue("big", shards=3), Queue("own", "acme", 2), Queue("own")):
        handlers.register(handler_of(f"more-{queue.tenant}-{queue.name}", work), queue)
    for queue in (MAIL, Queue("own", "acme", 2)):
        handlers.register_fail(handler_of(FAIL_KIND, work), queue)

    alone = Worker(store, handlers, WorkerConfig(tenant="acme")).settings
    named = Worker(store, handlers, WorkerConfig(tenant="acme", queues=["big"])).settings

    own = Queue("own", "acme", 2)
    assert list(alone.queues) == [Queue("mail", "acme"), Queue("big", "acme", 3), own, own.fail_queue]
    assert list(named.queues) == [Queue("big", "acme", 3)]


async def test_two_workers_of_one_process_have_different_names(store: Store) -> None:
    assert settings(store).name != settings(store).name
    assert settings(store, name="mailer").name == "mailer"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"capacity": 0}, "capacity of a worker must be a whole number from 1"),
        ({"capacity": 2.5}, "capacity"),
        ({"capacity": True}, "capacity"),
        ({"capacity": 10_001}, "capacity"),
        ({"threads": 0}, "threads"),
        ({"pool_size": 0}, "pool_size"),
        ({"jobs_per_pool_process": 0}, "jobs_per_pool_process"),
        ({"lease": "99ms"}, "lease of a worker must be at least 100 ms; found 99 ms"),
        ({"lease": 0}, "lease"),
        ({"lease": "soon"}, "lease 'soon' is not a valid duration"),
        ({"lease": "30s", "heartbeat": "16s"}, "make the heartbeat at most half of the lease"),
        ({"heartbeat": 0}, "heartbeat"),
        ({"grace": -1}, "grace"),
        ({"poll": 0}, "poll"),
        ({"repair": 0}, "repair"),
        ({"name": "x" * 129}, "name"),
        ({"queues": "mail"}, r"queues is a list of names; found the text 'mail'; write \['mail'\]"),
        ({"queues": ["mail box"]}, "'mail box' is not a name"),
        ({"tenant": "*"}, r"a worker claims for one tenant, and tenant '\*' means all; start a worker for each"),
        ({"tenant": "Acme"}, "tenant 'Acme' is not a name"),
        ({"queues": {"mail": 0}}, "share of queue 'mail'"),
        ({"queues": {"mail": "much"}}, "share of queue 'mail'"),
        ({"queues": [f"queue-{n}" for n in range(65)]}, "queues"),
    ],
)
async def test_what_makes_no_sense_is_refused_when_the_worker_is_built(
    store: Store, config: dict[str, Any], message: str
) -> None:
    """T25: refused with a sentence, not silently adjusted."""
    with pytest.raises(BadConfig, match=message):
        settings(store, **config)


async def test_a_worker_without_queues_is_refused(store: Store) -> None:
    """Q32: nothing to claim from."""
    with pytest.raises(BadConfig, match="no queue to claim from"):
        settings(store, queues=[])


async def test_a_worker_without_handlers_is_refused(store: Store) -> None:
    """Q32: it would claim jobs that other workers handle, and fail them."""
    with pytest.raises(BadConfig, match="no handlers"):
        Worker(store, Handlers(), WorkerConfig(queues=["mail"]))


async def test_a_program_without_a_worker_just_enqueues(store: Store) -> None:
    """Q32: a client needs neither handlers nor workers."""
    handle = await Client(store, queue="mail").enqueue("work", {"number": 7}, id="a")

    assert handle.status == "created"
    assert (await find(store, "a")).state is State.WAITING


async def test_queues_may_be_named_with_their_tenant_and_cut(store: Store) -> None:
    given = Queue("mail", tenant="acme", shards=3)

    assert settings(store, queues=[given, "reports"], tenant="umbrella").queues == {
        given: 1,
        Queue("reports", tenant="umbrella"): 1,
    }
