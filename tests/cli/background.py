"""The log of a worker that runs beside a test."""

import subprocess


def until(worker: "subprocess.Popen[str]", word: str) -> str:
    """Read the log of a worker up to the line that holds a word."""
    assert worker.stderr is not None
    text = ""
    for line in worker.stderr:
        text += line
        if word in line:
            return text
    raise AssertionError(f"the log ended without {word!r}: {text}")
