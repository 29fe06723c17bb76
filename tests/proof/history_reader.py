"""A reader of a history that is written, compacted and killed meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import duckdb

from headrace.pipeline.history.table import read_state
from headrace.pipeline.storage.location import Location
from tests.proof.spark_check import counted_by_duckdb

PAUSE_S = 1.0


class Looks:
    """Counts repeatedly: no event may appear twice, and every event in the state must exist."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self.looks = 0
        self.odd = 0

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Look beside the block."""
        task = asyncio.create_task(self._look_on())
        try:
            yield
        finally:
            task.cancel()
            [ended] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended

    async def _look_on(self) -> None:
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(PAUSE_S)

    def look(self) -> None:
        """Count once; a read during a merge may miss a file and is repeated."""
        state = read_state(self._location)
        if state is None or not state.events:
            return
        try:
            counts = counted_by_duckdb(self._location)["count"].to_pylist()
        except (duckdb.IOException, duckdb.InvalidInputException):
            return
        self.looks += 1
        self.odd += sum(counts) != len(counts) or len(counts) < state.events
