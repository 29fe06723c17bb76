"""Measures feeds: publications a second, how soon subscribers hear of them, insertions in the midst of a long sorted
feed beside Redis' own list, and bytes an item.

    python -m benchmarks.feeds [--quick] [--json] [--stores redis]
"""

from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.contenders import Contender
from benchmarks.feeding import delivering, inserting, publishing, weighing
from benchmarks.running import Say, run
from benchmarks.tables import beside


class Figures(NamedTuple):
    """Everything that is measured, by contender."""

    publications_per_second: dict[str, dict[str, float]]
    delivery_ms: dict[str, dict[int, dict[str, float]]]
    insert: dict[str, dict[str, float]]
    bytes_per_item: dict[str, dict[str, float]]


async def measure(places: list[Contender], quick: bool, say: Say) -> Figures:
    """Everything, one after the other."""
    rates = {place.name: await publishing(place, quick, say) for place in places}
    # What does not depend on the disk is measured under one profile; a store in memory has no other process.
    fast = [place for place in places if place.name not in ("memory", "sqlite durable", "redis durable")]
    waits = {place.name: await delivering(place, quick, say) for place in fast}
    inserts = {place.name: await inserting(place, quick, say) for place in fast}
    weights = {place.name: await weighing(place, quick, say) for place in fast if place.redis is not None}
    return Figures(rates, waits, inserts, weights)


def show(figures: Figures) -> None:
    """Print everything, each contender under its name; where there is one, beside its raw reference and as a share."""
    _show("publications a second (items of 100 bytes, one client)", figures.publications_per_second, ",.0f")
    for name, by_count in figures.delivery_ms.items():
        for count, found in by_count.items():
            title = f"{name}: milliseconds from a publication in another process to {count:,} subscribers"
            _show(title, {name: found}, ".2f")
    _show("inserting before the middle of a sorted feed", figures.insert, ",.1f")
    _show("bytes of Redis for an item of 100 bytes with an id of 36", figures.bytes_per_item, ",.0f")


def _show(title: str, figures: Mapping[str, Mapping[str, float]], spell: str) -> None:
    print(f"\n{title}\n")
    for name, found in figures.items():
        for what, figure in found.items():
            if not what.startswith("raw "):
                print(f"{name:<22}{what:<42}{beside(figure, found.get(f'raw {what}'), spell):>28}")


if __name__ == "__main__":
    run(__doc__, measure, Figures._asdict, show)
