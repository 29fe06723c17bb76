"""Run a part of the tests with the lowest versions that pyproject.toml allows of everything that it names.

    python -m tools.lowest

The environment is `.venv-lowest`: every extra at its floor, what these need in turn as new as they take it. A table
tells the floors beside the versions that were installed; one that is higher than its floor has no release there, or
another package wants more.
"""

import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from tools.parts import Part, Tally, run_pytest
from tools.resolver import Resolver, resolver
from tools.setup import plain

ROOT = Path(__file__).resolve().parent.parent
CHOSEN = (
    ("tests/model", "tests/stores/test_sqlite.py", "tests/stores/test_postgres_transactional.py"),
    (
        *(
            f"tests/conformance/test_{verb}.py"
            for verb in ("enqueue", "claim", "settle", "dead_letters", "feeds", "signals")
        ),
        *("tests/client", "tests/app", "tests/feeds", "tests/worker"),
    ),
    ("tests/cli", "tests/testing"),
    tuple(
        f"tests/pipeline/test_{name}.py"
        for name in ("convert", "records", "write_jobs", "feed_source", "history", "session")
    ),
    ("tests/connect",),
)


def requirements(root: Path) -> list[Requirement]:
    """What pyproject.toml asks for, with every extra, apart from extras of our own."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    return [each for each in map(Requirement, texts) if each.name != project["name"]]


def floors(root: Path) -> dict[str, Version]:
    """The lowest version that is allowed of each package, 0 where none is named; the highest of several."""
    found: dict[str, Version] = {}
    for requirement in requirements(root):
        name = plain(requirement.name)
        named = [Version(each.version) for each in requirement.specifier if each.operator == ">="]
        found[name] = max([found.get(name, Version("0")), *named])
    return found


def table(lowest: dict[str, Version], listing: str) -> str:
    """A line for each package with a floor, beside what is installed."""
    installed = dict(re.findall(r"^([a-z0-9._-]+)==([^ ;\n]+)", listing, flags=re.MULTILINE))
    lines = [f"{'package':24}  {'floor':>8}  {'installed':>10}"]
    for name, floor in sorted(lowest.items()):
        version = installed.get(name, "-")
        mark = "" if version != "-" and Version(version) == floor else "  not the floor"
        lines.append(f"{name:24}  {floor!s:>8}  {version:>10}{mark}")
    return "\n".join(lines)


def resolve(uv: Resolver, root: Path, listing: Path) -> str:
    """The lowest versions that go together, as a list for pip."""
    lowest = ("--resolution=lowest-direct", "--no-header", "--no-annotate", f"--output-file={listing}")
    python = f"--python={sys.executable}"
    uv.run("pip", "compile", "--quiet", "--all-extras", python, *lowest, "pyproject.toml", root=root)
    return listing.read_text()


def environment(root: Path) -> tuple[Path, str]:
    """The Python of `.venv-lowest`, made when it is not what it should be, and the list of what is in it."""
    folder = root / ".venv-lowest"
    listing, stamp, inside = folder / "requirements.txt", folder / ".ready", folder / "bin" / "python"
    project = (root / "pyproject.toml").read_bytes()
    wanted = hashlib.sha256(b"\0".join([str(folder).encode(), sys.version.encode(), project])).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(folder)], check=True)
        [setuptools] = tomllib.loads(project.decode())["build-system"]["requires"]
        with resolver("lowest") as uv:
            text = resolve(uv, root, listing)
            print(f"lowest: installing {len(text.splitlines())} packages in {folder.name}", flush=True)
            install = ("pip", "install", "--quiet", f"--python={inside}")
            uv.run(*install, f"--requirement={listing}", setuptools, root=root)
            uv.run(*install, "--no-deps", "--no-build-isolation", "--editable=.", root=root)
        stamp.write_text(wanted)
    return inside, listing.read_text()


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Install, run, and tell the floors beside what came of the tests."""
    if arguments:
        print(f"lowest: takes no arguments; found {arguments[0]!r}", file=sys.stderr)
        return 2
    try:
        inside, listing = environment(root)
    except subprocess.CalledProcessError as failed:
        print(f"lowest: a step ended with {failed.returncode}; its words are above", file=sys.stderr)
        return 1
    print(table(floors(root), listing), flush=True)
    tally = Tally()
    for number, paths in enumerate(CHOSEN):
        part = Part("lowest", budget_s=0, paths=paths, workers=1 if number >= 3 else 2)
        tally += run_pytest(part, paths, root, None, inside)
    print(f"\nlowest versions: {tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped", flush=True)
    return int(tally.failed > 0)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
