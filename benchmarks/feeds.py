"""Measures feeds: publications a second, how soon subscribers hear of them, insertions in the midst of a long sorted
feed beside Redis' own list, and bytes an item.

    python -m benchmarks.feeds [--quick] [--json] [--stores redis]
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.contenders import Contender, contenders
from benchmarks.feeding import delivering, inserting, publishing, weighing

Say = Callable[[str], None]


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


def show(title: str, figures: Mapping[str, Mapping[str, float]], spell: str) -> None:
    """Print figures of the contenders, each under its name."""
    print(f"\n{title}\n")
    for name, found in figures.items():
        for what, figure in found.items():
            print(f"{name:<22}{what:<42}{format(figure, spell):>12}")


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the work")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--stores", default="", help="only stores whose names start so, separated by commas")
    options = parser.parse_args()

    def say(text: str) -> None:
        if not options.json:
            print(f"  {text}", flush=True)

    with contenders() as places:
        chosen = [place for place in places if place.name.startswith(tuple(options.stores.split(",")))]
        figures = asyncio.run(measure(chosen, options.quick, say))
    if options.json:
        print(json.dumps(figures._asdict()))
        return
    show("publications a second (items of 100 bytes, one client)", figures.publications_per_second, ",.0f")
    for name, by_count in figures.delivery_ms.items():
        waits = {f"{count:,} subscribers": found for count, found in by_count.items()}
        show(f"{name}: milliseconds from a publication in another process to a subscriber", waits, ".2f")
    show("inserting before the middle of a sorted feed", figures.insert, ",.1f")
    show("bytes of Redis for an item of 100 bytes with an id of 36", figures.bytes_per_item, ",.0f")


if __name__ == "__main__":
    main()
