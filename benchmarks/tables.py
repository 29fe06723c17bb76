"""Prints the figures as tables."""

from collections.abc import Mapping

from benchmarks.costs import cycles
from benchmarks.load import BATCHES, OPERATIONS, PAYLOAD

Rates = Mapping[str, Mapping[int, Mapping[str, float]]]


def row(name: str, operation: str, cells: list[str]) -> None:
    """Print one line."""
    print(f"{name:<22}{operation:<10}" + "".join(f"{cell:>12}" for cell in cells))


def by_batch(title: str, figures: Rates, spell: str) -> None:
    """Print a figure of every contender, operation and batch."""
    print(f"\n{title}\n")
    row("store", "operation", [f"{batch:,}" for batch in BATCHES])
    for name, rates in figures.items():
        for operation in OPERATIONS:
            row(name, operation, [format(rates[batch][operation], spell) for batch in BATCHES])


def shares(rates: Rates) -> Rates:
    """Each store's rates as a share of its raw reference's."""
    return {
        name: {
            batch: {each: of_batch[each] / rates[f"raw {name}"][batch][each] for each in OPERATIONS}
            for batch, of_batch in of_store.items()
        }
        for name, of_store in rates.items()
        if f"raw {name}" in rates
    }


def show_rates(rates: Rates) -> None:
    """Print jobs a second, and their shares."""
    by_batch(f"jobs/s by batch size (payload {len(PAYLOAD)} bytes, one client, journal on)", rates, ",.0f")
    by_batch("share of the raw reference in the same run", shares(rates), ".2f")


def show_cpu(cpu_us: Rates) -> None:
    """Print what Redis itself computes, and how many whole lives of a job a second of that is good for."""
    if not cpu_us:
        return
    by_batch("Redis CPU, microseconds a job", cpu_us, ".1f")
    print("\nfull cycles per second of Redis CPU\n")
    row("store", "", [f"{batch:,}" for batch in BATCHES])
    for name, of_store in cpu_us.items():
        row(name, "", [f"{cycles(dict(of_store[batch])):,.0f}" for batch in BATCHES])


def show_costs(
    costs: Mapping[str, Mapping[int, float]],
    memory: Mapping[str, Mapping[str, float]],
    wakes: Mapping[str, Mapping[str, float]],
) -> None:
    """Print claims by backlog, bytes and wake-ups."""
    print("\nclaim, microseconds a job in batches of 100, by jobs waiting\n")
    for name, by_backlog in costs.items():
        cells = "".join(f"{backlog:>12,}: {cost:5.1f}" for backlog, cost in by_backlog.items())
        lowest, highest = min(by_backlog.values()), max(by_backlog.values())
        print(f"{name:<22}{cells}   largest / smallest {highest / lowest:.2f}")
    if memory:
        print("\nRedis memory, bytes a waiting job (36-character ids)\n")
    for name, figures in memory.items():
        print(f"{name:<22}{figures['all']:>8.0f}, of which journal {figures['journal']:.0f}")
    print("\nidle wake-up, milliseconds from the call of enqueue to the end of the claim\n")
    for name, figures in wakes.items():
        trip = f"   bare round trip {figures['round_trip']:.2f}" if "round_trip" in figures else ""
        print(f"{name:<22}p50 {figures['p50']:6.2f}   p99 {figures['p99']:6.2f}{trip}")
