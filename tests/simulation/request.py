"""One request to the store: what the store does with it, and what its sender hears."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from headrace.model.claim import Claims
from headrace.model.errors import HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.names import Queue
from headrace.model.results import Turned
from tests.simulation.loop import drive
from tests.simulation.network import Way

T = TypeVar("T")
LOST = "the reply got lost"
GIVE_UP_S = 1.0
"""At most so long a sender waits for a reply that does not come."""


class Exchange(Generic[T]):
    """A request that cannot be cut into parts. It goes its way whatever becomes of its sender, as on a network."""

    can_be_doubled = False

    def __init__(self, way: Way, verb: str, given: Any, act: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.way = way
        self.verb = verb
        self.given = given
        self.act = act
        self.fate = way.fate()
        self.sent_at = way.server.loop.time()
        self.reply: asyncio.Future[T] = way.server.loop.create_future()

    async def run(self) -> T:
        """Send it and wait for what comes back."""
        if self.way.is_closed:
            raise StoreUnavailable("the link was closed; open a new one")
        self.way.server.watcher.sent(self.verb, self.given)
        self._later(self.way.latency(), self._arrive)
        return await self.reply

    def unknown_ids(self) -> Sequence[str]:
        """What the sender names when it hears nothing."""
        return ()

    def lost(self) -> HeadraceError:
        """What the sender makes of silence."""
        return OutcomeUnknown(LOST, unknown=tuple(self.unknown_ids()))

    def lose_part(self) -> HeadraceError:
        """Apply some of it and answer some of it."""
        self.apply()
        return self.lost()

    def _later(self, seconds: float, callback: Callable[..., None], *args: object) -> None:
        server = self.way.server
        server.loop.call_later(seconds, callback, *args, context=server.outside)

    def _arrive(self) -> None:
        way, fate = self.way, self.fate
        if fate == "well" and way.is_cut:  # it was on its way when the partition began
            fate = "lose_request"
        if fate == "double" and not self.can_be_doubled:
            fate = "well"
        if fate != "well":
            way.trouble(fate)
        match fate:
            case "drop_request":
                self._hear(StoreUnavailable("the store cannot be reached"))
            case "lose_request":
                self._give_up(self.lost())
            case "lose_reply":
                self.apply()
                self._give_up(self.lost())
            case "lose_part":
                self._give_up(self.lose_part())
            case "double":
                self._later(way.latency(), self._arrive_again, self.apply())
            case _:
                self._later(way.latency(), self._return, self.apply())

    def _arrive_again(self, first: Any) -> None:
        second = self.apply()
        is_first = self.way.chance.random() < 0.5 and self.may_answer_first(first)
        self._later(self.way.latency(), self._return, first if is_first else second)

    def may_answer_first(self, first: Any) -> bool:  # noqa: ARG002 - for those who have to look at it
        """Whether a doubled request may be answered as the first of the two was."""
        return True

    def apply(self) -> Any:
        """Let the store do it; a refusal is an answer as well."""
        return self._apply(self.given, self.act)

    def _apply(self, given: Any, act: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        server = self.way.server
        server.operations += 1
        try:
            answer = drive(act())
        except HeadraceError as error:
            answer = error
        server.watcher.applied(self.way.process, self.verb, given, answer, self.sent_at)
        return answer

    def _return(self, answer: Any) -> None:
        if self.way.is_cut:
            self.way.trouble("lose_reply")
            self._give_up(self.lost())
        else:
            self._hear(answer)

    def _give_up(self, error: HeadraceError) -> None:
        self._later(self.way.chance.random() * GIVE_UP_S, self._hear, error)

    def _hear(self, answer: Any) -> None:
        if self.reply.done() or self.way.process.is_crashed:
            return
        self.way.server.watcher.answered(self.way.process, self.verb, self.given, answer, self.sent_at)
        if isinstance(answer, BaseException):
            self.reply.set_exception(answer)
        else:
            self.reply.set_result(answer)


class Look(Exchange[T]):
    """Changes nothing, so that a lost answer is only a store that could not be asked."""

    def lost(self) -> HeadraceError:
        return StoreUnavailable(LOST)


class Claiming(Exchange[Claims]):
    """A claim: of a lost answer, what the first shards said may have arrived."""

    can_be_doubled = True

    def may_answer_first(self, first: Any) -> bool:
        # A claim that found nothing is not remembered: its double may find something, and only that answer tells.
        return isinstance(first, Claims) and bool(first.items)

    def lose_part(self) -> HeadraceError:
        answer = self.apply()
        if isinstance(answer, HeadraceError):
            return answer
        keep = self.way.chance.randrange(len(answer.items) + 1)
        return OutcomeUnknown(LOST, known=answer.items[:keep])


class Batch(Exchange[list[T]]):
    """A batch, which is cut by shards: each part may have its own fate."""

    can_be_doubled = True

    def __init__(
        self,
        way: Way,
        verb: str,
        items: Sequence[Any],
        address: Callable[[Any], tuple[Queue, str]],
        act: Callable[[Sequence[Any]], Coroutine[Any, Any, list[T]]],
    ) -> None:
        super().__init__(way, verb, items, lambda: act(items))
        self.items = items
        self.address = address
        self.act_on = act

    def unknown_ids(self) -> Sequence[str]:
        return [self.address(item)[1] for item in self.items]

    def lose_part(self) -> HeadraceError:
        parts: dict[tuple[str, int], list[Any]] = {}
        for item in self.items:
            queue, id = self.address(item)
            parts.setdefault((queue.full_name, queue.index_of(id)), []).append(item)
        known: list[Any] = []
        unknown: list[str] = []
        for number, part in enumerate(parts.values()):
            fate = self.way.chance.randrange(3) if number else 1 + self.way.chance.randrange(2)
            answer = self._apply(part, partial(self.act_on, part)) if fate < 2 else None
            if fate == 0 and isinstance(answer, list):
                known += answer
            else:
                unknown += [self.address(item)[1] for item in part]
        return OutcomeUnknown(LOST, known=known, unknown=unknown)


class Turning(Exchange[Turned]):
    """Settlements and a claim: the answer to the first may arrive without the second."""

    can_be_doubled = True

    def __init__(self, way: Way, given: Any, act: Callable[[], Coroutine[Any, Any, Turned]]) -> None:
        super().__init__(way, "turn", given, act)

    def may_answer_first(self, first: Any) -> bool:
        return isinstance(first, Turned) and bool(first.claimed)

    def unknown_ids(self) -> Sequence[str]:
        return [each.lease.id for each in self.given[0]]

    def lose_part(self) -> HeadraceError:
        answer = self.apply()
        if isinstance(answer, HeadraceError):
            return answer
        return OutcomeUnknown("all was settled, but nothing could be claimed", known=answer.settled)
