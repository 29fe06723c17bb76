"""Run the parts of budget.toml and print what each took beside what it may take.

    tools/parts.py                 every part
    tools/parts.py check spark     these parts

Parts of one lane run one after the other, and lanes beside each other: much of the time is spent waiting for servers
and for leases to end. What a part says is shown when it has ended; at once where there is one lane only.

A slow part never fails the run. A failed part does, after all the others have run.
"""

import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
PYTHON = Path(sys.executable)


class BadParts(Exception):
    """The parts do not fit the tree or the request; one sentence."""


@dataclass(frozen=True)
class Part:
    name: str
    budget_s: float
    commands: tuple[tuple[str, ...], ...] = ()
    paths: tuple[str, ...] = ()
    workers: int = 1
    lane: int = 1


@dataclass(frozen=True)
class Tally:
    """Tests of one part by outcome; a command counts as one test."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


@dataclass(frozen=True)
class Result:
    """What came of one part; without a tally there was nothing to run yet."""

    part: Part
    seconds: float = 0.0
    tally: Tally | None = None

    @property
    def is_over(self) -> bool:
        return self.seconds > self.part.budget_s

    @property
    def is_failed(self) -> bool:
        return self.tally is not None and self.tally.failed > 0


def read_parts(budget: Path) -> list[Part]:
    return [
        Part(
            name=entry["name"],
            budget_s=entry["budget_minutes"] * 60,
            commands=tuple(tuple(command) for command in entry.get("commands", ())),
            paths=tuple(entry.get("paths", ())),
            workers=entry.get("workers", 1),
            lane=entry.get("lane", 1),
        )
        for entry in tomllib.loads(budget.read_text())["part"]
    ]


def choose(parts: Sequence[Part], names: Sequence[str]) -> list[Part]:
    known = [part.name for part in parts]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadParts(f"no part is called {', '.join(map(repr, unknown))}; the parts are {', '.join(known)}")
    return [part for part in parts if not names or part.name in names]


def test_files(folder: Path) -> set[Path]:
    return {*folder.rglob("test_*.py"), *folder.rglob("*_test.py")}


def refuse_unclaimed(root: Path, parts: Iterable[Part]) -> None:
    """Raise BadParts for test files that lie in no part: they would never run and nobody would know."""
    claimed = [root / path for part in parts for path in part.paths]
    files = test_files(root / "tests")
    unclaimed = sorted({file.parent for file in files if not any(file.is_relative_to(path) for path in claimed)})
    if unclaimed:
        folders = ", ".join(str(folder.relative_to(root)) for folder in unclaimed)
        raise BadParts(
            f"tests in {folders} belong to no part and would never run; name the folder in tools/budget.toml"
        )


def read_report(report: Path) -> Tally:
    """The outcomes in a JUnit file; none at all if pytest did not get as far as writing one."""
    if not report.exists():
        return Tally()
    suites = list(ET.parse(report).iter("testsuite"))  # noqa: S314  (pytest has just written it)

    def total(field: str) -> int:
        return sum(int(suite.get(field, 0)) for suite in suites)

    failed, skipped = total("failures") + total("errors"), total("skipped")
    return Tally(passed=max(total("tests") - failed - skipped, 0), failed=failed, skipped=skipped)


Out = IO[str] | None
"""Where a part's output goes; None is straight to the reader."""


def run(command: Sequence[str], root: Path, out: Out, python: Path = PYTHON) -> int:
    """Run with our own or another Python's programs first on the path, and with a cache in `.venv`, which `make clean`
    removes: it holds the archive from which Spark starts faster.

    Tests start many processes. Where the environment forbids to write bytecode, each would compile everything anew: it
    is kept in `.venv` then, too.
    """
    print(f"$ {' '.join(command)}", flush=True, file=out)
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(root / ".venv" / "cache")}
    if env.pop("PYTHONDONTWRITEBYTECODE", None):
        env["PYTHONPYCACHEPREFIX"] = str(root / ".venv" / "pycache")
    errors = None if out is None else subprocess.STDOUT
    return subprocess.run(command, cwd=root, env=env, check=False, stdout=out, stderr=errors).returncode


