"""The finished jobs and the dead letters of a shard: read for a whole batch, collected while the step lasts."""

from headrace.model.finished import DeadLetter, FinishedJob
from headrace.stores.engine.row_codec import finished_job_columns, finished_job_of, pack, unpack_dead_letter
from headrace.stores.engine.rows import BYTES_MAX, part_of
from headrace.stores.postgres.counters import PostgresShard, PostgresShardCounters, Sequences
from headrace.stores.postgres.sql import LazyTransaction

FRONT_ROWS = 64
"""The oldest dead letters are read this many at a time: each death checks whether they have run out."""
FinishedState = tuple[str, bool]
"""The state of a finished job and whether it is pinned, for the counts."""


class PostgresFinishedRows(PostgresShard):
    """Finished jobs, at most one per id and swept oldest first; dead letters under numbers that only grow."""

    def __init__(
        self, transaction: LazyTransaction, shard_id: int, counters: PostgresShardCounters, sequences: Sequences
    ) -> None:
        super().__init__(transaction, shard_id, counters, sequences)
        self._finished_states: dict[str, FinishedState | None] = {}
        self._stored_finished_jobs: set[str] = set()
        self._finished_jobs: dict[str, FinishedJob | None] = {}
        self._new_dead_letters: dict[int, DeadLetter] = {}
        self._gone_dead_letters: list[int] = []
        self._of_id: dict[str, list[DeadLetter]] = {}
        self._dead_letter_front: list[tuple[int, int]] | None = None
        self._dead_letter_front_is_complete = False

    def finished_job(self, id: str) -> FinishedJob | None:
        if id in self._finished_jobs:
            return self._finished_jobs[id]
        if not self._may_exist():
            return None
        found = self.run("finished_job_find", self.shard_id, id).fetchone()
        return None if found is None else finished_job_of(found)

    def _any_counted(self) -> bool:
        return self.counters.done + self.counters.cancelled > 0

    def _may_exist(self) -> bool:
        # A write ignores the counter: it was read before the job was locked, and may not include its end yet.
        return self.transaction.writes or self._any_counted()

    def _state_of(self, id: str) -> FinishedState | None:
        if id not in self._finished_states:
            ids = [each for each in dict.fromkeys([id, *self.batch_ids]) if each not in self._finished_states]
            self._finished_states |= dict.fromkeys(ids)
            if self._may_exist():
                for each, state, pinned in self.run("finished_job_lock", self.shard_id, ids).fetchall():
                    self._finished_states[each] = (state, pinned)
                    self._stored_finished_jobs.add(each)
        return self._finished_states[id]

    def put_finished_job(self, finished_job: FinishedJob) -> None:
        self._count_out(finished_job.id)
        self._finished_jobs.pop(finished_job.id, None)  # so that the newest is inserted last
        self._finished_jobs[finished_job.id] = finished_job
        self._finished_states[finished_job.id] = (finished_job.state, finished_job.pinned)
        self.counters.count_finished(finished_job.state, finished_job.pinned, 1)

    def drop_finished_job(self, id: str) -> None:
        if self._count_out(id):
            self._finished_jobs[id] = None
            self._finished_states[id] = None

    def _count_out(self, id: str) -> bool:
        old = self._state_of(id)
        if old is not None:
            self.counters.count_finished(*old, -1)
        return old is not None

    def flush_finished_jobs(self) -> None:
        """Write the finished jobs that the step has changed so far; in one round trip inside `pipeline`."""
        dropped = [id for id in self._finished_jobs if id in self._stored_finished_jobs]
        kept = [
            finished_job_columns(finished_job)
            for finished_job in self._finished_jobs.values()
            if finished_job is not None
        ]
        self._stored_finished_jobs.difference_update(dropped)
        self._stored_finished_jobs.update(
            id for id, finished_job in self._finished_jobs.items() if finished_job is not None
        )
        self._finished_jobs = {}
        if dropped:
            self.run("finished_job_drop", self.shard_id, dropped)
        if kept:
            self.run("finished_job_write", self.shard_id, *map(list, zip(*kept, strict=True)))

    def scan_finished_jobs(self, after_id: str, limit: int, bytes_max: int | None) -> tuple[list[FinishedJob], bool]:
        bounds = (bytes_max is not None, self.shard_id, after_id, limit, BYTES_MAX if bytes_max is None else bytes_max)
        with self.transaction.pipeline():
            self.flush_finished_jobs()
            found = self.run("finished_job_scan", *bounds)
        part, more = part_of(found.fetchall(), lambda columns: len(columns[-1] or b""), limit, bytes_max)
        return [finished_job_of(columns) for columns in part], more

    def sweep_finished_jobs(self, now_ms: int, keep_max: int, limit: int) -> int:
        if not self._any_counted():
            return 0
        over = min(max(self.counters.unpinned - keep_max, 0), limit)
        with self.transaction.pipeline():
            self.flush_finished_jobs()
            surplus = self.run("finished_job_sweep", self.shard_id, over) if over else None
            firsts = self.run("finished_job_next_times", self.shard_id)
        swept = 0 if surplus is None else self._swept(surplus.fetchall(), pinned=False)
        oldest_ms, pinned_ms = firsts.fetchall()[0]
        if swept < limit and oldest_ms is not None and oldest_ms <= now_ms:
            found = self.run("finished_job_sweep_old", self.shard_id, limit - swept, now_ms)
            swept += self._swept(found.fetchall(), pinned=False)
        if swept < limit and pinned_ms is not None and pinned_ms <= now_ms:
            found = self.run("finished_job_sweep_pinned", self.shard_id, now_ms, limit - swept)
            swept += self._swept(found.fetchall(), pinned=True)
        return swept

    def _swept(self, dropped: list[tuple[str, str]], pinned: bool) -> int:
        for id, state in dropped:
            self.counters.count_finished(state, pinned, -1)
            self._finished_states[id] = None
            self._stored_finished_jobs.discard(id)
        return len(dropped)

    def dead_letter(self, number: int) -> DeadLetter | None:
        found = self._select("dead_letter_find", self.shard_id, number)
        return found[0] if found else None

    def newest_dead_letter(self, id: str) -> DeadLetter | None:
        dead_letters = self.dead_letters_of(id)
        return dead_letters[-1] if dead_letters else None

    def dead_letters_of(self, id: str) -> list[DeadLetter]:
        # A write ignores the counter: it was read before the job was locked, and may not include its death yet.
        if not self.transaction.writes and not self.counters.dead:
            return []
        if id not in self._of_id:
            ids = [each for each in dict.fromkeys([id, *self.batch_ids]) if each not in self._of_id]
            found = self._select("dead_letter_of_ids", self.shard_id, ids)
            self._of_id |= {each: [] for each in ids}
            for dead_letter in found:
                self._of_id[dead_letter.record.id].append(dead_letter)
        return list(self._of_id[id])

    def dead_letters(self, after: int, limit: int) -> list[DeadLetter]:
        return self._select("dead_letter_list", self.shard_id, after, limit)

    def scan_dead_letters(self, after: int, limit: int, bytes_max: int) -> tuple[list[DeadLetter], bool]:
        with self.transaction.pipeline():
            self.flush_dead_letters()
            found = self.run("dead_letter_scan", self.shard_id, after, limit, bytes_max)
        part, more = part_of(found.fetchall(), lambda columns: len(columns[0]), limit, bytes_max)
        return [unpack_dead_letter(body) for (body,) in part], more

    def _select(self, name: str, *args: object) -> list[DeadLetter]:
        # Lock rows that are going to be written: two calls that drop the same dead letter must not both count it.
        if self.transaction.writes:
            name += "_lock"
        with self.transaction.pipeline():
            self.flush_dead_letters()
            found = self.run(name, *args)
        return [unpack_dead_letter(body) for (body,) in found.fetchall()]

    def put_dead_letter(self, dead_letter: DeadLetter) -> None:
        self.counters.dead += 1
        self._new_dead_letters[dead_letter.key.number] = dead_letter
        if dead_letter.record.id in self._of_id:
            self._of_id[dead_letter.record.id].append(dead_letter)
        if self._dead_letter_front is not None and self._dead_letter_front_is_complete:
            self._dead_letter_front.append((dead_letter.key.number, dead_letter.until_ms))

    def drop_dead_letter(self, number: int) -> None:
        self.counters.dead -= 1
        if self._new_dead_letters.pop(number, None) is None:
            self._gone_dead_letters.append(number)
        for id, dead_letters in self._of_id.items():
            self._of_id[id] = [dead_letter for dead_letter in dead_letters if dead_letter.key.number != number]
        if self._dead_letter_front is not None:
            self._dead_letter_front = [each for each in self._dead_letter_front if each[0] != number]

    def flush_dead_letters(self) -> None:
        """Write the dead letters that the step has changed so far; in one round trip inside `pipeline`."""
        new, dropped = list(self._new_dead_letters.values()), self._gone_dead_letters
        self._new_dead_letters, self._gone_dead_letters = {}, []
        if dropped:
            self.run("dead_letter_drop", self.shard_id, dropped)
        if new:
            columns = [
                (dead_letter.key.number, dead_letter.record.id, dead_letter.until_ms, pack(dead_letter))
                for dead_letter in new
            ]
            self.run("dead_letter_write", self.shard_id, *map(list, zip(*columns, strict=True)))

    def dead_letters_over(self, now_ms: int, keep_max: int, limit: int) -> list[DeadLetter]:
        if not self.counters.dead:
            return []
        over = 0
        for _, until_ms in self._oldest_dead_letters(limit):
            if self.counters.dead - over <= keep_max and until_ms > now_ms:
                break
            over += 1
        return self.dead_letters(0, over) if over else []

    def _oldest_dead_letters(self, limit: int) -> list[tuple[int, int]]:
        if self._dead_letter_front is None or (
            len(self._dead_letter_front) < limit and not self._dead_letter_front_is_complete
        ):
            wanted = max(limit, FRONT_ROWS)
            with self.transaction.pipeline():
                self.flush_dead_letters()
                found = self.run("dead_letter_oldest", self.shard_id, wanted)
            self._dead_letter_front = [(number, until_ms) for number, until_ms in found.fetchall()]
            self._dead_letter_front_is_complete = len(self._dead_letter_front) < wanted
        return self._dead_letter_front[:limit]
