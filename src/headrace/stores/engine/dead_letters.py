"""Dead letters: list, replay, purge."""

import builtins
from collections.abc import Sequence

from msgspec.structs import replace

from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.job import ZERO_COUNTS
from headrace.model.limits import BATCH_MAX, DURATION_MS_MAX, PAGE_MAX
from headrace.model.names import Queue
from headrace.model.results import Page, Replayed
from headrace.model.validate import check_batch, check_bool, check_int
from headrace.stores.contract.dead_letters import ALL_DEAD_LETTERS, DeadLetterFilter
from headrace.stores.engine.rows import Engine, Tx
from headrace.stores.engine.settle import purge_dead_letter
from headrace.stores.engine.step import Step, at, finish_step
from headrace.stores.shared.cursors import read_dead_letter_cursor, write_cursor
from headrace.stores.shared.sharding import picks_by_shard
from headrace.stores.shared.validate import check_pick


class EngineDeadLetters:
    """Dead letters, shard by shard."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(
        self,
        queue: Queue,
        *,
        where: DeadLetterFilter = ALL_DEAD_LETTERS,
        cursor: str | None = None,
        limit: int = 100,
        now_ms: int | None = None,
    ) -> Page[DeadLetter]:
        check_int("limit", limit, 1, PAGE_MAX)
        start, last = read_dead_letter_cursor(cursor, queue)

        def query(tx: Tx, now_ms: int) -> Page[DeadLetter]:
            found: builtins.list[DeadLetter] = []
            budget, after = PAGE_MAX, last
            for shard in queue.all_shards()[start:]:
                rows = tx.rows(shard)
                batch = [] if rows is None else rows.dead_letters(after, budget)
                budget -= len(batch)
                for dead_letter in batch:
                    after = dead_letter.key.number
                    if dead_letter.until_ms > now_ms and where.matches(dead_letter):
                        found.append(dead_letter)
                        if len(found) == limit:
                            return Page(found, write_cursor(shard.index, str(after)))
                if budget <= 0:
                    return Page(found, write_cursor(shard.index, str(after)))
                after = 0
            return Page(found, None)

        return await self._engine.read(at(now_ms, query))

    async def replay(
        self,
        queue: Queue,
        picks: Sequence[DeadLetterKey | str],
        *,
        keep_counts: bool = False,
        delay_ms: int = 0,
        spread_ms: int = 0,
        now_ms: int | None = None,
    ) -> Sequence[Replayed]:
        check_batch("dead_letters", len(picks), BATCH_MAX)
        check_bool("keep_counts", keep_counts)
        check_int("delay_ms", delay_ms, 0, DURATION_MS_MAX)
        check_int("spread_ms", spread_ms, 0, DURATION_MS_MAX)
        for pick in picks:
            check_pick(queue, pick)

        def act(tx: Tx, now_ms: int) -> builtins.list[Replayed]:
            answers: dict[int, Replayed] = {}
            for shard_index, positions in picks_by_shard(queue, picks).items():
                rows = tx.rows(queue.all_shards()[shard_index])
                step = None if rows is None else Step(rows, now_ms)
                for position in positions:
                    pick = picks[position]
                    if step is not None:
                        due_in_ms = delay_ms + position * spread_ms // len(picks)
                        answers[position] = replay(step, pick, keep_counts, due_in_ms)
                    else:
                        answers[position] = not_found(pick)
                if step is not None:
                    finish_step(self._engine, step)
            return [answers[position] for position in range(len(picks))]

        return await self._engine.write(at(now_ms, act))

    async def purge(self, queue: Queue, picks: Sequence[DeadLetterKey], *, now_ms: int | None = None) -> int:
        check_batch("dead_letters", len(picks), BATCH_MAX)
        for pick in picks:
            check_pick(queue, pick)

        def act(tx: Tx, now_ms: int) -> int:
            purged = 0
            for shard_index, positions in picks_by_shard(queue, picks).items():
                rows = tx.rows(queue.all_shards()[shard_index])
                if rows is not None:
                    step = Step(rows, now_ms)
                    purged += purge_dead_letters(step, [picks[position].number for position in positions])
                    finish_step(self._engine, step)
            return purged

        return await self._engine.write(at(now_ms, act))


def purge_dead_letters(step: Step, numbers: list[int]) -> int:
    """Drop dead letters; returns how many there were."""
    dead_letters = [
        dead_letter for number in dict.fromkeys(numbers) if (dead_letter := step.rows.dead_letter(number)) is not None
    ]
    kept = [dead_letter for dead_letter in dead_letters if step.now_ms < dead_letter.until_ms]
    for dead_letter in kept:
        purge_dead_letter(step, dead_letter)
    return len(kept)


def replay(step: Step, pick: DeadLetterKey | str, keep_counts: bool, delay_ms: int) -> Replayed:
    """Turn one dead letter into a waiting job."""
    rows, now_ms = step.rows, step.now_ms
    dead_letter = rows.newest_dead_letter(pick) if isinstance(pick, str) else rows.dead_letter(pick.number)
    if dead_letter is None or dead_letter.until_ms <= now_ms:
        return not_found(pick)
    record = dead_letter.record
    if rows.job(record.id) is not None:
        return Replayed(dead_letter.key, record.id, "id_in_use")
    changes: dict[str, object] = {} if keep_counts else dict(ZERO_COUNTS)
    changes["run_at_ms"] = now_ms + delay_ms
    expires_at_ms = record.policy.expires_at_ms
    if expires_at_ms is not None and expires_at_ms < now_ms:
        changes["policy"] = replace(record.policy, expires_at_ms=None)
    rows.drop_dead_letter(dead_letter.key.number)
    rows.drop_finished_job(record.id)
    step.note(step.line_of("replayed", step.wait(replace(record, **changes)), dead_letter=dead_letter.key.number))
    return Replayed(dead_letter.key, record.id, "replayed")


def not_found(pick: DeadLetterKey | str) -> Replayed:
    """The answer to a pick without a dead letter."""
    return Replayed(None, pick, "not_found") if isinstance(pick, str) else Replayed(pick, None, "not_found")
