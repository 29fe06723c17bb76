"""Run a part of the pipeline's tests on every minor version of Spark that pyproject.toml allows.

    python -m tools.spark_versions           the chosen tests on each
    python -m tools.spark_versions 4.1       on these only

Each version gets an environment of its own in `.venv-spark`, with the newest release of that minor version and
everything else as it is locked: 700 MB, of which pip builds Spark's 450 MB once and keeps them.
"""

import hashlib
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.parts import Part, Tally, run_pytest
from tools.setup import LOCKS, SetupFailed, alone, run
from tools.versions import entries_of, name_of, release_of

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("4.1", "4.2", "4.3")
LEFT_OUT = frozenset({"mypy", "pip", "pyspark", "ruff"})
"""Locked packages that no environment needs, and Spark itself."""
# A client of Spark Connect cannot share a process with a session of its own Java.
CHOSEN = (
    ("tests/connect",),
    tuple(
        f"tests/pipeline/{name}.py"
        for name in (
            *("test_compat", "test_session", "test_sql", "test_spark_errors", "test_query_progress"),
            *("test_source", "test_filters", "test_records", "test_results", "test_feed_source", "test_payloads"),
            *("test_stream", "test_stream_loss", "test_streaming"),
            *("test_history", "test_compact", "storage/test_table"),
            *("test_jobs", "test_attempts", "test_errors", "test_usage", "test_tables"),
            *("test_stats", "test_stats_live"),
            *("test_write_jobs", "test_write_dead", "test_write_feed", "test_write_streams"),
            *("audit/test_audit", "flows/test_ingest", "flows/test_replay", "flows/test_map"),
        )
    ),
)


NARROWED = ("-k", "not redis and not postgres")
"""Versions of Spark do not differ by stores."""
NO_LEAKS = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
"""Spark 4.1 leaves sockets open."""


def locked_packages(root: Path) -> str:
    """The entries of the locks, with their hashes, without those that are left out."""
    entries = [entry for lock in LOCKS for entry in entries_of((root / lock).read_text())]
    return "".join(entry for entry in entries if name_of(entry) not in LEFT_OUT)


def environment(root: Path, version: str) -> Path:
    """The Python of an environment with this minor version of Spark, made when it is not what it should be."""
    folder = root / ".venv-spark" / version
    packages = locked_packages(root)
    parts = (str(folder), sys.version, packages, (root / "pyproject.toml").read_text())
    wanted = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    stamp, inside = folder / ".ready", folder / "bin" / "python"
    with alone(root) as lock:
        if not stamp.exists() or stamp.read_text() != wanted or not release_of(inside):
            run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(folder)], lock)
            listing = folder / "requirements.txt"
            listing.write_text(packages)
            pip = [sys.executable, "-m", "pip", "--python", str(inside), "--disable-pip-version-check", "--no-input"]
            install = [*pip, "install", "--quiet", "--no-deps"]
            run([*install, "--require-hashes", "--only-binary", ":all:", "-r", str(listing)], lock)
            run([*install, "--no-build-isolation", f"pyspark=={version}.*", "-e", str(root)], lock)
            stamp.write_text(wanted)
    return inside


def spark_release(inside: Path) -> str:
    """The whole version of the Spark in an environment, such as 4.1.4."""
    command = [str(inside), "-I", "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def line(name: str, seconds: float, tally: Tally) -> str:
    """A version's line of the table."""
    return f"{name:8}  {seconds:>7.0f}  {tally.passed:>6}  {tally.failed:>6}  {tally.skipped:>7}"


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run the tests on each version, and say of each what came of it."""
    if unknown := [each for each in arguments if each not in VERSIONS]:
        print(f"spark_versions: {unknown[0]!r} is none of {', '.join(VERSIONS)}", file=sys.stderr)
        return 2
    lines = [f"{'spark':8}  {'seconds':>7}  {'passed':>6}  {'failed':>6}  {'skipped':>7}"]
    is_failed = False
    for version in arguments or VERSIONS:
        print(f"\n== Spark {version}", flush=True)
        try:
            inside = environment(root, version)
        except SetupFailed as failed:
            lines.append(f"{version:8}  not run: {failed}")
            is_failed = True
            continue
        started = time.monotonic()
        tally = Tally()
        for workers, paths in zip((1, 2), CHOSEN, strict=True):
            part = Part(version, budget_s=0, paths=paths, workers=workers)
            tally += run_pytest(part, [*NARROWED, *NO_LEAKS, *paths], root, None, inside)
        lines.append(line(spark_release(inside), time.monotonic() - started, tally))
        is_failed |= tally.failed > 0
    print("\n" + "\n".join(lines), flush=True)
    return int(is_failed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
