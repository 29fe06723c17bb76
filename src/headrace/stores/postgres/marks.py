"""Small rows beside the jobs of a shard: idempotency keys and workers."""

from headrace.stores.engine.rows import KeyRow, WorkerRow
from headrace.stores.postgres.counters import PostgresShardCounters, Sequences
from headrace.stores.postgres.lazy_transaction import LazyTransaction
from headrace.stores.postgres.part import PostgresRowGroup


class PostgresKeyRows(PostgresRowGroup):
    """Looked up for a whole batch, kept while the step lasts."""

    def __init__(self, link: LazyTransaction, shard_id: int, counters: PostgresShardCounters, draws: Sequences) -> None:
        super().__init__(link, shard_id, counters, draws)
        self._keys: dict[tuple[str, str], KeyRow | None] = {}
        self._new_keys: dict[tuple[str, str], KeyRow] = {}
        self._stored_keys: set[tuple[str, str]] = set()
        self._workers: dict[str, WorkerRow | None] = {}
        self._stored_workers: set[str] = set()
        self._new_workers: set[str] = set()

    def load_keys(self, keys: list[tuple[str, str]]) -> None:
        """A hint that these keys of these ids come next."""
        keys = sorted(set(keys))
        self._keys |= dict.fromkeys(keys)
        ids, names = [id for id, _ in keys], [name for _, name in keys]
        for id, name, fingerprint, until_ms in self.run("key_lock", self.shard_id, ids, names).fetchall():
            self._keys[id, name] = KeyRow(fingerprint, until_ms)
            self._stored_keys.add((id, name))

    def key(self, id: str, key: str) -> KeyRow | None:
        if (id, key) not in self._keys:
            self.load_keys([(id, key)])
        return self._keys[id, key]

    def put_key(self, id: str, key: str, row: KeyRow) -> None:
        self._keys[id, key] = self._new_keys[id, key] = row

    def flush_keys(self) -> None:
        """Write the keys that the step has changed so far; all in one go inside `together`."""
        columns = [(id, key, row.fingerprint, row.until_ms) for (id, key), row in self._new_keys.items()]
        known = [each for each in columns if each[:2] in self._stored_keys]
        new = [each for each in columns if each[:2] not in self._stored_keys]
        self._stored_keys.update(self._new_keys)
        self._new_keys = {}
        if known:
            self.run("key_change", self.shard_id, *map(list, zip(*known, strict=True)))
        if new:
            # One that is there by now was written by a call beside this one: the step is taken again and sees it.
            self.run("key_write", self.shard_id, *map(list, zip(*new, strict=True)))

    def sweep_keys(self, now_ms: int, limit: int) -> int:
        with self.link.together():
            self.flush_keys()
            gone = self.run("key_sweep", self.shard_id, now_ms, limit)
        return gone.rowcount

    def worker(self, name: str) -> WorkerRow | None:
        if name not in self._workers:
            statement = "worker_lock" if self.link.writes else "worker_find"
            self.keep_worker(name, self.run(statement, [self.shard_id], name).fetchone())
        return self._workers[name]

    def keep_worker(self, name: str, columns: tuple[int, str, int] | None) -> None:
        """Keep what was found of a worker, unless it is known."""
        if name in self._workers:
            return
        self._workers[name] = None if columns is None else WorkerRow(*columns[1:])
        if columns is not None:
            self._stored_workers.add(name)

    def put_worker(self, name: str, row: WorkerRow) -> None:
        self.worker(name)
        self._workers[name] = row
        self._new_workers.add(name)

    def flush_workers(self) -> None:
        """Write the workers that the step has changed so far."""
        for name in self._new_workers:
            row = self._workers[name]
            if row is not None:
                statement = "worker_change" if name in self._stored_workers else "worker_write"
                self.run(statement, row.nonce, row.seen_at_ms, self.shard_id, name)
                self._stored_workers.add(name)
        self._new_workers = set()

    def sweep_workers(self, before_ms: int, limit: int) -> int:
        self.flush_workers()
        return self.run("worker_sweep", self.shard_id, before_ms, limit).rowcount

    def workers(self) -> list[tuple[str, WorkerRow]]:
        self.flush_workers()
        found = self.run("worker_list", self.shard_id).fetchall()
        return [(name, WorkerRow(nonce, seen_at_ms)) for name, nonce, seen_at_ms in found]
