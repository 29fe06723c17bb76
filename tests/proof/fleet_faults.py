"""Faults to plant in maps and fleets, which the proofs must find."""

import os
import secrets
from collections.abc import Callable
from importlib import import_module
from typing import Any

FAULT = "HEADRACE_PROOF_FAULT"
"""The environment variable with the fault to plant, which executors inherit from the driver."""
Plant = Callable[[Any, str, Any], None]


def forget_keys(plant: Plant) -> None:
    """A map makes new ids in each call: finished jobs run again without a lost lease."""
    from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

    rows: Any = import_module("headrace.pipeline.flows.map.rows")
    named, salt = rows.id_of, secrets.token_hex(4)
    plant(rows, "id_of", lambda name, text: named(name, F.concat(text, F.lit(f".{salt}"))))


def drop_results(plant: Plant) -> None:
    """A map leaves out some results."""
    run: Any = import_module("headrace.pipeline.flows.map.run")
    map_results = run.map_results

    def some(*args: Any, **kwargs: Any) -> Any:
        return map_results(*args, **kwargs).where("n % 101 <> 3")

    plant(run, "map_results", some)


def stop_heartbeats(plant: Plant) -> None:
    """Workers extend no lease and do not notice it: other workers start their running jobs."""
    from headrace.worker.heartbeat import Heartbeat

    async def nothing(*_: object) -> None: ...

    plant(Heartbeat, "run", nothing)
    plant(Heartbeat, "fence", lambda *_: None)


def give_up(plant: Plant) -> None:
    """Workers settle some jobs as cancelled, and they never run."""
    from headrace.model.outcome import Cancelled
    from headrace.worker.settler import Settler

    put = Settler.put

    def some(self: Any, run: Any, outcome: Any, run_ms: int) -> None:
        put(self, run, Cancelled() if run.claim.record.id.endswith("33") else outcome, run_ms)

    plant(Settler, "put", some)


DRIVERS: dict[str, Callable[[Plant], None]] = {"forget_keys": forget_keys, "drop_results": drop_results}
"""Faults of the driver."""
WORKERS: dict[str, Callable[[Plant], None]] = {"stop_heartbeats": stop_heartbeats, "give_up": give_up}
"""Faults of the executors."""


def plant_fault() -> None:
    """Plant the fault of the environment, in a process of Spark that runs handlers."""
    name = os.environ.get(FAULT)
    if name in WORKERS:
        WORKERS[name](setattr)
