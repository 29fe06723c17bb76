"""Find the servers and the browser that tests start, or install them without letting the packaged services run.

Debian starts a server as soon as it is installed and makes a database cluster of its own. Tests start theirs, on free
ports and in folders of their own, so both are held back here; whatever is changed for that is put back afterwards.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from tools.setup import SetupFailed, alone, run, say

ROOT = Path(__file__).resolve().parent.parent
POLICY = Path("/usr/sbin/policy-rc.d")
"""Asked by Debian's packages before they start a service; 101 is the answer that forbids it."""
CLUSTERS = Path("/etc/postgresql-common/createcluster.conf")
FONTS = Path("/usr/share/fonts")
FORBID = "#!/bin/sh\n# Written by headrace's tools/servers.py while it installs; safe to remove.\nexit 101\n"


def redis_program() -> str | None:
    """Where redis-server is, also for a user whose PATH leaves out the folders of the system."""
    return shutil.which("redis-server", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/bin{os.pathsep}/usr/sbin")


def postgres_folder() -> Path | None:
    """The folder with initdb and postgres: Debian keeps one per version and none on the PATH; the newest is taken."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -float(folder.parent.name))
    on_path = [Path(found).resolve().parent for found in [shutil.which("postgres")] if found]
    complete = [
        folder for folder in [*versions, *on_path] if (folder / "initdb").exists() and (folder / "postgres").exists()
    ]
    return complete[0] if complete else None


def browser_program() -> str | None:
    """Where a Chromium is that runs without a window."""
    found = (shutil.which(name) for name in ("chromium-headless-shell", "chromium", "google-chrome"))
    return next((program for program in found if program), None)


def nginx_program() -> str | None:
    """Where nginx is, also for a user whose PATH leaves out the folders of the system."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")


def has_fonts(folder: Path = FONTS) -> bool | None:
    """True if there is a font to draw text with; without one a browser shows no text at all."""
    return any(folder.rglob("*.[to]tf")) or None


PACKAGES: dict[str, Callable[[], object]] = {
    "redis-server": redis_program,
    "postgresql": postgres_folder,
    "chromium-headless-shell": browser_program,
    "fonts-dejavu-core": has_fonts,
    "nginx-light": nginx_program,
}
"""Debian's name for each server and for what tests look at pages with, and how to find out whether it is there."""
SERVICES = {"redis-server": "redis-server", "postgresql": "postgresql", "nginx-light": "nginx"}
"""The services that packages bring."""


def missing_packages() -> list[str]:
    """The packages whose servers are not there, however they may have been installed."""
    return [package for package, find in PACKAGES.items() if find() is None]


def refuse_unable(missing: list[str], is_root: bool, apt: str | None) -> None:
    """Raise SetupFailed if these packages cannot be installed from here."""
    names = " and ".join(missing)
    if apt is None:
        raise SetupFailed(
            f"the tests start real servers and a browser, {names} is missing and there is no apt-get to install it "
            f"with; install your system's Redis (7.0 or newer), PostgreSQL (15 or newer) and Chromium, then make again"
        )
    if not is_root:
        raise SetupFailed(
            f"the tests start real servers and a browser, and {names} is missing; type: sudo apt-get update && "
            f"sudo apt-get install -y --no-install-recommends {' '.join(missing)}, and then make again"
        )


@contextlib.contextmanager
def written(path: Path, text: str, mode: int) -> Iterator[None]:
    """Hold this text in a file, and afterwards what was there before; a text of our own left behind by a kill counts
    as nothing."""
    before = path.read_bytes() if path.exists() and path.read_text() != FORBID else None
    before_mode = path.stat().st_mode if before is not None else 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    try:
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)
            path.chmod(before_mode)


def install(packages: list[str], lock: int) -> None:
    """Install packages from Debian while no service may start and no database cluster is made."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
    say(f"installing the system packages {' '.join(packages)}")
    run(["apt-get", "update", "-qq"], lock, env)
    with written(POLICY, FORBID, 0o755):
        if "postgresql" in packages:
            run([*apt, "postgresql-common"], lock, env)  # brings the file that says whether to make a cluster
            kept = CLUSTERS.read_text() if CLUSTERS.exists() else ""
            with written(CLUSTERS, f"{kept}\ncreate_main_cluster = false\n", 0o644):
                run([*apt, *packages], lock, env)
        else:
            run([*apt, *packages], lock, env)
    keep_down(packages, lock)


def keep_down(packages: list[str], lock: int) -> None:
    """Let no service of these packages start at the next boot, where there is a systemd that would."""
    services = [SERVICES[package] for package in packages if package in SERVICES]
    if services and Path("/run/systemd/system").exists():
        run(["systemctl", "disable", "--quiet", *services], lock)


def ensure() -> None:
    """Install what is missing, or find out in an instant that nothing is."""
    if not missing_packages():
        return
    with alone(ROOT) as lock:
        missing = missing_packages()  # again: the one we waited for may have installed them
        if not missing:
            return
        refuse_unable(missing, os.geteuid() == 0, shutil.which("apt-get"))
        install(missing, lock)
    if still := missing_packages():
        raise SetupFailed(f"{' and '.join(still)} cannot be found after installing it; look at the PATH")


def main() -> NoReturn:
    try:
        ensure()
    except (SetupFailed, OSError) as failed:
        sys.exit(f"setup: {failed}")
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; make again starts over")
    sys.exit(0)


if __name__ == "__main__":
    main()
