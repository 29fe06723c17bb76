"""Random bytes of ids are never repeated: in one thread, several threads, or a forked process."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from headrace.model.names import RANDOM_BYTES, random_bytes

FORKED = """
import os, sys
from headrace.model.names import random_bytes

random_bytes(10)
for _ in range(3):
    if not (child := os.fork()):
        print(random_bytes(10).hex(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(random_bytes(10).hex())
"""


def test_random_bytes_have_the_requested_length() -> None:
    assert [len(random_bytes(size)) for size in (0, 3, RANDOM_BYTES, 5_000)] == [0, 3, RANDOM_BYTES, 5_000]


def test_threads_never_draw_the_same() -> None:
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: [random_bytes(RANDOM_BYTES) for _ in range(5_000)], range(8)))

    assert len({each for some in drawn for each in some}) == 40_000


def test_a_forked_process_draws_what_its_parent_does_not() -> None:
    program = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=60)

    assert len(set(program.stdout.split())) == 4
