"""How many random histories each store plays in the tests: the slower the store, the fewer.

These are a first look. `make proof` plays hundreds of seeds of every kind on every store, each several times as long.
"""

from typing import NamedTuple

from hypothesis import HealthCheck, settings


class Examples(NamedTuple):
    """Histories by what is looked at."""

    compared: int
    """Of jobs, beside memory; for each number of shards."""
    lived: int
    """Of jobs, whose journal must explain every record; for each number of shards."""
    feeds_compared: int
    feeds_folded: int


EXAMPLES = {
    "memory": Examples(compared=0, lived=30, feeds_compared=0, feeds_folded=50),
    "sqlite": Examples(compared=20, lived=10, feeds_compared=20, feeds_folded=10),
    "redis": Examples(compared=15, lived=8, feeds_compared=15, feeds_folded=8),
    "redis-cluster": Examples(compared=10, lived=5, feeds_compared=8, feeds_folded=5),
    "postgres": Examples(compared=6, lived=4, feeds_compared=5, feeds_folded=2),
}


def playing(examples: int) -> settings:
    """Hypothesis' settings for so many histories: each takes what it takes."""
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
