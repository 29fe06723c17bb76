"""Model: random operations with the same instants on memory and on every other store give the same answers, states
and journals."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from hypothesis import given, note
from hypothesis import strategies as st

from tests.support.examples import EXAMPLES, playing
from tests.support.histories import Actor, Draw, Pairing
from tests.support.reference_store import open_with_reference

OPERATIONS_MAX = 40


def test_the_store_behaves_like_the_memory_store(other_store: str, shards: int) -> None:
    """Every answer, and everything that can be seen afterwards, is the same as in memory."""

    @playing(EXAMPLES[other_store].compared)
    @given(random=st.randoms(use_true_random=False), operations=st.integers(5, OPERATIONS_MAX))
    def play(random: Random, operations: int) -> None:
        asyncio.run(compare(other_store, shards, random, operations, note))

    play()


async def compare(store_name: str, shards: int, random: Random, operations: int, say: Callable[[str], None]) -> None:
    """Play the same history on both and compare as it goes."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-model-"))
    try:
        async with open_with_reference(store_name, folder) as (reference, candidate):
            draw = Draw(random, shards)
            actors = Actor(reference, draw), Actor(candidate, draw)
            pairing = Pairing()
            for number in range(operations):
                op = draw.op(len(actors[0].claims))
                say(repr(op))
                expected, answer = [await actor.play(op) for actor in actors]
                wanted, found = pairing.comparable(expected, answer)
                assert found == wanted
                if number % 8 == 7 or number == operations - 1:
                    seen = [await actor.everything(op.at_ms) for actor in actors]
                    wanted, found = pairing.comparable(*seen)
                    assert found == wanted
    finally:
        shutil.rmtree(folder)
