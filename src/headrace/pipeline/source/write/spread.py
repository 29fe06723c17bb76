"""Spreads the due times of a run over a time: evenly over all of it, though each call knows of its own rows only."""

GOLDEN = (5**0.5 - 1) / 2
"""Steps of this part of a circle never come near an earlier one: after any number of steps the places that were met
lie about equally far apart."""


class Spread:
    """Says, call by call, when its rows are due: a call of n has a row in each n-th of the time, and where in there
    changes from call to call. So many small calls are as even as a large one."""

    def __init__(self, spread_ms: int, start: float) -> None:
        """`start`, between 0 and 1, must differ between tasks, or their lonely rows would meet."""
        self._spread_ms = spread_ms
        self._phase = start % 1

    def first_ms(self, count: int) -> int:
        """When the first of the next `count` rows is due; the others follow in steps of a `count`-th of the time."""
        first_ms = int(self._phase * self._spread_ms / count)
        self._phase = (self._phase + GOLDEN) % 1
        return first_ms
