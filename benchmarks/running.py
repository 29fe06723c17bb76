"""What all benchmarks share on the command line: which stores, how much, and how it is shown."""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

from benchmarks.contenders import Contender, contenders

Say = Callable[[str], None]
Figures = TypeVar("Figures")


def run(
    about: str | None,
    measure: Callable[[list[Contender], bool, Say], Awaitable[Figures]],
    as_json: Callable[[Figures], object],
    show: Callable[[Figures], None],
) -> None:
    """Measure on the chosen stores, and print the figures for people or for programs."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the work, one round")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--stores", default="", help="only stores whose names start so, separated by commas")
    options = parser.parse_args()

    def say(text: str) -> None:
        if not options.json:
            print(f"  {text}", flush=True)

    async def measured(places: list[Contender]) -> Figures:
        return await measure(places, options.quick, say)

    with contenders() as places:
        chosen = [place for place in places if place.name.startswith(tuple(options.stores.split(",")))]
        figures = asyncio.run(measured(chosen))
    if options.json:
        print(json.dumps(as_json(figures)))
    else:
        show(figures)
