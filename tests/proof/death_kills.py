"""Kills a worker whose jobs all die and that also runs their fail handler: a queue and its fail queue in one worker."""

import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from headrace.model.job import Job
from headrace.model.names import Shard
from headrace.model.results import Counts
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.proof.worker_program import QUEUE
from tests.proof.worker_runs import PATIENCE_SECONDS, emptied, events_of, program
from tests.support.invariants import ShardFold

FAIL_QUEUE = QUEUE.fail_queue
STALLS_MAX = 1_000
"""Kills must not make a job die of its stalls."""
LOOK_SECONDS = 0.05

RUNS = (
    ("redis", 6_000, 60, ""),
    ("sqlite", 1_000, 10, ""),
    ("postgres", 1_000, 10, ""),
    ("redis", 500, 5, "lua_a_death_opens_its_fail_queue_a_second_time"),
)
"""Stores with how many jobs die and how many workers are killed, and what is planted there."""

Delivery = tuple[str, str, int]
"""A queue, an id and a fence."""


class DeathFigures(Struct):
    """What happened by the handlers' own words beside what the journals say, and each thing that does not fit."""

    jobs: int
    kills: int
    began: int = 0
    dead: int = 0
    handled: int = 0
    seconds: float = 0.0
    problems: list[str] = []

    def __str__(self) -> str:
        return (
            f"{self.dead:,} of {self.jobs:,} jobs died, {self.handled:,} deaths were handled, {self.began:,} deliveries"
            f" began, {self.kills} kills, {self.seconds:.1f} s, {len(self.problems)} problems"
            + "".join(f"; {each}" for each in self.problems[:3])
        )


async def kill_among_deaths(url: str, jobs: int, kills: int, lease_ms: int, fault: str = "") -> DeathFigures:
    """Let jobs die in a worker that also runs their fail handler, kill it repeatedly, and compare at the end."""
    store = await open_store(url)
    figures, began, started_at = DeathFigures(jobs, kills), list[Delivery](), time.monotonic()
    for queue in (QUEUE, FAIL_QUEUE):
        await store.queues.configure(queue, {"max_stalls": STALLS_MAX})
    ids = [f"doomed-{number}" for number in range(jobs)]
    for part in range(kills + 1):
        some = ids[part :: kills + 1]
        await store.jobs.enqueue([Job(queue=QUEUE, id=id, kind="doomed", payload=b"{}") for id in some])
        async with program(url, lease_ms, 1_000, "deaths", *([fault] if fault else [])) as process:
            assert process.stdout is not None
            reading = asyncio.create_task(_deliveries(process.stdout, began))
            if part < kills:
                await _reached(began, len(began) + random.randint(1, 2 * len(some)), reading)
                process.kill()
            else:
                figures.problems += await _drained(store, jobs)
                process.terminate()
            await asyncio.wait_for(reading, PATIENCE_SECONDS)
    figures.seconds = time.monotonic() - started_at
    await _compare(store, figures, began)
    await store.close()
    return figures


async def _deliveries(stdout: asyncio.StreamReader, began: list[Delivery]) -> None:
    while line := (await stdout.readline()).decode().split():
        if line[0] == "began":
            began.append((line[3], line[1], int(line[4])))


async def _reached(began: list[Delivery], number: int, reading: "asyncio.Task[None]") -> None:
    """Wait until so many deliveries began, or no more do."""
    quiet_at = time.monotonic() + 2
    seen = len(began)
    while len(began) < number and time.monotonic() < quiet_at and not reading.done():
        await asyncio.sleep(LOOK_SECONDS)
        if len(began) > seen:
            seen, quiet_at = len(began), time.monotonic() + 2


async def _drained(store: Store, jobs: int) -> list[str]:
    """Wait until nothing is left; what is left after a while is a problem."""
    give_up_at, counts = time.monotonic() + PATIENCE_SECONDS, list[Counts]()
    while time.monotonic() < give_up_at:
        counts = [await store.queues.counts(queue) for queue in (QUEUE, FAIL_QUEUE)]
        if not any(each.waiting or each.active or each.blocked for each in counts) and counts[0].dead == jobs:
            return []
        await asyncio.sleep(LOOK_SECONDS)
    return [f"after {PATIENCE_SECONDS} s there is work left: {counts}"]


async def _compare(store: Store, figures: DeathFigures, began: list[Delivery]) -> None:
    problems = figures.problems
    claimed: set[Delivery] = set()
    for queue in (QUEUE, FAIL_QUEUE):
        shard = Shard(queue, 0)
        try:
            await ShardFold(shard).look(store)
        except AssertionError as broken:
            problems.append(f"the journal of {queue.full_name} does not tell what is there: {broken}")
        cursor: str | None = None
        while True:
            found = await store.integrity.check(shard, cursor=cursor)
            problems += [
                f"{queue.full_name}: {each}" for each in (*found.problems, *found.count_mismatches, *found.breaks)
            ]
            if (cursor := found.cursor) is None:
                break
        bounds = await store.journal.bounds(shard)
        for entry in await store.journal.read(shard, 0, bounds.last_seq):
            lines = [event.line for event in entry.events(shard) if event.line.event == "claimed"]
            claimed |= {(queue.full_name, line.id or "", line.fence or 0) for line in lines}
    figures.began, twice = len(began), [each for each, times in Counter(began).items() if times > 1]
    problems += [f"{each} began twice" for each in twice]
    problems += [f"{each} began, and no journal tells that it was claimed" for each in set(began) - claimed]
    of_queue, of_fail_queue = await events_of(store), await events_of(store, FAIL_QUEUE)
    figures.dead, figures.handled = of_queue["dead"], of_fail_queue["done"]
    expected = {"enqueued": figures.jobs, "dead": figures.jobs}, {"enqueued": figures.jobs, "done": figures.jobs}
    for queue, seen, wanted in ((QUEUE, of_queue, expected[0]), (FAIL_QUEUE, of_fail_queue, expected[1])):
        ends = seen["dead"] + seen["done"] + seen["stalled"] + seen["released"]
        if {name: seen[name] for name in wanted} != wanted or seen["claimed"] != ends:
            problems.append(f"events of {queue.full_name}: {dict(seen)}, expected {wanted} and an end for each claim")


async def run_deaths(say: Callable[[str], None]) -> int:
    """The run on every store, and on Redis with a planted fault; returns the number of wrong runs."""
    violations = 0
    for name, jobs, kills, fault in RUNS:
        with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
            figures = await kill_among_deaths(await emptied(name, Path(folder)), jobs, kills, 1_000, fault)
        is_right = bool(figures.problems) if fault else not figures.problems
        violations += not is_right
        planted = f" with {fault}" if fault else ""
        say(f"deaths on {name}{planted}: {figures}: {'as it must be' if is_right else 'VIOLATION'}")
    return violations
