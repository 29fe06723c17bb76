"""A subscriber that is killed and resumed while many publish: the short form of the run, and proof that it can fail."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.proof.feeds import Plan, run_feeds, table
from tests.proof.worker_runs import emptied

SHORT = Plan(kills=3, processes=2, tasks=5, kept=2_000, pace_s=0.02)


@pytest.mark.parametrize("store_name", ["sqlite", "redis", "postgres"])
async def test_a_subscriber_that_is_killed_and_resumed_misses_nothing_and_sees_nothing_twice(
    store_name: str, tmp_path: Path
) -> None:
    """KB9: while many publish and old changes are dropped; a reader that was away for too long gets one gap and then
    the items."""
    url = await emptied(store_name, tmp_path)

    figures = await run_feeds(url, SHORT, tmp_path)

    assert figures.is_right, table({store_name: figures})
    assert (figures.publishers, figures.kills, figures.resumes) == (10, 3, 3)


@pytest.mark.parametrize(
    ("fault", "found"),
    [("skip_one", "missing"), ("resume_early", "duplicates"), ("turn_two_round", "order_errors")],
)
async def test_the_same_check_fails_on_a_broken_subscription(fault: str, found: str, tmp_path: Path) -> None:
    url = await emptied("sqlite", tmp_path)

    figures = await run_feeds(url, replace(SHORT, kills=1, fault=fault), tmp_path)

    assert not figures.is_right
    assert getattr(figures, found) > 0, table({fault: figures})
