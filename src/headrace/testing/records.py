"""What a test may ask of a kit without running anything: the jobs that were sent, the letters of those that died."""

from collections.abc import Mapping
from typing import Any

from headrace.app.app import App
from headrace.app.sender import Maker
from headrace.model.errors import Refused
from headrace.model.finished import Letter
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr
from headrace.stores.catalog import all_queues, all_tenants
from headrace.stores.memory.store import MemoryStore
from headrace.testing.asserting import unwanted_but, wanted_but
from headrace.testing.clock import KitClock
from headrace.testing.matching import OPTIONS, UNSEEN, Wanted, divided
from headrace.testing.sent import SentJob, sent_job
from headrace.testing.store import KitStore
from headrace.worker.handlers import Handler

Which = str | Maker[..., Any]
"""A job function, one with `.options(…)`, or a kind by its name."""


class Records:
    """The looks of a kit; none of them waits, so they are the same in plain tests and in coroutines."""

    def __init__(self, app: App, store: KitStore) -> None:
        self.app = app
        self.store = store
        """The store in memory, which can be told to fail: `kit.store.fail("enqueue")`, `with kit.store.down():`."""

    @property
    def clock(self) -> KitClock:
        """The clock that the store goes by: `kit.clock.advance("5m")`."""
        return self.store.clock

    def enqueued(self, job: Which | None = None) -> list[SentJob]:
        """The jobs that were sent while the kit is open, in order, also those that have run since; of one kind or all.

        A job that was sent again before a worker took it is one job.
        """
        kind = None if job is None else _kind_of(job)
        ledger, codec = self.store.ledger, self.app.maker.codec
        return [
            sent_job(sent, self._handler(sent.record.kind), codec)
            for sent in list(ledger.sent)
            if kind is None or sent.record.kind == kind
        ]

    def assert_enqueued(self, job: Which, /, *args: Any, times: int | None = None, **wanted: Any) -> list[SentJob]:
        """Fail unless such a job was sent; returns those that fit. `kit.assert_enqueued(welcome, user_id=42)`.

        Arguments that are not named may be anything; an argument that was not sent has the function's default. Values
        are compared as they travel, so that a tuple equals a list. Options are said with the words of `Options`
        (`queue="mail"`, `delay="5m"`, `tag=…`), or as they are given: `welcome.options(delay="5m")`, which also helps
        where the function has an argument of that name. `times` wants exactly so many.
        """
        __tracebackhide__ = True
        which = self._wanted(job, args, wanted)
        sent = self.enqueued()
        if (why := wanted_but(which, sent, times)) is not None:
            raise AssertionError(why)
        return [each for each in sent if not which.differences(each)]

    def assert_not_enqueued(self, job: Which, /, *args: Any, **wanted: Any) -> None:
        """Fail if such a job was sent; see `assert_enqueued`."""
        __tracebackhide__ = True
        if (why := unwanted_but(self._wanted(job, args, wanted), self.enqueued())) is not None:
            raise AssertionError(why)

    def letters(self, job: Which | None = None) -> list[Letter]:
        """The dead letters, of one kind or all: each with its job, why it died, and its error."""
        kind = None if job is None else _kind_of(job)
        return [each for each in self.store.look(_all_letters) if kind is None or each.record.kind == kind]

    def _wanted(self, job: Which, args: tuple[Any, ...], said: Mapping[str, Any]) -> Wanted:
        kind = _kind_of(job)
        handler = self._handler(kind)
        arguments, options = divided(handler, args, said, OPTIONS)
        options = said_options(job) | options
        if unseen := sorted(UNSEEN & options.keys()):
            raise Refused(
                "bad_arguments", f"{', '.join(unseen)} cannot be told from a job that was sent; leave it out here"
            )
        codec = self.app.maker.codec if handler is None else handler.codec
        return Wanted(kind, handler, codec, arguments, options)

    def _handler(self, kind: str) -> Handler | None:
        function = self.app.registry.find(kind)
        return None if function is None else function.handler


def said_options(job: Which) -> dict[str, Any]:
    """What `.options(…)` has said, without the options that all jobs of the function have."""
    if isinstance(job, str):
        return {}
    return {name: value for name in job.said if (value := getattr(job.given, name)) is not None}


def _kind_of(job: Which) -> str:
    if isinstance(job, str):
        return job
    if isinstance(job, Maker):
        return job.function.kind
    raise Refused(
        "bad_job",
        f"a job function or the name of a kind was wanted; found {bounded_repr(job)}; decorate it with @app.job",
    )


async def _all_letters(store: MemoryStore) -> list[Letter]:
    found: list[Letter] = []
    for tenant in await all_tenants(store):
        for queue in await all_queues(store, tenant):
            found += await _letters(store, queue)
    return sorted(found, key=lambda letter: letter.died_at_ms)


async def _letters(store: MemoryStore, queue: Queue) -> list[Letter]:
    page = await store.dead.list(queue, limit=1_000)
    found = list(page.rows)
    while page.cursor is not None:
        page = await store.dead.list(queue, cursor=page.cursor, limit=1_000)
        found += page.rows
    return found
