"""A part of many rows: as many as a count and a number of bytes allow."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def part_of(found: Iterable[T], size: Callable[[T], int], limit: int, bytes_max: int) -> tuple[list[T], bool]:
    """The first rows until `limit` or `bytes_max` is reached, never none of some, and whether there may be more."""
    part: list[T] = []
    for row in found:
        part.append(row)
        bytes_max -= size(row)
        if len(part) == limit or bytes_max <= 0:
            return part, True
    return part, False
