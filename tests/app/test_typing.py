"""Types: the jobs of a function have its parameters and its result. mypy reads this file with `make check`.

Every line that says `type: ignore` is an error that mypy must find: one that it does not find is an error as well.
"""

from typing import assert_type

import pytest

from headrace import App, Handle, Job, Refused
from headrace.app.job_function import AsyncJobFunction, BlockingSender, PlainJobFunction
from headrace.client.blocking import BlockingHandle

app = App("memory://")


@app.job
async def bare(user_id: int, *, note: str = "") -> list[str]:
    """Decorated without brackets."""
    return [note] * user_id


@app.job(queue="mail", timeout="30s")
def plain(user_id: int) -> float:
    """Decorated with settings."""
    return user_id / 2


@app.fail_handler(queue="mail")
def bury(id: str, payload: object, error: dict[str, str]) -> int:
    """Stays what it is."""
    return len(id)


async def test_what_is_typed_right_is_taken() -> None:
    assert_type(plain(1), float)
    assert_type(await bare(1, note="x"), list[str])
    assert_type(await bare.enqueue(1), Handle[list[str]])
    assert_type(await bare.options(delay="1h").enqueue(user_id=1, note="n"), Handle[list[str]])
    assert_type(await bare.enqueue_many([bare.job(1), {"user_id": 2}]), list[Handle[list[str]]])
    assert_type(bare.job(1), Job)
    assert_type(bury("a", None, {}), int)
    assert isinstance(bare, AsyncJobFunction)
    assert isinstance(plain, PlainJobFunction)

    handle = await plain.enqueue(3)
    await app.work(until_idle=True, capacity=3)
    assert_type(await handle.result(), float)
    assert await handle.result() == 1.5


async def test_what_is_typed_wrong_is_found_by_mypy_and_refused_at_run_time() -> None:
    refused = pytest.raises(Refused, match="wrong arguments for")

    with refused:
        bare.job()  # type: ignore[call-arg]
    with refused:
        bare.job("one")  # type: ignore[arg-type]
    with refused:
        bare.job(1, "by place")  # type: ignore[call-arg]
    with refused:
        bare.job(1, note=2)  # type: ignore[arg-type]
    with refused:
        bare.options(id="a").job(1, nota="x")  # type: ignore[call-arg]
    with refused:
        plain.blocking.job(user="x")  # type: ignore[call-arg]
    with refused:
        await bare.enqueue(user_id=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="delya"):
        bare.options(delya="1h")  # type: ignore[call-arg]


def blocking_results(sender: BlockingSender[[int], float]) -> BlockingHandle[float]:
    """Never called: only mypy reads it."""
    sender.enqueue("x")  # type: ignore[arg-type]
    return sender.enqueue(3)
