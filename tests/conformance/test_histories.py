"""Random histories: the promises of the model hold after each call, and the journal folds to the rows."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from random import Random

from hypothesis import given, note
from hypothesis import strategies as st

from tests.support.examples import EXAMPLES, playing
from tests.support.histories import Draw
from tests.support.invariants import check_history
from tests.support.stores import STORES


def test_a_random_history_breaks_no_promise(store_name: str, shards: int) -> None:
    """Q5, Q12, CB2, TB9: one waiting-or-blocked and one active record per id; the journal explains every record."""

    @playing(EXAMPLES[store_name].lived)
    @given(random=st.randoms(use_true_random=False), operations=st.integers(5, 60))
    def live(random: Random, operations: int) -> None:
        asyncio.run(play(store_name, shards, random, operations))

    live()


async def play(store_name: str, shards: int, random: Random, operations: int) -> None:
    """Play a history and check it."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-history-"))
    try:
        async with STORES[store_name](folder) as store:
            await check_history(store, Draw(random, shards, trims=False), operations, note)
    finally:
        shutil.rmtree(folder)
