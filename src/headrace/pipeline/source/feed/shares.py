"""How many changes of each feed go into a batch that is limited."""

from collections.abc import Sequence


def shares(counts: Sequence[int], limit: int | None) -> list[int]:
    """Equal shares of `limit`, exactly as many in all as long as there are so many; what a feed with few changes leaves
    over goes to the others."""
    taken = list(counts)
    if limit is None or sum(counts) <= limit:
        return taken
    left = limit
    ordered = sorted(range(len(counts)), key=lambda each: counts[each])
    for done, each in enumerate(ordered):
        # Rounded up, so that a feed with little is not kept waiting by those with much.
        taken[each] = min(counts[each], -(-left // (len(counts) - done)))
        left -= taken[each]
    return taken
