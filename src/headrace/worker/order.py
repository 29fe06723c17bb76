"""The order in which the queues of a claim are tried: as given, or by shares."""

from headrace.model.names import Queue


class Order:
    """Says which queue goes first. Without shares it is always the order given; with shares each queue goes first as
    often as its share says, spread evenly, and the others follow by what is owed to them."""

    def __init__(self, shares: dict[Queue, int], is_weighted: bool) -> None:
        self._shares = shares
        self._is_weighted = is_weighted
        self._owed = dict.fromkeys(shares, 0)
        self._total = sum(shares.values())

    def next(self) -> list[Queue]:
        """The order of the next claim."""
        if not self._is_weighted:
            return list(self._shares)
        for queue, share in self._shares.items():
            self._owed[queue] += share
        order = sorted(self._owed, key=lambda queue: -self._owed[queue])
        self._owed[order[0]] -= self._total
        return order
