"""The store in a PostgreSQL database."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.model.clock import Clock, SystemClock
from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName
from headrace.model.integrity import schema_at
from headrace.model.job import Job
from headrace.model.results import Enqueued, Health
from headrace.stores.engine.dead_letters import EngineDeadLetters
from headrace.stores.engine.feeds import EngineFeeds
from headrace.stores.engine.integrity import EngineIntegrity
from headrace.stores.engine.items import EngineItems
from headrace.stores.engine.queues import EngineQueues
from headrace.stores.engine.reads import EngineReads
from headrace.stores.engine.rows import Tx
from headrace.stores.postgres.connection import Connection, ConnectionSettings, translate_errors
from headrace.stores.postgres.engine import PostgresEngine
from headrace.stores.postgres.jobs import SLOW_CALLS, FastJobs
from headrace.stores.postgres.journal import PostgresJournal
from headrace.stores.postgres.server import (
    check_server,
    migrate,
    raise_epoch_after_crash,
    server_notes,
    version_now,
    version_of,
)
from headrace.stores.postgres.sql import migration_names, sql
from headrace.stores.postgres.transaction import PostgresTx
from headrace.stores.postgres.transactional import CallerConnection, enqueue_on

T = TypeVar("T")


class PostgresItems(EngineItems):
    """A step locks its feed and reads in one round trip, and writes in another: every round trip under the lock makes
    all other writers of the feed wait."""

    async def _write(self, feed: FeedName, ids: Sequence[str], act: Callable[[Tx], T]) -> T:
        def locked(tx: Tx) -> T:
            assert isinstance(tx, PostgresTx)
            tx.feeds.lock_and_prefetch(feed, ids)
            return act(tx)

        return await self._engine.write(locked)


class PostgresStore:
    """A store in one schema of a database that may hold other things, shared by any number of processes."""

    is_remote = True

    def __init__(self, engine: PostgresEngine, promise: str, slow_calls: int) -> None:
        self._engine = engine
        self._promise = promise
        self.jobs = FastJobs(engine, slow_calls)
        self.dead = EngineDeadLetters(engine)
        self.queues = EngineQueues(engine)
        self.reads = EngineReads(engine)
        self.journal = PostgresJournal(engine)
        self.signals = engine.signals
        self.integrity = EngineIntegrity(engine)
        self.feeds = EngineFeeds(engine)
        self.items = PostgresItems(engine)

    @property
    def settings(self) -> ConnectionSettings:
        """The settings of the URL."""
        return self._engine.settings

    @staticmethod
    async def open(
        settings: ConnectionSettings, *, clock: Clock | None = None, slow_calls: int = SLOW_CALLS
    ) -> "PostgresStore":
        """Open the schema in the settings, creating it when missing."""
        if clock is not None:
            raise BadConfig(
                "a store in PostgreSQL takes no clock, its server's is used; give now_ms with each call instead"
            )
        engine = PostgresEngine(settings)

        def prepare(connection: Connection) -> str:
            with translate_errors(settings.address):
                promise = check_server(connection, settings)
                migrate(connection, settings)
                raise_epoch_after_crash(connection)
            engine.threads.on_connect = raise_epoch_after_crash
            return promise

        try:
            promise = await engine.threads.run(prepare)
        except BaseException:
            await engine.close()
            raise
        return PostgresStore(engine, promise, slow_calls)

    async def enqueue_on(
        self, connection: CallerConnection, jobs: Sequence[Job], *, now_ms: int | None = None
    ) -> list[Enqueued]:
        """Enqueue as part of the caller's own transaction, on its connection to the same database (psycopg's
        `Connection` or `AsyncConnection`). The caller commits: then the jobs exist and waiters are woken; after a
        rollback they never were. Until then other calls wait only for the ids of these jobs. A new queue stays, empty,
        when the transaction is rolled back."""
        return await enqueue_on(self._engine, connection, jobs, now_ms)

    async def now_ms(self) -> int:
        return await self._engine.read(lambda tx: tx.now_ms())

    async def health(self) -> Health:
        settings, promise = self._engine.settings, self._promise

        def query(connection: Connection) -> Health:
            with translate_errors(settings.address):
                [(epoch, now_ms)] = connection.execute(sql("epoch_highest")).fetchall()
                skew_ms, version = now_ms - SystemClock().now_ms(), version_of(connection)
                schema = schema_at(version_now(connection), migration_names())
                notes = server_notes(connection, settings)
            server = f"PostgreSQL {version}"
            return Health("postgres", settings.profile, promise, version, skew_ms, epoch, server, schema, notes)

        return await self._engine.threads.run(query)

    async def close(self) -> None:
        await self._engine.close()
