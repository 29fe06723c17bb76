"""A store whose calls all pass through one function, which may record, move or fail them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from msgspec import Struct

from headrace.model.results import Health
from headrace.stores.contract.dead_letters import DeadLetters
from headrace.stores.contract.feeds import FeedStore
from headrace.stores.contract.integrity import Integrity
from headrace.stores.contract.items import Items
from headrace.stores.contract.jobs import Jobs
from headrace.stores.contract.journal import Journal
from headrace.stores.contract.queues import Queues
from headrace.stores.contract.reads import Reads
from headrace.stores.contract.signals import Signals
from headrace.stores.contract.store import Store

PARTS = {
    "jobs": Jobs,
    "dead": DeadLetters,
    "queues": Queues,
    "reads": Reads,
    "journal": Journal,
    "feeds": FeedStore,
    "items": Items,
    "signals": Signals,
    "integrity": Integrity,
}
NAMES = frozenset(
    f"{part}.{verb}" for part, protocol in PARTS.items() for verb in vars(protocol) if not verb.startswith("_")
) | {"now_ms", "health"}
"""Every call of the contract, by its part and verb: `jobs.claim`, `dead.list`, `now_ms`."""


class StoreCall(Struct, frozen=True):
    """One forwarded call."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    act: Callable[[], Awaitable[Any]]
    """Makes the call on the store inside."""

    @property
    def verb(self) -> str:
        """The name without its part."""
        return self.name.rpartition(".")[2]

    def argument(self, position: int, name: str) -> Any:
        """An argument, passed by position or by name."""
        return self.args[position] if len(self.args) > position else self.kwargs[name]


Through = Callable[[StoreCall], Awaitable[Any]]


class ForwardedPart:
    """One protocol of a store, with exactly the methods of the wrapped one."""

    def __init__(self, name: str, inner: object, through: Through) -> None:
        self._name = name
        self._inner = inner
        self._through = through

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        name = f"{self._name}.{verb}"
        if name not in NAMES:
            raise AttributeError(f"{self._name!r} of a store has no verb {verb!r}")
        act = getattr(self._inner, verb)
        through = self._through

        async def forward(*args: Any, **kwargs: Any) -> Any:
            return await through(StoreCall(name, args, kwargs, partial(act, *args, **kwargs)))

        setattr(self, verb, forward)  # the next look-up finds it
        return forward


class ForwardingStore:
    """Forwards every call to the wrapped store through `through`. Closing closes the wrapped store."""

    def __init__(self, inner: Store, through: Through) -> None:
        self.inner = inner
        self.is_remote = inner.is_remote
        self._through = through

        def part(name: str) -> Any:
            return ForwardedPart(name, getattr(inner, name), through)

        self.jobs = cast("Jobs", part("jobs"))
        self.dead = cast("DeadLetters", part("dead"))
        self.queues = cast("Queues", part("queues"))
        self.reads = cast("Reads", part("reads"))
        self.journal = cast("Journal", part("journal"))
        self.feeds = cast("FeedStore", part("feeds"))
        self.items = cast("Items", part("items"))
        self.signals = cast("Signals", part("signals"))
        self.integrity = cast("Integrity", part("integrity"))

    async def now_ms(self) -> int:
        """The clock of the store inside."""
        now_ms: int = await self._through(StoreCall("now_ms", (), {}, self.inner.now_ms))
        return now_ms

    async def health(self) -> Health:
        """The health of the store inside."""
        found: Health = await self._through(StoreCall("health", (), {}, self.inner.health))
        return found

    async def close(self) -> None:
        """Close the store inside."""
        await self.inner.close()
