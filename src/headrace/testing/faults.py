"""A store that fails on command: it forwards calls to another store, and fails, delays or loses chosen calls."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

from msgspec import Struct

from headrace.model.claim import ClaimRequest, Settlement
from headrace.model.errors import BadConfig, OutcomeUnknown, StoreUnavailable
from headrace.model.results import Health
from headrace.model.validate import bounded_repr, nearest
from headrace.stores.contract.dead_letters import DeadLetters
from headrace.stores.contract.feeds import FeedStore, Items
from headrace.stores.contract.integrity import Integrity
from headrace.stores.contract.jobs import Jobs
from headrace.stores.contract.journal import Journal
from headrace.stores.contract.queues import Queues
from headrace.stores.contract.reads import Reads
from headrace.stores.contract.signals import Signals
from headrace.stores.contract.store import Store
from headrace.testing.loop_thread import CrossLoopEvent

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


DOWN = StoreUnavailable("the store is away, as the test has asked")
"""The call does not run."""
LOST = OutcomeUnknown("the reply was lost, as the test has asked")
"""The call runs, and its reply is lost."""


class Hold:
    """A call that waits for `hold.release()`, or the end of `with hold:`; on any thread."""

    def __init__(self) -> None:
        self._event = CrossLoopEvent()
        self._is_reached = False
        self._is_released = False

    def release(self) -> None:
        """Let the call continue; a later call does not wait."""
        self._is_released = True
        self._event.notify()

    async def reached(self) -> None:
        """Wait until the call has arrived and waits."""
        await self._event.wait_until(lambda: self._is_reached)

    async def pass_by(self) -> None:
        """Wait as the held call."""
        self._is_reached = True
        self._event.notify()
        await self._event.wait_until(lambda: self._is_released)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class _Partly(OutcomeUnknown):
    """The call runs, and all but the first `heard` answers are lost."""

    def __init__(self, heard: int) -> None:
        super().__init__("a part of the reply was lost, as the test has asked")
        self.heard = heard


Fault = Exception | Hold


class FaultyStore(ForwardingStore):
    """Forwards calls to the wrapped store, except chosen ones.

    A call is named by its verb, `claim`, or with its part if two parts have the verb, `dead.list`. A fault applies to
    the next call of one of its verbs; several faults apply one by one, in order. `calls` counts by verb and by full
    name; `claims` and `settled` keep the requests; `heard` is called with each call, on the thread of the caller.
    """

    def __init__(self, inner: Store, heard: Callable[[StoreCall], None] = lambda _: None) -> None:
        super().__init__(inner, self._apply_fault)
        self.is_remote = True  # only a connection can fail
        self.is_down = False
        self.calls: Counter[str] = Counter()
        self.claims: list[ClaimRequest] = []
        self.settled: list[Settlement] = []
        self._faults: list[tuple[frozenset[str], Fault]] = []
        self._heard = heard
        self._called = CrossLoopEvent()

    def fail(self, *verbs: str, error: Exception = DOWN, times: int = 1) -> None:
        """Let the next `times` calls raise `error` without being done; `StoreUnavailable` by default.

        An `OutcomeUnknown` is raised after the call was done, which is what it means.
        """
        self._faults += [(_check_verbs(verbs), error)] * times

    def lose(self, *verbs: str, heard: int | None = None, times: int = 1) -> None:
        """Lose the replies of the next `times` calls; with `heard`, all but this many first answers of the batch."""
        self.fail(*verbs, error=LOST if heard is None else _Partly(heard), times=times)

    def hold(self, *verbs: str) -> Hold:
        """Hold the next call, before it runs, until the returned `Hold` is released."""
        hold = Hold()
        self._faults.append((_check_verbs(verbs), hold))
        return hold

    @contextmanager
    def down(self) -> Iterator[None]:
        """Fail every call with `StoreUnavailable` inside the block."""
        was_down, self.is_down = self.is_down, True
        try:
            yield
        finally:
            self.is_down = was_down

    async def called(self, verb: str, times: int = 1) -> None:
        """Wait until a verb was called `times` times."""
        _check_verbs((verb,))
        await self._called.wait_until(lambda: self.calls[verb] >= times)

    async def _apply_fault(self, call: StoreCall) -> Any:
        self._note(call)
        fault = DOWN if self.is_down else self._pop_fault(call)
        if isinstance(fault, Hold):
            await fault.pass_by()
        elif fault is not None and not isinstance(fault, OutcomeUnknown):
            raise fault.with_traceback(None)
        answer = await call.act()
        if isinstance(fault, _Partly):
            assert isinstance(answer, list)  # only a batch can lose a part
            raise OutcomeUnknown(
                str(fault), known=answer[: fault.heard], unknown=[each.id for each in answer[fault.heard :]]
            )
        if isinstance(fault, OutcomeUnknown):
            raise fault.with_traceback(None)
        return answer

    def _note(self, call: StoreCall) -> None:
        self.calls.update({call.name, call.verb})
        match call.name:
            case "jobs.claim":
                self.claims.append(call.argument(0, "request"))
            case "jobs.settle":
                self.settled.extend(call.argument(0, "settlements"))
            case "jobs.turn":
                self.settled.extend(call.argument(0, "settlements"))
                self.claims.append(call.argument(1, "request"))
        self._called.notify()
        self._heard(call)

    def _pop_fault(self, call: StoreCall) -> Fault | None:
        for at, (names, fault) in enumerate(self._faults):
            if call.name in names or call.verb in names:
                del self._faults[at]
                return fault
        return None


_VERBS = NAMES | {name.rpartition(".")[2] for name in NAMES}


def _check_verbs(verbs: tuple[str, ...]) -> frozenset[str]:
    for verb in verbs:
        if verb not in _VERBS:
            near = nearest(verb, sorted(_VERBS), cutoff=0.0)
            raise BadConfig(f"a store has no verb {bounded_repr(verb)} that could fail; did you mean {near!r}?")
    if not verbs:
        raise BadConfig("name the verbs, as in store.fail('claim'); for all of them use store.down()")
    return frozenset(verbs)
