"""The short form of the benchmark runs and measures its figures."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import page
from benchmarks.peers.catalog import PEERS
from benchmarks.peers.environments import last_line
from benchmarks.peers.measure import Subject
from benchmarks.peers.places import places
from benchmarks.peers.processes import Failed
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


def results(**figures: float | str) -> dict[str, Any]:
    """A results file in which one peer has these figures in its only round."""
    run: dict[str, Any] = {"date": "2026-01-02", "command": "bench", "trial": False, "minutes": 1.0, "cores": 2}
    run |= {"processor": "P", "servers": {"Redis": "7"}, "python": "3.12", "node": None}
    run |= {"load_before": 0.1, "busy_before": 0.01, "load_after": 1.2, "busy_after": 0.02}
    words = {name: name for name in ("settings", "recovery", "acknowledged", "deduplicated")}
    peer = {**words, "name": "Peer", "store": "redis", "killed": "are lost", "ours": False, "only_drain": False}
    peer |= {"versions": {"peer": "1.2"}, "rounds": [figures]}
    return {"run": run, "lpush_per_s": [1_000_000.0], "systems": {"peer": peer}}


def test_the_page_and_its_charts_are_what_the_results_file_renders_to() -> None:
    stored = json.loads(page.RESULTS.read_text("utf-8"))

    charts = {chart.name: chart.read_text("utf-8") for chart in page.CHARTS.glob("*.svg")}

    assert page.part_of(page.PAGE.read_text("utf-8")) == page.render(stored)
    assert charts == page.pictures(stored)


def test_the_results_file_names_no_folder_no_host_and_no_registry() -> None:
    telling = re.compile(r"/(work|home|root|tmp|opt|usr)/|://|localhost|127\.0\.0\.1|\b(pypi|npmjs)\b")

    assert telling.findall(page.RESULTS.read_text("utf-8")) == []


def test_every_system_of_the_results_states_its_guarantees_beside_its_figure() -> None:
    stored = json.loads(page.RESULTS.read_text("utf-8"))

    lines = page.render(stored).splitlines()

    for system in stored["systems"].values():
        rows = [line for line in lines if line.startswith(f"| {page.named(system)} |")]
        assert any(line.endswith(f"| {system['killed']} |") for line in rows)


def test_a_peer_that_failed_is_shown_as_failed_with_the_reason_and_no_figure() -> None:
    text = page.render(results(single_per_s=1_234.0, drain_per_s="incomplete: 7 of 9 jobs"))

    assert "| Peer 1.2 | 1,234 |  |  | **failed** |  | are lost |" in text
    assert "- Peer: 1 of 1 rounds: incomplete: 7 of 9 jobs" in text


def test_a_peer_that_cannot_be_installed_has_a_row_that_says_why() -> None:
    stored = results()
    stored["systems"]["peer"] |= {"failed": "cannot be installed: there is no npm", "rounds": []}

    text = page.render(stored)

    assert "**failed**" in text
    assert "- Peer: cannot be installed: there is no npm" in text


def test_figures_of_rounds_become_a_median_with_its_spread() -> None:
    stored = results()
    stored["systems"]["peer"]["rounds"] = [{"drain_per_s": each} for each in (900.0, 1_000.0, 1_300.0)]

    assert "| 1,000 ± 20 % | 0.0010 |" in page.render(stored)


def test_figures_of_a_busy_machine_say_so() -> None:
    stored = results()
    stored["run"]["busy_before"] = 0.4

    assert "**Not measured on a quiet machine.**" in page.render(stored)
    assert "quiet" not in page.render(results())


def test_the_reason_of_a_failure_names_no_folder_of_the_machine() -> None:
    assert last_line("x\nOSError: no '/var/tmp/abc/file.db' there\n") == "OSError: no '…/file.db' there"


def test_a_drain_whose_jobs_do_not_come_is_incomplete_and_no_figure() -> None:
    [sqlite] = [peer for peer in PEERS if peer.key == "headrace-sqlite"]
    with places() as place:
        subject = Subject(sqlite, None, place, call_s=10)

        with pytest.raises(Failed, match="incomplete: 0 of 5 jobs"):
            subject.drained(place.fresh_url("sqlite"), 5)


def test_the_benchmark_of_peers_measures_headrace_without_installing_anything(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    options = ["--quick", "--write", "--peers", "headrace,headrace-sqlite", "--results", str(file)]
    command = [sys.executable, "-m", "benchmarks.peers", *options, "--environments", str(tmp_path / "none")]

    subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    found = json.loads(file.read_text())
    wanted = {f"{each}_per_s" for each in ("single", "tasks", "bulk", "drain")} | {"worker_cpu_us", "bytes_per_job"}
    wanted |= {"pick_p50_ms", "pick_p99_ms", "due_jobs", "due_p50_ms", "due_first_ms", "due_last_ms"}
    [redis], [sqlite] = (found["systems"][key]["rounds"] for key in ("headrace", "headrace-sqlite"))
    assert found["run"]["trial"]
    assert found["lpush_per_s"][0] > 0
    assert set(sqlite) == wanted
    assert set(redis) == wanted | {"server_cpu_us"}
    assert all(figure > 0 for figure in redis.values())
    assert not (tmp_path / "none").exists()
    assert str(tmp_path) not in file.read_text()
