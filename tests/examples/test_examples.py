"""Every program in examples/ runs, and says what it is meant to show."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres_servers import PostgresServer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *arguments: str) -> list[str]:
    """The lines that an example prints."""
    finished = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments], capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout.splitlines()


FIRST_JOB = """\
sqlite, durable: what was answered survives the end of the process, a crash of the system and a power cut
enqueue  welcome/ann  created
enqueue  welcome/bob  created
enqueue  welcome/cy   created
enqueue  digest       created
settle   welcome/ann  done
settle   welcome/bob  done
settle   welcome/cy   retried
result   welcome/ann  "sent to ann@example.org"
counts   waiting 2, 2 of them later; active 0; done 2
journal
    1  enqueued  welcome/ann
    2  enqueued  welcome/bob
    3  enqueued  welcome/cy
    4  enqueued  digest
    5  claimed   welcome/ann  worker-1
    6  claimed   welcome/bob  worker-1
    7  claimed   welcome/cy   worker-1
    8  done      welcome/ann  worker-1
    9  done      welcome/bob  worker-1
   10  retried   welcome/cy   worker-1
"""
RETRIES = """\
three attempts, and the backoff doubles:
    0 s  sync/7 retried, again at 2 s
    2 s  sync/7 retried, again at 6 s
    6 s  sync/7 dead

the dead letter:
  number 1: sync/7, reason attempts, 3 attempts
  Timeout: the CRM did not answer

the fail handler, on the companion queue:
  sync/7#1 tells of sync/7 with {'customer': 7}: the CRM did not answer (attempts)

the CRM is back, so the letter is replayed:
  sync/7 replayed
    6 s  sync/7 done
  done 1, dead 0
"""
SINGLETONS = """\
while it waits, the last one wins:
  enqueue draft 1  created
  enqueue draft 2  updated
  claim   draft 2
while it runs, the next one waits behind it:
  enqueue draft 3  blocked
  claim   nothing
  claim   draft 3
a retry takes up what was enqueued meanwhile:
  enqueue draft 4  blocked
  settle  retried, due in 1000 ms
  claim   draft 4
debounced: each edit moves it later, one second after the last it runs once:
  enqueue edit 1   created
  enqueue edit 2   updated
  enqueue edit 3   updated
  claim   nothing
  claim   edit 3
with a key, asking twice is noticed, also when the work is done:
  enqueue order 7  created
  claim   order 7
  enqueue order 7  duplicate
  enqueue order 8  conflict
"""
OWN_TRANSACTION = """\
order 2 was not placed: nobody pays less than nothing
orders: 1
receipts to send: 1
"""
OUTPUTS = {"first_job.py": FIRST_JOB, "retries_and_dead_letters.py": RETRIES, "singletons.py": SINGLETONS}


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_an_example_prints_what_it_is_meant_to_show(name: str) -> None:
    assert run(name) == OUTPUTS[name].splitlines()


def test_a_job_of_ones_own_transaction_comes_and_goes_with_it() -> None:
    with PostgresServer(fsync=True) as server:
        server.launch()

        assert run("own_transaction.py", server.url) == OWN_TRANSACTION.splitlines()


def test_every_example_is_run() -> None:
    assert sorted(file.name for file in EXAMPLES.glob("*.py")) == sorted([*OUTPUTS, "own_transaction.py"])


def test_a_second_run_of_the_first_job_finds_what_the_first_left(tmp_path: Path) -> None:
    path = tmp_path / "jobs & more?.db"
    run("first_job.py", str(path))

    lines = run("first_job.py", str(path))

    assert path.exists()
    assert "enqueue  welcome/ann  created" in lines
    assert "enqueue  welcome/cy   updated" in lines
    assert "enqueue  digest       updated" in lines
    assert "   14  updated   digest" in lines
