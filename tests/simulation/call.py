"""A call to the store over a simulated network: the store applies it, and its sender gets an answer or an error."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from headrace.model.claim import Claims
from headrace.model.errors import HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.names import Queue
from headrace.model.results import Turned
from tests.simulation.loop import drive
from tests.simulation.network import Route

T = TypeVar("T")
LOST = "the reply got lost"
GIVE_UP_S = 1.0
"""The longest time that a sender waits for a lost reply."""


class Call(Generic[T]):
    """A call that cannot be split. It goes on when its sender is gone, as on a network."""

    can_be_doubled = False

    def __init__(self, route: Route, verb: str, arguments: Any, act: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.route = route
        self.verb = verb
        self.arguments = arguments
        self.act = act
        self.fate = route.fate()
        self.sent_at = route.server.loop.time()
        self.reply: asyncio.Future[T] = route.server.loop.create_future()

    async def run(self) -> T:
        """Send the request and wait for the reply."""
        if self.route.is_closed:
            raise StoreUnavailable("the link was closed; open a new one")
        self.route.server.watcher.sent(self.verb, self.arguments)
        self._call_later(self.route.latency(), self._arrive)
        return await self.reply

    def unknown_ids(self) -> Sequence[str]:
        """The ids whose outcome is unknown after a lost reply."""
        return ()

    def lost(self) -> HeadraceError:
        """The error for a lost reply."""
        return OutcomeUnknown(LOST, unknown=tuple(self.unknown_ids()))

    def lose_part(self) -> HeadraceError:
        """Apply a part of the call and answer a part of it."""
        self.apply()
        return self.lost()

    def _call_later(self, seconds: float, callback: Callable[..., None], *args: object) -> None:
        server = self.route.server
        server.loop.call_later(seconds, callback, *args, context=server.outside)

    def _arrive(self) -> None:
        route, fate = self.route, self.fate
        if fate == "well" and route.is_cut:  # it was sent before the partition began
            fate = "lose_request"
        if fate == "double" and not self.can_be_doubled:
            fate = "well"
        if fate != "well":
            route.record_fault(fate)
        match fate:
            case "drop_request":
                self._deliver(StoreUnavailable("the store cannot be reached"))
            case "lose_request":
                self._give_up(self.lost())
            case "lose_reply":
                self.apply()
                self._give_up(self.lost())
            case "lose_part":
                self._give_up(self.lose_part())
            case "double":
                self._call_later(route.latency(), self._arrive_again, self.apply())
            case _:
                self._call_later(route.latency(), self._return, self.apply())

    def _arrive_again(self, first: Any) -> None:
        second = self.apply()
        is_first = self.route.rng.random() < 0.5 and self.may_answer_first(first)
        self._call_later(self.route.latency(), self._return, first if is_first else second)

    def may_answer_first(self, first: Any) -> bool:  # noqa: ARG002 - for subclasses
        """Whether a doubled request may be answered with the first of the two answers."""
        return True

    def apply(self) -> Any:
        """Apply the call to the store; a refusal is an answer as well."""
        return self._apply(self.arguments, self.act)

    def _apply(self, arguments: Any, act: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        server = self.route.server
        server.operations += 1
        try:
            answer = drive(act())
        except HeadraceError as error:
            answer = error
        server.watcher.applied(self.route.process, self.verb, arguments, answer, self.sent_at)
        return answer

    def _return(self, answer: Any) -> None:
        if self.route.is_cut:
            self.route.record_fault("lose_reply")
            self._give_up(self.lost())
        else:
            self._deliver(answer)

    def _give_up(self, error: HeadraceError) -> None:
        self._call_later(self.route.rng.random() * GIVE_UP_S, self._deliver, error)

    def _deliver(self, answer: Any) -> None:
        if self.reply.done() or self.route.process.is_crashed:
            return
        self.route.server.watcher.answered(self.route.process, self.verb, self.arguments, answer, self.sent_at)
        if isinstance(answer, BaseException):
            self.reply.set_exception(answer)
        else:
            self.reply.set_result(answer)


class ReadCall(Call[T]):
    """A call that changes nothing: its lost reply is a `StoreUnavailable`."""

    def lost(self) -> HeadraceError:
        return StoreUnavailable(LOST)


class ClaimCall(Call[Claims]):
    """A claim: of a lost reply, the part of the first shards may have arrived."""

    can_be_doubled = True

    def may_answer_first(self, first: Any) -> bool:
        # The store does not remember an empty claim: its double may get jobs, and only the second answer has them.
        return isinstance(first, Claims) and bool(first.items)

    def lose_part(self) -> HeadraceError:
        answer = self.apply()
        if isinstance(answer, HeadraceError):
            return answer
        keep = self.route.rng.randrange(len(answer.items) + 1)
        return OutcomeUnknown(LOST, known=answer.items[:keep])


class BatchCall(Call[list[T]]):
    """A batch, which is split by shard: each part may have its own fate."""

    can_be_doubled = True

    def __init__(
        self,
        route: Route,
        verb: str,
        items: Sequence[Any],
        address: Callable[[Any], tuple[Queue, str]],
        act: Callable[[Sequence[Any]], Coroutine[Any, Any, list[T]]],
    ) -> None:
        super().__init__(route, verb, items, lambda: act(items))
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
            fate = self.route.rng.randrange(3) if number else 1 + self.route.rng.randrange(2)
            answer = self._apply(part, partial(self.act_on, part)) if fate < 2 else None
            if fate == 0 and isinstance(answer, list):
                known += answer
            else:
                unknown += [self.address(item)[1] for item in part]
        return OutcomeUnknown(LOST, known=known, unknown=unknown)


class TurnCall(Call[Turned]):
    """Settlements and a claim: the answer to the settlements may arrive without that to the claim."""

    can_be_doubled = True

    def __init__(self, route: Route, arguments: Any, act: Callable[[], Coroutine[Any, Any, Turned]]) -> None:
        super().__init__(route, "turn", arguments, act)

    def may_answer_first(self, first: Any) -> bool:
        return isinstance(first, Turned) and bool(first.claimed)

    def unknown_ids(self) -> Sequence[str]:
        return [each.lease.id for each in self.arguments[0]]

    def lose_part(self) -> HeadraceError:
        answer = self.apply()
        if isinstance(answer, HeadraceError):
            return answer
        return OutcomeUnknown("all was settled, but nothing could be claimed", known=answer.settled)
