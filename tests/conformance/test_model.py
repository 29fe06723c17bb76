"""Model: random operations with the same instants on memory and on every other store give the same answers, states
and journals."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.support.histories import Actor, Draw, Normal
from tests.support.stores import STORES

OPERATIONS_MAX = 40
EXAMPLES = {"sqlite": 150, "redis": 60, "redis-cluster": 25, "postgres": 40}
"""How many histories a store plays here, the slower the fewer; tests/proof plays as many as it is asked for."""


def test_the_store_cannot_be_told_from_memory(other_store: str, shards: int) -> None:
    """Every answer, and everything that can be seen afterwards, is the same as in memory."""

    @settings(
        max_examples=EXAMPLES[other_store],
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(random=st.randoms(use_true_random=False), operations=st.integers(5, OPERATIONS_MAX))
    def play(random: Random, operations: int) -> None:
        asyncio.run(compare(other_store, shards, random, operations, note))

    play()


async def compare(store_name: str, shards: int, random: Random, operations: int, say: Callable[[str], None]) -> None:
    """Play the same history on both and compare as it goes."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-model-"))
    try:
        async with STORES["memory"](folder) as reference, STORES[store_name](folder) as candidate:
            draw = Draw(random, shards)
            actors = Actor(reference, draw), Actor(candidate, draw)
            normals = Normal(), Normal()
            for number in range(operations):
                op = draw.op(len(actors[0].claims))
                say(repr(op))
                expected, answer = [
                    normal.of(await actor.play(op)) for actor, normal in zip(actors, normals, strict=True)
                ]
                assert answer == expected
                if number % 8 == 7 or number == operations - 1:
                    wanted, found = [
                        normal.of(await actor.everything(op.at_ms))
                        for actor, normal in zip(actors, normals, strict=True)
                    ]
                    assert found == wanted
    finally:
        shutil.rmtree(folder)
