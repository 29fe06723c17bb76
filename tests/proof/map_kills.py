"""Maps under kills: the lives of the long run, and of the faults that its check must find."""

from collections.abc import Callable

from tests.proof.fleet_figures import Blow, Plan
from tests.proof.fleet_kills import run_plans
from tests.proof.spark_driver import LOCAL


def map_plans(rows: int) -> dict[str, Plan]:
    """Every step is killed once, and the work again and again."""
    lives = (
        (Blow("tree", step="reading"),),
        (Blow("tree", step="enqueuing"),),
        (Blow("worker", 0.05), Blow("tree", 0.1)),
        (Blow("executor", 0.15), Blow("worker", 0.2), Blow("tree", 0.3)),
        (Blow("executor", 0.4), Blow("executor", 0.5), Blow("tree", 0.6)),
        (Blow("worker", 0.7), Blow("executor", 0.8), Blow("tree", 0.9)),
        (Blow("tree", step="collecting"),),
    )
    few = min(rows, 2_000)
    return {
        "two executors": Plan.of(True, rows, *lives),
        "forget_keys": Plan.of(True, few, (Blow("tree", 0.2),), master=LOCAL, fault="forget_keys"),
        "drop_answers": Plan.of(True, few, (Blow("tree", 0.2),), master=LOCAL, fault="drop_answers"),
    }


async def run_maps(say: Callable[[str], None], rows: int = 100_000) -> int:
    """The long run of maps."""
    return await run_plans("map", map_plans(rows), say)
