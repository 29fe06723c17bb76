"""Where a steady run happens: a store on a server of its own, and the process that keeps it busy."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from benchmarks import contenders
from tests.support.postgres_servers import PostgresServer
from tests.support.redis_servers import RedisServer


@contextmanager
def place(name: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store of this name, on a server of its own."""
    if name == "sqlite":
        yield contenders.sqlite(folder, "fast", "NORMAL").fresh_url()
    elif name == "redis":
        with RedisServer() as redis:
            redis.launch()
            yield contenders.redis(redis, "fast").fresh_url()
    else:
        with PostgresServer(fsync=True, settings={"max_wal_size": "2GB"}) as postgres:
            postgres.launch()
            yield contenders.postgres(postgres).fresh_url()


@asynccontextmanager
async def load(url: str, rate: int, latencies: list[float]) -> AsyncIterator[asyncio.subprocess.Process]:
    """The store at work beside the block; what the probes take is added to `latencies`."""
    words = [sys.executable, "-m", "benchmarks.steady_load", url, str(rate)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, env={**os.environ})

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            latencies.append(float(line))  # noqa: PERF401 - each is to be seen as soon as it is there

    reading = asyncio.create_task(read())
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await reading
        if await process.wait():
            raise RuntimeError("the load has failed; what it said stands above")
