"""The upkeep protocol over an engine: rows are the truth, so only what is kept beside them can differ."""

from headrace.model.checks import check_int
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Shard
from headrace.model.upkeep import Damage, Findings, Mended, Miscount
from headrace.stores.calls.cursor import read_cursor, write_cursor
from headrace.stores.calls.jobs import at, finish
from headrace.stores.calls.journal import bounds_of
from headrace.stores.transitions import mend as mending
from headrace.stores.transitions.rows import Engine, Rows, Tx
from headrace.stores.transitions.step import Step


class EngineUpkeep:
    """Counts what is counted twice, and finds twins that nothing blocks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def inspect(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> Findings:
        after = read_place(shard, cursor, limit)

        def look(tx: Tx, now_ms: int) -> Findings:
            rows = tx.rows(shard)
            if rows is None:
                return Findings()
            rows.number()
            wrong: list[Miscount] = [] if cursor else mending.miscounts(rows)
            ids = rows.stranded(after, limit)
            return Findings(
                epoch=rows.head.epoch,
                journal=bounds_of(rows.head),
                leases_over=rows.leases_over(now_ms, limit),
                damages=_stranded(ids),
                miscounts=tuple(wrong),
                cursor=_next(rows, ids, limit),
            )

        return await self._engine.read(at(now_ms, look))

    async def mend(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> Mended:
        after = read_place(shard, cursor, limit)

        def act(tx: Tx, now_ms: int) -> Mended:
            rows = tx.rows(shard)
            if rows is None:
                return Mended()
            step = Step(rows, now_ms)
            rows.number()
            wrong: list[Miscount] = [] if cursor else mending.recount(step)
            ids = rows.stranded(after, limit)
            for id in ids:
                mending.free(step, id)
            finish(self._engine, step)
            return Mended(damages=_stranded(ids), miscounts=tuple(wrong), cursor=_next(rows, ids, limit))

        return await self._engine.write(at(now_ms, act))


def read_place(shard: Shard, cursor: str | None, limit: int) -> str:
    """Where a look goes on, '' for the beginning; refuses a bad limit, and a cursor of another shard."""
    check_int("limit", limit, 1, BATCH_MAX)
    return "" if cursor is None else read_cursor(cursor, shard.queue)[1]


def _stranded(ids: list[str]) -> tuple[Damage, ...]:
    return tuple(Damage("stranded", id) for id in ids)


def _next(rows: Rows, ids: list[str], limit: int) -> str | None:
    return write_cursor(rows.shard.index, ids[-1]) if len(ids) == limit else None
