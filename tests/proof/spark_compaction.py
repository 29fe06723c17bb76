"""A program that compacts a history repeatedly, beside its writer, until it is killed.

python -m tests.proof.spark_compaction LOCATION
"""

import sys
import time

from headrace.pipeline.history.table import compact, read_state
from headrace.pipeline.storage import table
from tests.proof.spark_processes import say

PAUSE_S = 0.3
STEP_S = 0.5
"""How long each step is drawn out, so that many kills come between two of them."""


def reached(step: str, batch: int) -> None:
    """Say so."""
    say("step", step)
    time.sleep(STEP_S)


def main() -> None:
    """Say how each turn ended."""
    folder = sys.argv[1]
    table.crash_point = reached
    while True:
        if read_state(folder) is not None:
            compacted = compact(folder)
            say("compacted", str(compacted.files_before - compacted.files_after))
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
