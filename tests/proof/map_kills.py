"""Maps under kills: the plans of the long run, and of the faults that its check must find."""

from collections.abc import Callable

from tests.proof.fleet_figures import Kill, Plan
from tests.proof.fleet_kills import run_plans
from tests.proof.spark_driver import LOCAL


def map_plans(rows: int) -> dict[str, Plan]:
    """Every step is killed once, and the running jobs several times."""
    lives = (
        (Kill("tree", step="reading"),),
        (Kill("tree", step="enqueuing"),),
        (Kill("worker", 0.05), Kill("tree", 0.1)),
        (Kill("executor", 0.15), Kill("worker", 0.2), Kill("tree", 0.3)),
        (Kill("executor", 0.4), Kill("executor", 0.5), Kill("tree", 0.6)),
        (Kill("worker", 0.7), Kill("executor", 0.8), Kill("tree", 0.9)),
        (Kill("tree", step="collecting"),),
    )
    few = min(rows, 2_000)
    return {
        "two executors": Plan.of(True, rows, *lives),
        "forget_keys": Plan.of(True, few, (Kill("tree", 0.2),), master=LOCAL, fault="forget_keys"),
        "drop_results": Plan.of(True, few, (Kill("tree", 0.2),), master=LOCAL, fault="drop_results"),
    }


async def run_maps(say: Callable[[str], None], rows: int = 100_000) -> int:
    """The long run of maps."""
    return await run_plans("map", map_plans(rows), say)
