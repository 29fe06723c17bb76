"""Seeds of the simulation, one after the other in several processes, added up."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from msgspec import Struct, field

from tests.simulation.world import SeedReport, simulate

SHOWN_MAX = 3


class SimulationFigures(Struct):
    """What a run has done."""

    seeds: int = 0
    operations: int = 0
    jobs: int = 0
    deliveries: int = 0
    seconds: float = 0.0
    violations: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: SeedReport) -> None:
        """Count one more seed."""
        self.seeds += 1
        self.operations += outcome.operations
        self.jobs += outcome.jobs
        self.deliveries += outcome.deliveries
        self.seconds += outcome.seconds
        self.violations += len(outcome.violations)
        self.faults += outcome.faults

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.faults.items()))
        return (
            f"{self.seeds:,} seeds, {self.operations:,} operations, {self.jobs:,} jobs, {self.deliveries:,} deliveries,"
            f" {self.seconds / 3_600:,.1f} simulated hours, {sum(self.faults.values()):,} faults ({kinds}),"
            f" violations {self.violations}"
        )


def replay_command(seed: int) -> str:
    """What to type to see a seed again, step by step."""
    return f"python -m tests.proof --simulation --first {seed} --seeds 1"


def run_seeds(first: int, seeds: int) -> list[SeedReport]:
    """Some seeds in this process; their traces stay behind."""
    return [simulate(seed) for seed in range(first, first + seeds)]


def run_simulation(
    first: int, seeds: int, stride: int, processes: int, say: Callable[[str], None]
) -> SimulationFigures:
    """Run many seeds in several processes; a violation is printed with the command to replay it, and the run
    continues."""
    figures = SimulationFigures()
    firsts = range(first, first + seeds, stride)
    counts = [min(stride, first + seeds - each) for each in firsts]
    with ProcessPoolExecutor(processes) as pool:
        for outcomes in pool.map(run_seeds, firsts, counts):
            for outcome in outcomes:
                figures.add(outcome)
                _tell(outcome, say)
            say(f"  simulation: {figures}")
    return figures


def replay(seed: int, say: Callable[[str], None]) -> SimulationFigures:
    """Live through one seed and say every step of it."""
    figures = SimulationFigures()
    outcome = simulate(seed, is_traced=True)
    for line in outcome.trace:
        say(line)
    figures.add(outcome)
    _tell(outcome, say)
    return figures


def _tell(outcome: SeedReport, say: Callable[[str], None]) -> None:
    for violation in outcome.violations[:SHOWN_MAX]:
        say(f"violation at seed {outcome.seed}: {violation}; replay: {replay_command(outcome.seed)}")
