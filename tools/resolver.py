"""Runs uv, which resolves versions as pip cannot, from a temporary environment of its own."""

import os
import subprocess
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Resolver(NamedTuple):
    """uv, with the certificates that pip is told to use."""

    program: Path
    env: dict[str, str]

    def run(self, *arguments: str, root: Path) -> None:
        """Run a command of uv in a tree; raises `CalledProcessError` when it fails."""
        subprocess.run([self.program, *arguments], cwd=root, env=self.env, check=True)


@contextmanager
def resolver(who: str) -> Iterator[Resolver]:
    """uv, as long as the block lasts; `who` asks for it is said."""
    with tempfile.TemporaryDirectory(prefix=f"headrace-{who}-") as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder) / "bin"
        print(f"{who}: installing uv in a temporary environment", flush=True)
        subprocess.run([programs / "pip", "install", "--quiet", "uv"], check=True)
        env = dict(os.environ)
        if "PIP_CERT" in env:  # uv does not read pip's settings, and needs the same certificates
            env.setdefault("SSL_CERT_FILE", env["PIP_CERT"])
        yield Resolver(programs / "uv", env)
