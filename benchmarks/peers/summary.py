"""Makes one figure of those of the rounds: the median with its spread, or the reason why there is none."""

from statistics import median
from typing import Any, NamedTuple


class Summary(NamedTuple):
    """A figure over all rounds."""

    median: float
    spread: float
    """Half of what lies between the lowest and the highest round, as a share of the median."""
    rounds: int


def summary(system: dict[str, Any], figure: str) -> Summary | str | None:
    """The figure of a system; a sentence if it failed; None if it was not taken. A round that failed is no figure."""
    if "failed" in system:
        return str(system["failed"])
    found = [one[figure] for one in system["rounds"] if figure in one]
    numbers = [each for each in found if not isinstance(each, str)]
    reasons = [each for each in found if isinstance(each, str)]
    if reasons:
        return f"{len(reasons)} of {len(found)} rounds: {reasons[0]}"
    return of_numbers(numbers) if numbers else None


def of_numbers(numbers: list[float]) -> Summary:
    """The summary of a list."""
    middle = median(numbers)
    spread = (max(numbers) - min(numbers)) / 2 / abs(middle) if middle else 0.0
    return Summary(middle, spread, len(numbers))


def value(system: dict[str, Any], figure: str) -> float | None:
    """The median, if the figure was taken in every round."""
    found = summary(system, figure)
    return found.median if isinstance(found, Summary) else None
