"""The app: one job that asks the register for a company, politely and with patience.

`headrace worker app:app` runs it on workers of your own, enrich.py on Spark's executors. ENRICH_SERVICE says where the
register is, ENRICH_RATE how many questions a second each worker may ask.
"""

import json
import os
import random
import threading
import time
from functools import cache
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple

from headrace import App, Fail, Release, Retry

PATIENCE_S = 2.0
"""The register answers within a tenth of a second, or not at all."""

app = App(queue="enrich")


class RegisterClosed(Exception):
    """A country's register does not answer; it will, some day."""


class RegisterBusy(Exception):
    """Any other trouble of the register's own."""


class BadDomain(Exception):
    """The row is wrong: asking again does not help."""


class Pace:
    """So many a second for all threads of a worker: each takes its turn, and nobody asks while the worker rests."""

    def __init__(self, rate: float) -> None:
        self._gap_s = 1 / rate
        self._free_at = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Until it is our turn."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._free_at)
            self._free_at = turn + self._gap_s
        time.sleep(turn - now)

    def rest(self, seconds: float) -> None:
        """No turn before that."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() + seconds)


class Answer(NamedTuple):
    """What the register said."""

    status: int
    said: dict[str, Any]
    retry_after_s: float


class Register(threading.local):
    """The register as one thread sees it: a connection that it keeps."""

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address.removeprefix("http://"), timeout=PATIENCE_S)

    def get(self, path: str) -> Answer:
        """Ask once. After any trouble the connection is closed, and the next question makes a new one."""
        try:
            self._connection.request("GET", path)
            found = self._connection.getresponse()
            return Answer(found.status, json.loads(found.read()), float(found.getheader("Retry-After", "1")))
        except (OSError, HTTPException):
            self._connection.close()
            raise


@cache
def register() -> Register:
    """The one of this process."""
    return Register(os.environ.get("ENRICH_SERVICE", "http://127.0.0.1:8099"))


@cache
def pace() -> Pace:
    """The one of this process."""
    return Pace(float(os.environ.get("ENRICH_RATE", "500")))


@app.job(timeout="20s", max_attempts=5, backoff="200ms", backoff_max="2s")
def enrich(customer_id: int, domain: str, country: str) -> dict[str, Any]:
    """What the register knows of a customer's company."""
    pace().wait()
    try:
        status, said, retry_after_s = register().get(f"/companies/{country}/{domain}")
    except (OSError, HTTPException) as error:
        raise Retry(f"no answer within {PATIENCE_S:g} s") from error  # kept under the class of the error
    if status == 200:
        return {"customer_id": customer_id, **said}
    if status == 429:
        # Not the row's fault, so no attempt is counted. All of this worker rest, and they do not come back at once.
        pace().rest(retry_after_s)
        raise Release(delay=retry_after_s * random.uniform(1, 2))
    if status < 500:
        raise Fail(said["detail"]) from BadDomain()
    raise Retry(said["detail"]) from (RegisterClosed() if said.get("code") == "closed" else RegisterBusy())
