"""The log of a worker that runs beside a test."""

import subprocess


def until(worker: "subprocess.Popen[str]", word: str) -> str:
    """Read the log of a worker up to the line that holds a word."""
    assert worker.stderr is not None
    told = ""
    for line in worker.stderr:
        told += line
        if word in line:
            return told
    raise AssertionError(f"the log ended without {word!r}: {told}")
