"""Enqueue: what is taken in, merged, kept apart or refused."""

from headrace.model.job import State
from tests.support.play import Play


async def test_a_new_job_waits_with_its_counters_at_zero(play: Play) -> None:
    """Q7, T8: the first enqueue creates the job."""
    answer = await play.enqueue("a", payload=b'{"x":1}')

    found = await play.found("a")
    assert answer.status == "created"
    assert found.state is State.WAITING
    assert found.record is not None
    assert (found.record.payload, found.record.attempts, found.record.stalls) == (b'{"x":1}', 0, 0)
    assert found.record.enqueued_at_ms == found.record.run_at_ms == play.now_ms
    assert await play.history("a") == ["enqueued"]
