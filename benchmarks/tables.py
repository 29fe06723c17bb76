"""Prints the figures as tables, each beside its raw reference where there is one."""

from collections.abc import Mapping

from benchmarks.costs import cycles
from benchmarks.load import BATCHES, OPERATIONS, PAYLOAD

Rates = Mapping[str, Mapping[int, Mapping[str, float]]]


def beside(figure: float, raw: float | None, spell: str) -> str:
    """A figure, its raw reference and what share of it the figure is."""
    if not raw:
        return format(figure, spell)
    return f"{figure:{spell}} / {raw:{spell}} ({figure / raw:.2f})"


def row(name: str, operation: str, cells: list[str]) -> None:
    """Print one line."""
    print(f"{name:<22}{operation:<10}" + "".join(f"{cell:>28}" for cell in cells))


def by_batch(title: str, figures: Rates, spell: str) -> None:
    """Print a figure of every contender, operation and batch beside that of its raw reference."""
    print(f"\n{title}: ours / raw (share)\n")
    row("store", "operation", [f"{batch:,}" for batch in BATCHES])
    for name, rates in figures.items():
        if name.startswith("raw "):
            continue
        raw = figures.get(f"raw {name}")
        for operation in OPERATIONS:
            references = [raw[batch][operation] if raw else None for batch in BATCHES]
            found = [rates[batch][operation] for batch in BATCHES]
            row(name, operation, [beside(*pair, spell) for pair in zip(found, references, strict=True)])


def show_rates(rates: Rates) -> None:
    """Print jobs a second."""
    by_batch(f"jobs/s by batch size (payload {len(PAYLOAD)} bytes, one client, journal on)", rates, ",.0f")


def show_cpu(cpu_us: Rates) -> None:
    """Print what Redis itself computes, and how many whole lives of a job a second of that is good for."""
    if not cpu_us:
        return
    by_batch("Redis CPU, microseconds a job", cpu_us, ".1f")
    print("\nfull cycles per second of Redis CPU: ours / raw (share)\n")
    row("store", "", [f"{batch:,}" for batch in BATCHES])
    full = {name: [cycles(dict(of_store[batch])) for batch in BATCHES] for name, of_store in cpu_us.items()}
    for name, found in full.items():
        if not name.startswith("raw "):
            pairs = zip(found, full[f"raw {name}"], strict=True)
            row(name, "", [beside(*pair, ",.0f") for pair in pairs])


def show_costs(
    costs: Mapping[str, Mapping[int, float]],
    memory: Mapping[str, Mapping[str, float]],
    wakes: Mapping[str, Mapping[str, float]],
) -> None:
    """Print claims by backlog, bytes and wake-ups."""
    print("\nclaim, microseconds a job in batches of 100, by jobs waiting: ours / raw (share)\n")
    for name, by_backlog in costs.items():
        if name.startswith("raw "):
            continue
        raw = costs.get(f"raw {name}", {})
        cells = [f"{backlog:>12,}: {beside(cost, raw.get(backlog), '.1f'):<19}" for backlog, cost in by_backlog.items()]
        lowest, highest = min(by_backlog.values()), max(by_backlog.values())
        print(f"{name:<22}{''.join(cells)}   largest / smallest {highest / lowest:.2f}")
    if memory:
        print("\nRedis memory, bytes a waiting job (36-character ids): ours / raw (share)\n")
    for name, figures in memory.items():
        print(f"{name:<22}{beside(figures['all'], figures['raw'], '.0f')}, of which journal {figures['journal']:.0f}")
    print("\nidle wake-up, milliseconds from the call of enqueue to the end of the claim\n")
    for name, figures in wakes.items():
        trip = f"   bare round trip {figures['round_trip']:.2f}" if "round_trip" in figures else ""
        print(f"{name:<22}p50 {figures['p50']:6.2f}   p99 {figures['p99']:6.2f}{trip}")
