"""Promises of the beat: a heart on a thread lives as long as its worker's loop, and not an instant for nobody."""

import asyncio
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.errors import Refused
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.worker import heartbeat
from headrace.worker.delivery import Delivery
from headrace.worker.heartbeat import Heartbeat, ThreadHeartbeat
from tests.support.process import wait_until
from tests.worker.support import MAIL, job

HOUR = 3_600.0


class Beating:
    """A heart on a thread that holds one lease, on a loop that runs when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.failures: list[BaseException] = []
        self.lost: list[str] = []
        self._url = f"sqlite:///{folder}/jobs.db"
        self.run = self.loop.run_until_complete(self._begin())
        [self.thread] = [each for each in threading.enumerate() if each.name == "headrace-heart"]

    async def _begin(self) -> Delivery:
        store = await self._open()
        await store.jobs.enqueue([job("a")])
        request = ClaimRequest(queues=[MAIL], worker="worker-1", nonce="0123456789ab", lease_ms=60_000)
        [claim] = (await store.jobs.claim(request)).items
        await store.close()
        run = Delivery(1, claim, None, self.loop.time() + HOUR)
        heart = Heartbeat({1: run}, 60_000, 20, self._report, random.Random(1))
        self.heart = heart
        self.beat = ThreadHeartbeat(heart, self._open, self.failures.append, random.Random(1))
        self.beat.start()
        return run

    async def _open(self) -> Store:
        return await open_store(self._url)

    def _report(self, lost: Sequence[tuple[Delivery, str]], _: Sequence[Delivery]) -> None:
        self.lost += [why for _, why in lost]

    def beats(self, times: int) -> None:
        """Wait until it has beaten so often from now on."""
        for _ in range(times):
            before = self.heart.extended_at
            wait_until(lambda before=before: self.heart.extended_at != before, "a beat")  # type: ignore[misc]


@pytest.fixture
def beating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beating]:
    monkeypatch.setattr(heartbeat, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(heartbeat, "STOPPED_CHECKS_MAX", 10**9)
    beating = Beating(tmp_path)
    yield beating
    if not beating.loop.is_closed():
        beating.loop.run_until_complete(beating.beat.stop())
        beating.loop.close()


def test_a_heart_ends_with_the_loop_of_its_worker_and_lets_go_of_what_it_held(beating: Beating) -> None:
    """T28: a worker that was left without its end keeps no lease."""
    beating.loop.close()

    beating.thread.join(10)

    assert not beating.thread.is_alive()
    assert beating.run.is_lost
    assert beating.lost == ["its lease could not be extended in time"]


def test_a_heart_ends_when_the_loop_of_its_worker_stands_still_and_says_so_to_who_goes_on(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "STOPPED_CHECKS_MAX", 2)

    beating.thread.join(10)

    assert not beating.thread.is_alive()
    assert beating.run.is_lost
    [failure] = beating.failures
    assert isinstance(failure, Refused)
    assert "keep the loop of a worker running" in str(failure)


def test_a_heart_goes_on_beating_while_a_handler_blocks_the_loop(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T28, T32: a loop that is blocked runs."""

    async def block() -> tuple[bool, bool]:
        monkeypatch.setattr(heartbeat, "STOPPED_CHECKS_MAX", 1)
        beating.beats(10)
        return beating.thread.is_alive(), beating.run.is_lost

    is_alive, is_lost = beating.loop.run_until_complete(block())

    assert is_alive
    assert not is_lost
