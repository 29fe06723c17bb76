"""Workers that are killed, stopped and blocked: no job is lost, and no attempt or stall is counted wrongly."""

from collections import Counter
from pathlib import Path

import pytest

from tests.proof.death_kills import kill_among_deaths
from tests.proof.worker_runs import block, emptied, kill, terminate

LEASE_MS = 2_000


@pytest.mark.parametrize("store_name", ["sqlite", "redis", "postgres"])
async def test_the_jobs_of_a_killed_worker_are_done_once_more_when_their_leases_end(
    store_name: str, tmp_path: Path
) -> None:
    """T32, TB4: a hundred jobs in hand, kill -9: all done within the lease and two seconds, each charged a stall."""
    url = await emptied(store_name, tmp_path)

    figures = await kill(url, 100, LEASE_MS)

    assert figures.events == Counter(enqueued=100, claimed=200, stalled=100, done=100)
    assert figures.seconds < LEASE_MS / 1000 + 2


@pytest.mark.parametrize("store_name", ["sqlite", "redis", "postgres"])
async def test_killed_workers_with_fail_handlers_leave_both_journals_whole(store_name: str, tmp_path: Path) -> None:
    """Q27: every job dies, its fail handler runs, and the journals agree with the handlers."""
    url = await emptied(store_name, tmp_path)

    figures = await kill_among_deaths(url, 100, 2, 500)

    assert figures.problems == []
    assert (figures.dead, figures.handled, figures.kills) == (100, 100, 2)


async def test_a_fail_queue_that_a_death_opens_a_second_time_is_noticed(tmp_path: Path) -> None:
    url = await emptied("redis", tmp_path)

    figures = await kill_among_deaths(url, 200, 1, 500, "lua_a_death_opens_its_fail_queue_a_second_time")

    assert any("are repeated" in problem for problem in figures.problems)


@pytest.mark.parametrize("store_name", ["sqlite", "redis", "postgres"])
async def test_a_worker_that_is_asked_to_end_gives_back_what_it_holds_and_charges_nothing(
    store_name: str, tmp_path: Path
) -> None:
    """Q40, T24, TB3: coroutines, threads and processes, none of which ends by itself; no process is left behind."""
    url = await emptied(store_name, tmp_path)

    figures = await terminate(url, ["hang"] * 30 + ["stubborn"] * 5 + ["far_away"] * 2, grace_ms=100)

    assert figures.events == Counter(enqueued=37, claimed=37, released=37)
    assert (figures.exit_code, figures.attempts, figures.stalls, figures.orphans) == (0, 0, 0, 0)


async def test_a_second_signal_ends_the_grace_at_once(tmp_path: Path) -> None:
    url = await emptied("sqlite", tmp_path)

    figures = await terminate(url, ["hang"] * 5, grace_ms=3_600_000, signals=2)

    assert figures.events == Counter(enqueued=5, claimed=5, released=5)
    assert figures.exit_code == 0


@pytest.mark.parametrize("store_name", ["sqlite", "redis", "postgres"])
async def test_a_handler_that_blocks_the_loop_costs_its_neighbours_no_lease(store_name: str, tmp_path: Path) -> None:
    """T28: the loop stands still for 5 s, with leases of 2 s, and another worker sweeps all the while."""
    url = await emptied(store_name, tmp_path)

    figures = await block(url, 5.0, LEASE_MS, in_a_process=False)

    assert figures.events == Counter(enqueued=11, claimed=11, done=11)


async def test_a_handler_that_holds_the_interpreter_in_a_process_costs_its_neighbours_no_lease(tmp_path: Path) -> None:
    """T28: three leases long; `make proof` does it for 20 s."""
    url = await emptied("sqlite", tmp_path)

    figures = await block(url, 3.0, 1_000, in_a_process=True)

    assert figures.events == Counter(enqueued=11, claimed=11, done=11)
