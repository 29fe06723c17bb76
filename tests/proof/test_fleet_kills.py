"""Promises of maps and fleets under kills, in short runs, and that their checks can fail."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.model.event import Event, EventName, EventRecord
from headrace.model.names import Queue
from tests.proof.fleet_app import Run
from tests.proof.fleet_check import check_work
from tests.proof.fleet_driver import RESULTS
from tests.proof.fleet_figures import Kill, Plan
from tests.proof.fleet_kills import run_kills
from tests.proof.map_check import check_results
from tests.proof.spark_driver import LOCAL
from tests.proof.worker_runs import emptied

SHORT = Plan(True, 240, ((Kill("worker", 0.1), Kill("tree", 0.4)),), master=LOCAL, capacity=4, ms=50)
[SHARD] = Queue("proof").all_shards()
Delivery = tuple[EventName, int]
"""The end of a delivery, by its fence."""
CLAIMED: Delivery = ("claimed", 1)
STALLED: Delivery = ("stalled", 1)
DONE: Delivery = ("done", 2)
BEGUN, ENDED = Run(False, 7, "n-7", 1, 10, 1), Run(True, 7, "n-7", 1, 30, 1)
AGAIN = Run(False, 7, "n-7", 2, 40, 2)


async def test_a_map_whose_driver_and_workers_are_killed_runs_no_row_twice_unless_its_lease_expired(
    tmp_path: Path,
) -> None:
    """Its results are exact as well."""
    url = await emptied("redis", tmp_path)

    figures = await run_kills(url, SHORT, tmp_path)

    assert figures.is_exact(), str(figures)
    assert figures.has_happened(SHORT), str(figures)


def journal(*deliveries: Delivery) -> list[Event]:
    """The events of one job."""
    lines = [EventRecord("enqueued", "n-7"), *(EventRecord(event, "n-7", fence=fence) for event, fence in deliveries)]
    return [Event(shard=SHARD, epoch=1, seq=seq, at_ms=seq, line=line) for seq, line in enumerate(lines, 1)]


RIGHT = journal(CLAIMED, STALLED, ("claimed", 2), DONE)


def test_a_row_that_ran_again_after_its_lease_expired_is_right() -> None:
    work = check_work(RIGHT, [BEGUN, AGAIN])

    assert work.is_right
    assert (work.runs, work.again) == (2, {"stalled": 1})


@pytest.mark.parametrize(
    ("what", "events", "runs"),
    [
        ("unexplained", journal(CLAIMED, ("done", 1), ("claimed", 2), DONE), [BEGUN, AGAIN]),
        ("twice", journal(CLAIMED, ("done", 1), ("claimed", 2), DONE), [BEGUN, AGAIN]),
        ("unended", journal(CLAIMED), [BEGUN]),
        ("unended", journal(CLAIMED, ("cancelled", 1)), [BEGUN]),
        ("otherwise", journal(CLAIMED, ("dead", 1)), [BEGUN]),
        ("unknown", RIGHT, [BEGUN, BEGUN, AGAIN]),
        ("unknown", journal(("claimed", 2), DONE), [BEGUN, AGAIN]),
        ("at_once", RIGHT, [BEGUN, AGAIN, Run(True, 7, "n-7", 1, 50, 1)]),
    ],
)
def test_the_check_of_a_fleet_finds(what: str, events: list[Event], runs: list[Run]) -> None:
    work = check_work(events, runs)

    assert getattr(work, what) == 1
    assert not work.is_right


def result_table(*rows: tuple[int, str, int | None]) -> pa.Table:
    """Results of numbers that do not die."""
    errors = pa.nulls(len(rows), pa.string())
    results = [None if square is None else {"square": square} for _, _, square in rows]
    return pa.table(
        {
            "n": pa.array([n for n, _, _ in rows], pa.int64()),
            "outcome": [outcome for _, outcome, _ in rows],
            "result": pa.array(results, pa.struct([("square", pa.int64())])),
            "error_class": errors,
            "error_message": errors,
        }
    )


@pytest.mark.parametrize(
    ("what", "table"),
    [
        ("missing", result_table((0, "done", 0), (1, "done", 1))),
        ("duplicate", result_table((0, "done", 0), (1, "done", 1), (2, "done", 4), (2, "done", 4))),
        ("wrong", result_table((0, "done", 0), (1, "done", 1), (2, "done", 5))),
        ("wrong", result_table((0, "done", 0), (1, "done", 1), (2, "open", None))),
    ],
)
def test_the_check_of_a_map_finds(what: str, table: pa.Table, tmp_path: Path) -> None:
    (tmp_path / RESULTS).mkdir()
    pq.write_table(table, tmp_path / RESULTS / "part.parquet")

    checked = check_results(tmp_path, 3)

    assert getattr(checked, what) == 1
    assert not checked.is_right
