"""Resolve requirements/*.txt anew: exact versions for every Python and system we serve, with hashes, and no address.

uv does the resolving, in a temporary environment of its own. Nothing in the files says where a package came from, so
whoever installs them uses the index that their pip is set up for; the hashes say that it is the right package.
"""

import subprocess
import sys
from pathlib import Path

from tools.resolver import resolver

ROOT = Path(__file__).resolve().parent.parent

OPTIONS = (
    "--quiet",
    "--upgrade",
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-header",
)

# build.txt is what pip itself needs, dev.txt what the make targets need, all.txt every extra. The later ones are held
# to the versions of the earlier, so that they can be installed on top of each other.
LOCKS = (
    ("requirements/build.txt", ("requirements/build.in",)),
    (
        "requirements/dev.txt",
        (
            "pyproject.toml",
            "--extra=redis",
            "--extra=postgres",
            "--extra=spark",
            "--extra=delta",
            "--extra=connect",
            "--extra=cli",
            "--extra=metrics",
            "--extra=tracing",
            "--extra=http",
            "--extra=service",
            "--extra=dev",
            "--constraint=requirements/build.txt",
        ),
    ),
    ("requirements/all.txt", ("pyproject.toml", "--all-extras", "--constraint=requirements/dev.txt")),
)


def main() -> None:
    with resolver("lock") as uv:
        for lock, sources in LOCKS:
            print(f"lock: {lock}", flush=True)
            uv.run("pip", "compile", *OPTIONS, *sources, f"--output-file={lock}", root=ROOT)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(f"lock: a step ended with {failed.returncode}; its words are above")
