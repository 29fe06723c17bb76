"""Long random histories by seed: invariants on every store, and every store beside memory; of jobs and of feeds."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec import Struct

from tests.conformance import test_feed_model
from tests.conformance.test_model import compare
from tests.support.histories import Draw
from tests.support.invariants import check_history
from tests.support.stores import STORES

OPERATIONS = 200


class Figures(Struct):
    """What a run has done."""

    seeds: int = 0
    operations: int = 0
    claims: int = 0
    violations: int = 0
    compared: int = 0


def replay_command(store_name: str, seed: int) -> str:
    """What to type to see a seed again."""
    return f"python -m tests.proof --stores {store_name} --first {seed} --seeds 1"


async def run_seed(store_name: str, seed: int, operations: int, figures: Figures) -> None:
    """One history with its invariants, and one beside memory; the same of feeds."""
    shards = 1 + 2 * (seed % 2)
    with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
        async with STORES[store_name](Path(folder)) as store:
            draw = Draw(Random(seed), shards, trims=False)
            figures.claims += await check_history(store, draw, operations, lambda _: None)
    if store_name != "memory":
        await compare(store_name, shards, Random(seed), operations, lambda _: None)
        await test_feed_model.compare(store_name, Random(seed), operations, lambda _: None)
        figures.compared += 2 * operations
    await test_feed_model.follow(store_name, Random(seed), operations, Counter(), lambda _: None)
    figures.seeds += 1
    figures.operations += operations


def run(store_name: str, first: int, seeds: int, say: Callable[[str], None], operations: int = OPERATIONS) -> Figures:
    """Play seeds one after the other; a violation is reported with how to replay it, and the run goes on.

    With fewer operations a seed is the beginning of what it is with more, so the replay shows the same violation.
    """
    figures = Figures()
    for seed in range(first, first + seeds):
        try:
            asyncio.run(run_seed(store_name, seed, operations, figures))
        except AssertionError as violation:
            figures.violations += 1
            say(f"violation at seed {seed}: {violation}; replay: {replay_command(store_name, seed)}")
    return figures