def run_pytest(part: Part, paths: Sequence[str], root: Path, out: Out, python: Path = PYTHON) -> Tally:
    with tempfile.TemporaryDirectory(prefix="headrace-parts-") as folder:
        report = Path(folder) / "report.xml"
        spread = ["-n", str(part.workers), "--dist", "worksteal"] if part.workers > 1 else []
        command = [str(python), "-m", "pytest", "-q", *spread, f"--junitxml={report}", *paths]
        code = run(command, root, out, python)
        tally = read_report(report)
    # A crash, an interrupt or a file without tests (pytest's 5) leaves no failed test behind, and fails all the same.
    return tally if code == 0 or tally.failed else tally + Tally(failed=1)


def run_part(part: Part, root: Path, out: Out = None) -> Result:
    paths = [path for path in part.paths if test_files(root / path)]
    missing = [path for path in part.paths if path not in paths]
    print(f"\n== {part.name}", flush=True, file=out)
    if missing:
        print(f"not there yet: {', '.join(missing)}", flush=True, file=out)
    if not paths and not part.commands:
        return Result(part)
    started = time.monotonic()
    tally = Tally()
    for command in part.commands:
        tally += Tally(passed=1) if run(command, root, out) == 0 else Tally(failed=1)
    if paths:
        tally += run_pytest(part, paths, root, out)
    return Result(part, time.monotonic() - started, tally)


def run_lane(parts: Sequence[Part], root: Path, printing: Lock) -> list[Result]:
    """Run parts one after the other while other lanes run theirs; each is shown whole when it has ended."""
    results = []
    for part in parts:
        print(f"… {part.name}", flush=True)
        with tempfile.TemporaryFile("w+", prefix="headrace-parts-", errors="replace") as kept:
            results.append(run_part(part, root, kept))
            kept.seek(0)
            with printing:
                for text in iter(lambda: kept.read(1 << 16), ""):
                    sys.stdout.write(text)
                sys.stdout.flush()
    return results


def run_all(parts: Sequence[Part], root: Path) -> list[Result]:
    """Run the parts, lane beside lane, and give what came of them in their order."""
    lanes = {lane: [part for part in parts if part.lane == lane] for lane in sorted({part.lane for part in parts})}
    if len(lanes) == 1:
        return [run_part(part, root) for part in parts]
    printing = Lock()
    with ThreadPoolExecutor(len(lanes)) as pool:
        running = [pool.submit(run_lane, lane, root, printing) for lane in lanes.values()]
        found = {result.part.name: result for lane in running for result in lane.result()}
    return [found[part.name] for part in parts]


def table(results: Sequence[Result]) -> str:
    width = max(len(result.part.name) for result in results)
    lines = [f"{'part':{width}}  {'seconds':>7}  {'budget':>6}  {'passed':>6}  {'failed':>6}  {'skipped':>7}"]
    for result in results:
        row = f"{result.part.name:{width}}  "
        if result.tally is None:
            lines.append(f"{row}{'-':>7}  {result.part.budget_s:>6.0f}  nothing there yet")
            continue
        tally = result.tally
        row += f"{result.seconds:>7.1f}  {result.part.budget_s:>6.0f}  "
        row += f"{tally.passed:>6}  {tally.failed:>6}  {tally.skipped:>7}"
        marks = ["over"] * result.is_over + ["FAILED"] * result.is_failed
        lines.append(f"{row}  {' '.join(marks)}".rstrip())
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> str:
    total = sum((result.tally for result in results if result.tally), Tally())
    return f"{total.passed} passed, {total.failed} failed"


def elapsed(seconds: float) -> str:
    return f"{int(seconds // 60)} min {int(seconds % 60):02} s"


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    try:
        parts = read_parts(root / "tools" / "budget.toml")
        refuse_unclaimed(root, parts)
        chosen = choose(parts, arguments)
    except BadParts as bad:
        print(f"parts: {bad}", file=sys.stderr)
        return 1
    started = time.monotonic()
    results = run_all(chosen, root)
    print(f"\n{table(results)}\n\nin {elapsed(time.monotonic() - started)}: {summary(results)}", flush=True)
    return int(any(result.is_failed for result in results))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
