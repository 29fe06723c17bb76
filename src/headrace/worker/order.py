"""The order in which the queues of a worker are tried: as given, or by shares."""

from collections.abc import Mapping

from headrace.model.names import Queue


class Order:
    """Says which queue goes first. Without shares it is always the order given; with shares each queue goes first as
    often as its share says, spread evenly, and the others follow by what is owed to them."""

    def __init__(self, shares: Mapping[Queue, int], is_weighted: bool) -> None:
        self._shares = dict(shares)
        self._is_weighted = is_weighted
        self._owed = dict(shares)
        self._total = sum(shares.values())

    def look(self) -> list[Queue]:
        """The order of the next claim."""
        if not self._is_weighted:
            return list(self._shares)
        return sorted(self._owed, key=lambda queue: -self._owed[queue])

    def pass_on(self) -> None:
        """A claim was made in this order: the turn goes on, also when the first queue had nothing to give."""
        if self._is_weighted:
            self._owed[self.look()[0]] -= self._total
            for queue, share in self._shares.items():
                self._owed[queue] += share
