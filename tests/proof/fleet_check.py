"""Checks the work of a fleet: each job ends once, and a handler runs again only after its delivery ended."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from headrace.model.event import Event
from tests.proof.fleet_app import Run, is_deadly, is_hopeless

ENDS = {"done", "dead"}
OVER = {"retried", "released", "stalled"}
"""Ends of a delivery after which the job is delivered again."""


class WorkCheck(Struct):
    """The journal and the handlers' notes, compared."""

    jobs: int = 0
    events: Counter[str] = Counter()
    timed_out: int = 0
    """Deliveries that ran into their time-out."""
    crashed: int = 0
    """Lost leases of rows that crash their process."""
    unended: int = 0
    """Jobs that are neither done nor dead."""
    twice: int = 0
    """Jobs that ended more than once."""
    otherwise: int = 0
    """Jobs with another outcome than their number has."""
    runs: int = 0
    """Started handlers."""
    again: Counter[str] = Counter()
    """Repeated handlers of a row, by the end of the delivery before."""
    unexplained: int = 0
    """Repeated handlers without an end of the delivery before."""
    unknown: int = 0
    """Handlers without a claim, or started twice under one lease."""
    at_once: int = 0
    """Handlers that started while another one of the same row was running."""

    @property
    def is_right(self) -> bool:
        """Whether the check found no error."""
        wrong = self.unended + self.twice + self.otherwise + self.unexplained + self.unknown + self.at_once
        return self.jobs > 0 and wrong == 0

    def __str__(self) -> str:
        again = ", ".join(f"after {name} {count:,}" for name, count in sorted(self.again.items())) or "none"
        events = ", ".join(f"{name} {count:,}" for name, count in sorted(self.events.items()))
        return (
            f"jobs {self.jobs:,} ({events}), timed out {self.timed_out}, crashed {self.crashed}; neither done nor dead"
            f" {self.unended}, twice {self.twice}, otherwise {self.otherwise}; handlers started {self.runs:,}, again:"
            f" {again}; unexplained {self.unexplained}, unknown {self.unknown}, two at once {self.at_once}"
        )


def check_work(journal: Iterable[Event], runs: Sequence[Run]) -> WorkCheck:
    """Compare the handlers' notes with the journal."""
    found = WorkCheck(events=Counter(), again=Counter())
    ends: dict[str, list[str]] = defaultdict(list)
    claimed: set[tuple[str, int]] = set()
    over: dict[tuple[str, int], str] = {}
    for event in journal:
        line = event.line
        found.events[line.event] += 1
        if line.id is None:
            continue
        if line.event == "enqueued":
            ends.setdefault(line.id, [])
        elif line.event == "claimed":
            claimed.add((line.id, line.fence or 0))
        elif line.fence is not None:
            over[line.id, line.fence] = line.event
        if line.event in {*ENDS, "cancelled", "removed"}:
            ends[line.id].append(line.event)
        found.timed_out += line.error_class == "TimedOut"
    found.jobs = len(ends)
    found.unended = sum(not ENDS.intersection(each) for each in ends.values())
    found.twice = sum(len(each) > 1 for each in ends.values())
    _check_runs(found, runs, claimed, over)
    number = {run.id: run.n for run in runs}
    found.otherwise = sum(
        each[:1] != ["dead" if is_hopeless(number[id]) else "done"] for id, each in ends.items() if id in number
    )
    return found


def _check_runs(
    found: WorkCheck, runs: Sequence[Run], claimed: set[tuple[str, int]], over: dict[tuple[str, int], str]
) -> None:
    begun: dict[int, list[Run]] = defaultdict(list)
    ended = {(run.id, run.fence): run.at_ns for run in runs if run.is_end}
    for run in sorted((run for run in runs if not run.is_end), key=lambda run: run.at_ns):
        begun[run.n].append(run)
    for of_row in begun.values():
        deliveries = [(run.id, run.fence) for run in of_row]
        found.runs += len(of_row)
        found.unknown += sum(each not in claimed for each in deliveries)
        found.unknown += len(deliveries) - len(set(deliveries))
        for at, run in enumerate(of_row[1:], 1):
            before = over.get(deliveries[at - 1], "nothing")
            found.again[before] += 1
            found.unexplained += before not in OVER
            found.crashed += is_deadly(run.n) and before == "stalled"
            # The handlers of a killed process have ended, although without a note.
            found.at_once += any(ended.get(each, 0) > run.at_ns for each in deliveries[:at])
