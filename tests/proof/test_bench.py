"""The benchmark's short form: it runs, and measures what it says."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.tables import beside

ROOT = Path(__file__).parents[2]


def test_the_benchmark_measures_every_store_and_batch_beside_the_raw_reference() -> None:
    command = [sys.executable, "-m", "benchmarks.stores", "--quick", "--json"]

    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    figures = json.loads(finished.stdout)
    rates = figures["jobs_per_second"]
    durable = {
        f"{raw}{name}" for raw in ("", "raw ") for name in ("sqlite durable", "redis durable", "postgres durable")
    }
    fast = {f"{raw}{name}" for raw in ("", "raw ") for name in ("sqlite fast", "redis fast")}
    assert set(rates) == {"memory"} | fast | durable
    assert set(figures["redis_cpu_us_per_job"]) == {name for name in rates if "redis" in name}
    for by_batch in [*rates.values(), *figures["redis_cpu_us_per_job"].values()]:
        assert set(by_batch) == {"1", "10", "100", "1000"}
        assert all(figure > 0 for each in by_batch.values() for figure in each.values())
    stored = {"sqlite fast", "redis fast", "postgres durable"}
    assert set(figures["claim_us_per_job"]) == {"memory"} | stored | {f"raw {name}" for name in stored}
    assert (
        100
        < figures["bytes_per_waiting_job"]["redis fast"]["raw"]
        < figures["bytes_per_waiting_job"]["redis fast"]["all"]
    )
    assert set(figures["wake_up_ms"]) == {name for name in rates if "raw" not in name}
    assert all(0 < each["p50"] <= each["p99"] for each in figures["wake_up_ms"].values())


def test_the_benchmark_of_the_worker_measures_beside_bare_references_and_loses_nothing() -> None:
    command = [sys.executable, "-m", "benchmarks.worker", "--quick", "--json", "--stores", "sqlite fast,redis fast"]

    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    figures = json.loads(finished.stdout)
    assert set(figures) == {"sqlite fast", "redis fast"}
    for found in figures.values():
        assert 0 < found["drain"]["share_of_lpush"] < 1
        assert found["two_processes"]["jobs_per_second"] > 0
        assert all(0 < found[what]["p50"] <= found[what]["p99"] for what in ("bare_wake_ms", "pick_up_ms"))
        assert 0 <= found["due_at_once_ms"]["p50"] <= found["due_at_once_ms"]["max"]
        assert found["due_at_once_ms"]["early"] == 0


def test_the_benchmark_of_feeds_measures_publishing_delivery_insertion_and_bytes() -> None:
    command = [sys.executable, "-m", "benchmarks.feeds", "--quick", "--json", "--stores", "sqlite fast,redis fast"]

    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    figures = json.loads(finished.stdout)
    for by_store in figures.values():
        assert {"redis fast"} <= set(by_store) <= {"sqlite fast", "redis fast"}
    for rates in figures["publications_per_second"].values():
        assert min(rates[what] for what in ("single", "at once", "batch 100", "raw single", "raw batch 100")) > 0
    for by_count in figures["delivery_ms"].values():
        assert set(by_count) == {"1", "100", "1000"}
        assert all(0 < found["p50"] <= found["p99"] for found in by_count.values())
        assert all(0 < found["raw p50"] <= found["raw p99"] for found in by_count.values())
    assert figures["insert"]["redis fast"]["times faster on the server, batch 100"] > 0
    weights = figures["bytes_per_item"]["redis fast"]
    assert 100 < weights["without log"] < weights["with log"]
    assert weights["raw with log"] == weights["raw without log"] > 100


def test_the_benchmark_of_spark_reads_and_writes_everything_beside_bare_references() -> None:
    command = [sys.executable, "-m", "benchmarks.spark", "--quick", "--json", "--stores", "sqlite fast,redis fast"]

    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    figures = json.loads(finished.stdout)
    assert all(figures["start_s"][what] > 0 for what in ("session", "first query", "first Python worker"))
    assert 0 < figures["peak_mb"]["largest Python worker"] < figures["peak_mb"]["Java"]
    threads = {"1 at once", "2 at once"}
    wanted = {
        "read_rows_per_second": threads | {"bare"},
        "queues_s": threads,
        "write_rows_per_second": threads | {"client", "1 at once, again", "2 at once, again"},
    }
    for what, names in wanted.items():
        assert set(figures[what]) == {"sqlite fast", "redis fast"}
        for found in figures[what].values():
            assert set(found) == names
            assert min(found.values()) > 0


def test_a_figure_stands_beside_its_raw_reference_and_its_share_of_it() -> None:
    assert beside(500.0, 2_000.0, ",.0f") == "500 / 2,000 (0.25)"
    assert beside(500.0, None, ",.0f") == "500"
