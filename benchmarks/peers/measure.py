"""Measures one system: how many jobs it gets, and in each round what it does with them."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from benchmarks.peers.catalog import Peer
from benchmarks.peers.places import Places
from benchmarks.peers.processes import Failed, call, process

DUE_JOBS = 20_000
CALL_S = 45.0
"""No call may take longer."""
SYSTEM_S = 100.0
"""Nor all calls of a system in a round."""
Figures = dict[str, float | str]


class Sizes(NamedTuple):
    """How many jobs a system gets: so many that each figure takes a second or two."""

    single: int
    tasks: int
    drain: int
    due: int
    picks: int


TINY = Sizes(20, 100, 200, 100, 8)
OURS_TINY = TINY._replace(drain=5_000)
"""For a worker that claims hundreds of jobs at a time."""


def sizes_of(single: float, tasks: float, drain: float, jobs_max: int) -> Sizes:
    """Sizes for a system that does so many a second."""

    def bounded(rate: float, seconds: float, least: int) -> int:
        return max(min(int(rate * seconds) // 100 * 100, jobs_max), least)

    due = DUE_JOBS if drain >= 4_000 else 5_000 if drain >= 1_000 else 1_000
    drained = bounded(drain, 2.5, 500)
    return Sizes(bounded(single, 1.5, 100), bounded(tasks, 1.5, 500), drained, min(due, jobs_max), 100)


class Subject:
    """One system, ready to be measured."""

    def __init__(self, peer: Peer, home: Path | None, places: Places, call_s: float = CALL_S) -> None:
        self._peer = peer
        self._home = home
        self._places = places
        self._call_s = call_s
        self._end = time.monotonic() + SYSTEM_S

    def begin(self) -> None:
        """Give the system its time for a round."""
        self._end = time.monotonic() + SYSTEM_S

    def _limit(self) -> float:
        return min(time.monotonic() + self._call_s, self._end)

    def _fresh(self) -> str:
        url = self._places.fresh_url(self._peer.store)
        if self._peer.needs_setup:
            call(self._peer, self._home, url, ["setup"], self._limit())
        return url

    def sent(self, url: str, role: str, count: int) -> float:
        """Jobs a second of a way to send."""
        found = call(self._peer, self._home, url, [role, str(count)], self._limit())
        return float(found["jobs"] / found["seconds"])

    def drained(self, url: str, count: int) -> Figures:
        """What one worker process does with jobs that are there."""
        server = self._places.cpu_s(self._peer.store)
        with process(self._peer, self._home, url, ["work", "drain", str(count)], self._limit()) as worker:
            try:
                found = worker.figures("the worker")
            except Failed as failed:
                if "error" in str(failed):
                    raise
                jobs = worker.last_figures("the worker")["jobs"]
                raise Failed(f"incomplete: {jobs:,} of {count:,} jobs in the time given") from None
            after = self._places.cpu_s(self._peer.store)
        if found["jobs"] < count:
            raise Failed(f"incomplete: {found['jobs']:,} of {count:,} jobs")
        figures: Figures = {"drain_per_s": found["per_s"], "worker_cpu_us": found["cpu_us"]}
        if found["runs"] > count:
            figures["run_twice"] = found["runs"] - count
        if server is not None and after is not None:
            figures["server_cpu_us"] = (after - server) / count * 1e6
        return figures

    def calibrated(self, jobs_max: int) -> Sizes:
        """Sizes from a short run."""
        self.begin()
        single = self.sent(self._fresh(), "single", 100)
        url = self._fresh()
        tasks = self.sent(url, "tasks", 500)
        drain = self.drained(url, 500)["drain_per_s"]
        assert isinstance(drain, float)
        return sizes_of(single, tasks, drain, jobs_max)

    def measured(self, sizes: Sizes) -> Figures:
        """All figures of a round; a figure that failed is the sentence that says why."""
        self.begin()
        figures: Figures = {}

        def step(names: list[str], measure: Callable[[], Figures]) -> None:
            try:
                figures.update(measure())
            except Failed as failed:
                figures.update(dict.fromkeys(names, str(failed)))

        if not self._peer.only_drain:
            step(["single_per_s"], lambda: {"single_per_s": self.sent(self._fresh(), "single", sizes.single)})
            if self._peer.has_bulk:
                step(["tasks_per_s"], lambda: {"tasks_per_s": self.sent(self._fresh(), "tasks", sizes.tasks)})
        step(["drain_per_s"], lambda: self._filled_and_drained(sizes, figures))
        if not self._peer.only_drain:
            step(["pick_p50_ms", "pick_p99_ms"], lambda: self._picked(sizes))
            if self._peer.has_later:
                step(["due_last_ms"], lambda: self._due(sizes, figures))
        return figures

    def _filled_and_drained(self, sizes: Sizes, figures: Figures) -> Figures:
        """Filling is a figure, too: in bulk where the system can, else by tasks."""
        url = self._fresh()
        role = "bulk" if self._peer.has_bulk else "tasks"
        before = self._places.bytes(self._peer.store)
        rate = self.sent(url, role, sizes.drain)
        if not self._peer.only_drain:
            figures[f"{role}_per_s"] = rate
            figures["bytes_per_job"] = (self._places.bytes(self._peer.store) - before) / sizes.drain
        return self.drained(url, sizes.drain)

    def _picked(self, sizes: Sizes) -> Figures:
        """Milliseconds from the call that sends to the handler of an idle worker in another process."""
        url = self._fresh()
        role = ["work", "picks", str(sizes.picks)]
        with process(self._peer, self._home, url, role, self._limit()) as worker:
            with process(self._peer, self._home, url, ["picks", str(sizes.picks)], self._limit()) as sender:
                while worker.line("picking up") != "ready":
                    pass
                sender.go()
                sender.figures("sending")
            times = worker.figures("picking up")["times"]
        cuts = quantiles(times, n=100, method="inclusive")
        return {"pick_p50_ms": cuts[49] / 1e6, "pick_p99_ms": cuts[98] / 1e6}

    def _due(self, sizes: Sizes, figures: Figures) -> Figures:
        """Milliseconds by which the middle and the last of jobs that are due at one instant start late."""
        rate = figures.get("bulk_per_s", figures.get("tasks_per_s"))
        sending_s = sizes.due / rate if isinstance(rate, float) else 10.0
        due_ms = math.ceil(time.time() + 3.5 + 1.5 * sending_s) * 1_000
        url = self._fresh()
        with process(self._peer, self._home, url, ["work", "due", str(sizes.due)], self._limit()) as worker:
            role = ["later", str(sizes.due), str(due_ms)]
            call(self._peer, self._home, url, role, self._limit())
            while worker.line("the worker") != "ready":
                pass
            if time.time() * 1_000 > due_ms:
                raise Failed("sending took longer than the time until the jobs were due")
            try:
                found = worker.figures("the worker")
            except Failed as failed:
                if "error" in str(failed):
                    raise
                jobs = worker.last_figures("the worker")["jobs"]
                raise Failed(f"incomplete: {jobs:,} of {sizes.due:,} jobs in the time given") from None
        late = sorted(each / 1e6 - due_ms for each in found["times"])
        return {"due_jobs": sizes.due, "due_p50_ms": median(late), "due_last_ms": late[-1], "due_first_ms": late[0]}
