"""Faults to plant in maps and fleets, which the checks of the proofs must find."""

import os
import secrets
from collections.abc import Callable
from importlib import import_module
from typing import Any

FAULT = "HEADRACE_PROOF_FAULT"
"""The environment tells executors which one to plant; they inherit it from the driver."""
Plant = Callable[[Any, str, Any], None]


def forget_keys(plant: Plant) -> None:
    """A map makes new ids in each call: finished jobs run again without a lost lease."""
    from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

    rows: Any = import_module("headrace.pipeline.flows.map.rows")
    named, salt = rows.id_of, secrets.token_hex(4)
    plant(rows, "id_of", lambda name, text: named(name, F.concat(text, F.lit(f".{salt}"))))


def drop_answers(plant: Plant) -> None:
    """A map leaves out some results."""
    run: Any = import_module("headrace.pipeline.flows.map.run")
    map_results = run.map_results

    def some(*given: Any, **more: Any) -> Any:
        return map_results(*given, **more).where("n % 101 <> 3")

    plant(run, "map_results", some)


def stop_hearts(plant: Plant) -> None:
    """Workers extend nothing and believe in their leases all the same: others begin what they still do."""
    from headrace.worker.heartbeat import Heartbeat

    async def nothing(*_: object) -> None: ...

    plant(Heartbeat, "run", nothing)
    plant(Heartbeat, "fence", lambda *_: None)


def give_up(plant: Plant) -> None:
    """Workers say of some jobs that they were cancelled: nobody will do them."""
    from headrace.model.outcome import Cancelled
    from headrace.worker.settler import Settler

    put = Settler.put

    def some(self: Any, run: Any, outcome: Any, run_ms: int) -> None:
        put(self, run, Cancelled() if run.claim.record.id.endswith("33") else outcome, run_ms)

    plant(Settler, "put", some)


DRIVERS: dict[str, Callable[[Plant], None]] = {"forget_keys": forget_keys, "drop_answers": drop_answers}
"""What the driver does wrong."""
WORKERS: dict[str, Callable[[Plant], None]] = {"stop_hearts": stop_hearts, "give_up": give_up}
"""What the executors do wrong."""


def plant_here() -> None:
    """Plant what the environment names, in a process of Spark that runs handlers."""
    name = os.environ.get(FAULT)
    if name in WORKERS:
        WORKERS[name](setattr)
