"""A store: all protocols of the contract together."""

from typing import Protocol

from headrace.model.results import Health
from headrace.stores.contract.dead_letters import DeadLetters
from headrace.stores.contract.feeds import FeedStore, Items
from headrace.stores.contract.integrity import Integrity
from headrace.stores.contract.jobs import Jobs
from headrace.stores.contract.journal import Journal
from headrace.stores.contract.queues import Queues
from headrace.stores.contract.reads import Reads
from headrace.stores.contract.signals import Signals


class Store(Protocol):
    """An open store. Belongs to the event loop that opened it; close it when done."""

    @property
    def jobs(self) -> Jobs:
        """Transitions of jobs."""

    @property
    def dead(self) -> DeadLetters:
        """Dead letters."""

    @property
    def queues(self) -> Queues:
        """Configuration, counts, names."""

    @property
    def reads(self) -> Reads:
        """Reads that change nothing."""

    @property
    def journal(self) -> Journal:
        """Events, and their readers."""

    @property
    def feeds(self) -> FeedStore:
        """Feeds, and their logs of changes."""

    @property
    def items(self) -> Items:
        """Items of feeds."""

    @property
    def signals(self) -> Signals:
        """Hints that a call may have work to do."""

    @property
    def integrity(self) -> Integrity:
        """Checks and repairs."""

    @property
    def is_remote(self) -> bool:
        """Whether another process does the work of a call: then concurrent calls do not slow each other down here."""

    async def now_ms(self) -> int:
        """The store's clock, which decides wherever a call gives no `now_ms`; of several servers the slowest clock."""

    async def health(self) -> Health:
        """The durability promise of the store, and its state."""

    async def close(self) -> None:
        """Close connections and threads; closing twice is fine, any other call afterwards raises `StoreUnavailable`."""
