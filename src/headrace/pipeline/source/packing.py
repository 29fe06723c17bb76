"""Packs things that cannot be cut into tasks of about equal size."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TypeVar

from headrace.pipeline.source.plan import EVENTS_PER_PARTITION

Thing = TypeVar("Thing")


def pack(
    sized: Iterable[tuple[Thing, int]], parts_min: int = 1, target: int = EVENTS_PER_PARTITION
) -> list[tuple[Thing, ...]]:
    """Parts of about `target` rows each, and at least so many as long as there are things for them.

    The largest thing goes first, each to the part that has least so far: no part has more than the largest thing above
    the least of them.
    """
    ordered = sorted(sized, key=lambda pair: -pair[1])
    total = sum(size for _, size in ordered)
    count = min(max(-(-total // target), parts_min), len(ordered))
    parts: list[list[Thing]] = [[] for _ in range(count)]
    fullness = [(0, 0, number) for number in range(count)]
    for thing, size in ordered:
        # By the number of things where the sizes are equal: what seems empty is spread as well.
        held, things, number = heappop(fullness)
        parts[number].append(thing)
        heappush(fullness, (held + size, things + 1, number))
    return [tuple(part) for part in parts]
