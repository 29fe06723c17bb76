"""Feeds against their model: a store behaves like memory, and the log of a feed folds to its items."""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
from hypothesis import given, note
from hypothesis import strategies as st

from tests.support.examples import EXAMPLES, playing
from tests.support.feed_fold import Follower
from tests.support.feed_histories import EVERYWHERE, START_MS, FeedActor, FeedDraw
from tests.support.reference_store import open_with_reference
from tests.support.stores import STORES

OPERATIONS_MAX = 60


def test_the_feeds_of_a_store_behave_like_those_in_memory(other_store: str) -> None:
    """K6-K32: every answer, and everything that can be seen afterwards, is the same as in memory."""

    @playing(EXAMPLES[other_store].feeds_compared)
    @given(random=st.randoms(use_true_random=False), operations=st.integers(20, OPERATIONS_MAX))
    def play(random: Random, operations: int) -> None:
        asyncio.run(compare(other_store, random, operations, note))

    play()


async def compare(store_name: str, random: Random, operations: int, say: Callable[[str], None]) -> None:
    """Play the same history on both and compare as it goes."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-feeds-"))
    try:
        async with open_with_reference(store_name, folder) as stores:
            draw, actors = FeedDraw(random), [FeedActor(store) for store in stores]
            for number in range(operations):
                op = draw.op()
                say(repr(op)[:1_000])
                expected, answer = [await actor.play(op) for actor in actors]
                assert plain(answer) == plain(expected)
                if number % 10 == 9 or number == operations - 1:
                    expected, answer = [await actor.everything(op.at_ms) for actor in actors]
                    assert plain(answer) == plain(expected)
    finally:
        shutil.rmtree(folder)


def plain(answer: object) -> object:
    """An answer as plain data: a list may be of any kind."""
    return msgspec.to_builtins(answer)


def test_the_log_of_a_feed_folds_to_its_items(store_name: str) -> None:
    """KB7, KB8, KB9: after every call the items are those of the folded changes, in their order."""
    seen: Counter[str] = Counter()

    @playing(EXAMPLES[store_name].feeds_folded)
    @given(random=st.randoms(use_true_random=False), operations=st.integers(20, OPERATIONS_MAX))
    def live(random: Random, operations: int) -> None:
        asyncio.run(follow(store_name, random, operations, seen, note))

    live()

    assert seen["changes"] > 0


def test_the_histories_of_feeds_have_gaps_and_many_changes() -> None:
    """Else the comparisons above would prove little; these histories are always the same."""
    seen: Counter[str] = Counter()

    for seed in range(20):
        asyncio.run(follow("memory", Random(seed), OPERATIONS_MAX, seen, note_nothing))

    assert seen["changes"] > 500
    assert seen["gaps"] > 5


def note_nothing(_: str) -> None:
    """Nobody asks."""


async def follow(
    store_name: str, random: Random, operations: int, seen: Counter[str], say: Callable[[str], None]
) -> None:
    """Play a history on a store while followers read along."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-feeds-"))
    try:
        async with STORES[store_name](folder) as store:
            draw, actor = FeedDraw(random), FeedActor(store)
            followers = {feed: Follower(feed) for feed in EVERYWHERE}
            for _ in range(operations):
                op = draw.op()
                say(repr(op)[:1_000])
                await actor.play(op)
                for feed in (op.feed, op.feed.directory):
                    await followers[feed].look(store, op.at_ms)
            for follower in followers.values():
                await follower.look(store, START_MS)
                seen.update(changes=follower.changes, gaps=follower.gaps)
    finally:
        shutil.rmtree(folder)
