"""One write: its id, when it began by the store's clock, and where its tasks may run."""

import os

from msgspec import Struct

from headrace.model.ids import RANDOM_BYTES, uuid7
from headrace.pipeline.source.machine import check_here, here
from headrace.stores.contract.store import Store


class Run(Struct, frozen=True):
    """Made on the driver before the first task starts; every task, tried again or not, gets the same one.

    What a store says it took in at or after the start was taken in by this run.
    """

    id: str
    started_at_ms: int
    planned_on: str

    def check_here(self, url: str) -> None:
        """Refuse a task on another machine than the one that has the store's file."""
        check_here(url, self.planned_on)


async def begin(store: Store, id: str | None) -> Run:
    """A run that starts now."""
    started_at_ms = await store.now_ms()
    return Run(id or uuid7(started_at_ms, os.urandom(RANDOM_BYTES)), started_at_ms, here())
