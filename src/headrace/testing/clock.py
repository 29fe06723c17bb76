"""A clock for tests that stands still until the test moves it."""

from collections.abc import Callable

from headrace.model.clock import SystemClock
from headrace.model.errors import Refused
from headrace.model.times import Duration, Instant, duration_ms, instant_ms


class KitClock:
    """The clock of a kit's store: starts at `now`, by default the present, and stands still."""

    def __init__(self, now: Instant | None = None) -> None:
        self._now_ms = SystemClock().now_ms() if now is None else instant_ms("now", now)
        self._listeners: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        """The present instant of the test, in milliseconds since 1970 UTC."""
        return self._now_ms

    def advance(self, by: Duration) -> int:
        """Move the clock on: `clock.advance("5m")`, or seconds as a number; returns the new instant."""
        return self.move_to(self._now_ms + duration_ms("by", by))

    def move_to(self, at: Instant) -> int:
        """Move the clock to an instant that is not in its past; returns it in milliseconds."""
        at_ms = instant_ms("at", at)
        if at_ms < self._now_ms:
            raise Refused(
                "bad_at",
                f"the clock stands at {self._now_ms} and was to move to {at_ms}; it goes forward only, so start a new"
                " kit with now=…",
            )
        self._now_ms = at_ms
        for listener in self._listeners:
            listener()
        return at_ms

    def on_move(self, listener: Callable[[], None]) -> None:
        """Call this after every move, on the thread that moves."""
        self._listeners.append(listener)

    def __repr__(self) -> str:
        return f"<KitClock at {self._now_ms}>"
