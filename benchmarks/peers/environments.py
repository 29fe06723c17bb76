"""Installs the compared systems, each into an environment of its own outside the tree."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.peers.catalog import Peer

FOLDER = Path(tempfile.gettempdir()) / "headrace-bench-peers"
INSTALL_S = 180.0
_VERSIONS = "import importlib.metadata as m, sys; print(*[m.version(name) for name in sys.argv[1:]])"


class NotInstalled(Exception):
    """A system could not be installed; one sentence."""


def without_paths(text: str) -> str:
    """The text without what names this machine: folders and addresses."""
    return re.sub(r"(?:[a-z]+://|/)[^\s'\",)]*/", "…/", text)


def last_line(log: str) -> str:
    """The line of a log that says best what went wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(?i)error|npm error|[\w.]*(Error|Exception)\b", line)]
    return without_paths((telling or lines or ["nothing was said"])[-1])[:200]


def installed(peer: Peer, folder: Path) -> Path:
    """The folder of its environment; installs what is not there."""
    home = folder / "-".join(re.sub(r"\W+", "_", name) for name in peer.packages)
    mark = home / "installed"
    if mark.exists() and mark.read_text() == " ".join(peer.packages):
        return home
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    if peer.language == "JavaScript":
        (home / "package.json").write_text("{}")
        _run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), *peer.packages])
    else:
        _run([sys.executable, "-m", "venv", str(home)])
        _run([str(home / "bin/pip"), "install", "--quiet", *peer.packages])
    mark.write_text(" ".join(peer.packages))
    return home


def _run(words: list[str]) -> None:
    try:
        found = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except FileNotFoundError:
        raise NotInstalled(f"there is no {Path(words[0]).name}") from None
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"installing took longer than {INSTALL_S:.0f} s") from None
    if found.returncode:
        raise NotInstalled(last_line(found.stdout + found.stderr))


def versions(peer: Peer, home: Path | None) -> dict[str, str]:
    """What was installed, by the package's plain name."""
    if home is None:
        from importlib.metadata import version

        return {"headrace": version("headrace")}
    names = [re.split(r"[\[<>=]", package)[0] for package in peer.packages]
    if peer.language == "JavaScript":
        files = [home / "node_modules" / name / "package.json" for name in names]
        return {name: json.loads(file.read_text())["version"] for name, file in zip(names, files, strict=True)}
    found = subprocess.run([home / "bin/python", "-c", _VERSIONS, *names], capture_output=True, text=True, check=True)
    return dict(zip(names, found.stdout.split(), strict=True))
