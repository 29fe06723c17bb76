"""Measures Headrace beside its peers, in rounds that take turns, and writes the results and their page.

    python -m benchmarks.peers [--peers bullmq,saq] [--rounds 3] [--jobs 100000] [--minutes 24] [--quick] [--write]

It starts its own servers, installs each peer into an environment of its own in the folder for temporary files, and ends
within its time: rounds for which none is left are left out, and the page says how many there were.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.peers import page
from benchmarks.peers.catalog import PEERS, Peer
from benchmarks.peers.environments import FOLDER, NotInstalled, installed, versions
from benchmarks.peers.measure import OURS_TINY, TINY, Sizes, Subject
from benchmarks.peers.places import Places, busy_share, machine, places
from benchmarks.peers.processes import Failed
from benchmarks.worker import pushes_per_second

PUSHES = 1_000_000


def options_of(words: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", default="", help="only these, by key, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=100_000, help="most jobs of one measurement")
    parser.add_argument("--minutes", type=float, default=24.0, help="no round is begun that would end later")
    parser.add_argument("--quick", action="store_true", help="a trial: tiny counts, one round, nothing is written")
    parser.add_argument("--write", action="store_true", help="write the results and the page after a trial, too")
    parser.add_argument("--results", type=Path, default=page.RESULTS, help="the results file")
    parser.add_argument("--environments", type=Path, default=FOLDER, help="where peers are installed")
    parser.add_argument("--fresh", action="store_true", help="install peers anew")
    options = parser.parse_args(words)
    unknown = set(filter(None, options.peers.split(","))) - {peer.key for peer in PEERS}
    if unknown:
        parser.error(f"no peer {', '.join(sorted(unknown))}; there are {', '.join(peer.key for peer in PEERS)}")
    return options


def command(options: argparse.Namespace) -> str:
    """The command that measures so again, without what names a folder of this machine."""
    plain = options_of([])
    kept = ("peers", "rounds", "jobs", "minutes", "quick")
    given = [(f"--{name}", getattr(options, name)) for name in kept if getattr(options, name) != getattr(plain, name)]
    words = [word if value is True else f"{word} {value}" for word, value in given]
    return " ".join(["python -m benchmarks.peers", *words])


def say(text: str) -> None:
    """Tell what happens."""
    print(f"  {text}", flush=True)


def described(peer: Peer) -> dict[str, Any]:
    """What the page says of a system, whatever its figures."""
    kept = ("name", "store", "settings", "killed", "recovery", "acknowledged", "deduplicated", "language", "only_drain")
    return {name: getattr(peer, name) for name in kept} | {"ours": peer.is_ours, "rounds": []}


def install_all(peers: list[Peer], folder: Path, systems: dict[str, Any]) -> dict[str, Path | None]:
    """The homes of what could be installed; what could not says why in its results."""

    def install(peer: Peer) -> Path | NotInstalled | None:
        try:
            return None if peer.is_ours else installed(peer, folder)
        except NotInstalled as failed:
            return failed

    firsts = list({peer.packages: peer for peer in peers}.values())
    with ThreadPoolExecutor(2) as threads:
        found = dict(zip([peer.packages for peer in firsts], threads.map(install, firsts), strict=True))
    homes: dict[str, Path | None] = {}
    for peer in peers:
        home = found[peer.packages]
        if isinstance(home, NotInstalled):
            systems[peer.key]["failed"] = f"cannot be installed: {home}"
            say(f"{peer.key}: {systems[peer.key]['failed']}")
        else:
            systems[peer.key]["versions"] = versions(peer, home)
            homes[peer.key] = home
    return homes


def tiny(system: dict[str, Any]) -> Sizes:
    """Counts of a trial."""
    return OURS_TINY if system["ours"] else TINY


def calibrate(subjects: dict[str, Subject], systems: dict[str, Any], options: argparse.Namespace) -> dict[str, Sizes]:
    """How many jobs each system gets; what fails already here is not measured."""
    sizes: dict[str, Sizes] = {}
    for key, subject in subjects.items():
        say(f"calibrating {key}")
        try:
            sizes[key] = tiny(systems[key]) if options.quick else subject.calibrated(options.jobs)
        except Failed as failed:
            systems[key]["failed"] = str(failed)
            say(f"{key}: {failed}")
        else:
            systems[key]["sizes"] = sizes[key]._asdict()
    return sizes


def measure(place: Places, options: argparse.Namespace, results: dict[str, Any], end: float) -> None:
    """All rounds: each system once in a round, and the order turned by one third with every round."""
    systems = results["systems"]
    chosen = [peer for peer in PEERS if not options.peers or peer.key in options.peers.split(",")]
    systems.update({peer.key: described(peer) for peer in chosen})
    say("installing")
    homes = install_all(chosen, options.environments, systems)
    subjects = {peer.key: Subject(peer, homes[peer.key], place) for peer in chosen if peer.key in homes}
    sizes = calibrate(subjects, systems, options)
    took = 0.0
    for number in range(1 if options.quick else options.rounds):
        begun = time.monotonic()
        if begun + took > end:
            say("no time is left for another round")
            break
        place.fresh_url("redis")
        results["lpush_per_s"].append(pushes_per_second(place.redis.port, PUSHES // (20 if options.quick else 1)))
        keys = list(sizes)
        turn = number * len(keys) // 3
        for key in keys[turn:] + keys[:turn]:
            if time.monotonic() > end:
                say(f"round {number + 1}: no time is left for {key}")
                continue
            say(f"round {number + 1}: {key}")
            figures = subjects[key].measured(sizes[key])
            systems[key]["rounds"].append({name: rounded(figure) for name, figure in figures.items()})
        took = time.monotonic() - begun


def rounded(figure: float | str) -> float | str:
    """A figure with as many digits as it is worth."""
    return float(f"{figure:.4g}") if isinstance(figure, float) else figure


def main(words: list[str]) -> None:
    """Measure, and write what was found."""
    options = options_of(words)
    began = time.monotonic()
    if options.fresh:
        shutil.rmtree(options.environments, ignore_errors=True)
    node = shutil.which("node")
    run: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": command(options),
        "trial": options.quick,
        "load_before": os.getloadavg()[0],
        "busy_before": busy_share(),
        "python": sys.version.split()[0],
        "node": subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()[1:]
        if node
        else None,
        **machine(),
    }
    results: dict[str, Any] = {"run": run, "lpush_per_s": [], "systems": {}}
    with places() as place:
        run["servers"] = place.server_versions()
        measure(place, options, results, began + options.minutes * 60)
    run |= {"load_after": os.getloadavg()[0], "busy_after": busy_share()}
    run["minutes"] = round((time.monotonic() - began) / 60, 1)
    if options.quick and not options.write:
        print(page.render(results))
        return
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    if options.results == page.RESULTS:
        page.write(results)


if __name__ == "__main__":
    main(sys.argv[1:])
