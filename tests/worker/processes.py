"""Handlers that run in processes of their own."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from headrace.worker.context import current


def name() -> str:
    """Tell the id of the job."""
    return current().job.id


def raises() -> NoReturn:
    """Fail."""
    raise ValueError("no")


def exits() -> NoReturn:
    """Try to end the program."""
    sys.exit(3)


def dies() -> NoReturn:
    """End the process at once."""
    os._exit(3)


def hangs(path: str) -> NoReturn:
    """Say that it runs, and go on for ever."""
    Path(path).write_text(str(os.getpid()))
    while True:
        pass
