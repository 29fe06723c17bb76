"""A command that runs beside the test, and is gone with the block whatever happens in it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.support import start


@contextmanager
def working(*words: str, url: str) -> Iterator["subprocess.Popen[str]"]:
    """`headrace worker` with these words."""
    with start("worker", *words, url=url) as worker:
        try:
            yield worker
        finally:
            worker.kill()  # a test that failed has not ended it, and would wait for it for ever


def until(worker: "subprocess.Popen[str]", word: str) -> str:
    """Read the log of a worker up to the line that holds a word."""
    assert worker.stderr is not None
    told = ""
    for line in worker.stderr:
        told += line
        if word in line:
            return told
    raise AssertionError(f"the log ended without {word!r}: {told}")
