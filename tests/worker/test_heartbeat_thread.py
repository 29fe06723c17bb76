"""The heartbeat thread lives as long as the loop of its worker, and no longer."""

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
from headrace.worker.events import ActiveDelivery
from headrace.worker.heartbeat import Heartbeat, ThreadHeartbeat
from tests.support.process import wait_until
from tests.worker.support import MAIL, job

HOUR = 3_600.0


class HeartbeatThread:
    """A heartbeat thread that extends one lease, beside a loop that the test runs."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.failures: list[BaseException] = []
        self.lost: list[str] = []
        self._url = f"sqlite:///{folder}/jobs.db"
        self.delivery = self.loop.run_until_complete(self._begin())
        [self.os_thread] = [each for each in threading.enumerate() if each.name == "headrace-heartbeat"]

    async def _begin(self) -> ActiveDelivery:
        store = await self._open()
        await store.jobs.enqueue([job("a")])
        request = ClaimRequest(queues=[MAIL], worker="worker-1", nonce="0123456789ab", lease_ms=60_000)
        [claim] = (await store.jobs.claim(request)).items
        await store.close()
        delivery = ActiveDelivery(1, claim, None, self.loop.time() + HOUR)
        heartbeat = Heartbeat({1: delivery}, 60_000, 20, self._report, random.Random(1))
        self.heartbeat = heartbeat
        self.runner = ThreadHeartbeat(heartbeat, self._open, self.failures.append, random.Random(1))
        self.runner.start()
        return delivery

    async def _open(self) -> Store:
        return await open_store(self._url)

    def _report(self, lost: Sequence[tuple[ActiveDelivery, str]], _: Sequence[ActiveDelivery]) -> None:
        self.lost += [why for _, why in lost]

    def wait_for_heartbeats(self, times: int) -> None:
        """Wait for so many more heartbeats."""
        for _ in range(times):
            before = self.heartbeat.extended_at
            wait_until(lambda before=before: self.heartbeat.extended_at != before, "a heartbeat")  # type: ignore[misc]


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeartbeatThread]:
    monkeypatch.setattr(heartbeat, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(heartbeat, "STOPPED_CHECKS_MAX", 10**9)
    thread = HeartbeatThread(tmp_path)
    yield thread
    if not thread.loop.is_closed():
        thread.loop.run_until_complete(thread.runner.stop())
        thread.loop.close()


def test_a_heartbeat_ends_with_the_loop_of_its_worker_and_gives_up_its_leases(thread: HeartbeatThread) -> None:
    """T28: a worker that was dropped without `stop` keeps no lease."""
    thread.loop.close()

    thread.os_thread.join(10)

    assert not thread.os_thread.is_alive()
    assert thread.delivery.is_lost
    assert thread.lost == ["its lease could not be extended in time"]


def test_a_heartbeat_ends_when_the_loop_of_its_worker_is_stopped_and_fails_the_worker(
    thread: HeartbeatThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "STOPPED_CHECKS_MAX", 2)

    thread.os_thread.join(10)

    assert not thread.os_thread.is_alive()
    assert thread.delivery.is_lost
    [failure] = thread.failures
    assert isinstance(failure, Refused)
    assert "keep the loop of a worker running" in str(failure)


def test_a_heartbeat_goes_on_while_a_handler_blocks_the_loop(
    thread: HeartbeatThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T28, T32: a loop that is blocked runs."""

    async def block() -> tuple[bool, bool]:
        monkeypatch.setattr(heartbeat, "STOPPED_CHECKS_MAX", 1)
        thread.wait_for_heartbeats(10)
        return thread.os_thread.is_alive(), thread.delivery.is_lost

    is_alive, is_lost = thread.loop.run_until_complete(block())

    assert is_alive
    assert not is_lost
