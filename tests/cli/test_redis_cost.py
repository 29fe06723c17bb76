"""What commands that go through all jobs cost a Redis server: calls in proportion to the jobs."""

import pytest

from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from tests.cli.support import run, with_store
from tests.support.redis_servers import RedisServer
from tests.support.server_cleanup import flush
from tests.support.servers import PASSWORD, USER, redis_server

MAIL = Queue("mail")


def calls_among(server: RedisServer, count: int, arguments: list[str]) -> int:
    """How many functions a command calls among this many waiting jobs, all of which it must see."""

    async def fill(store: Store) -> None:
        for start in range(0, count, 1_000):
            ids = [f"job-{number * 7_919 % count:06}" for number in range(start, start + 1_000)]
            await store.jobs.enqueue([Job(queue=MAIL, id=id, kind="send", payload=b"1") for id in ids])

    flush([server])
    url = server.url_of(USER, PASSWORD)
    with_store(url, fill)
    server.ask("CONFIG", "RESETSTAT")
    ran = run("jobs", *arguments, "--json", url=url)
    stats = server.ask("INFO", "commandstats")
    assert ran.document["looked"] == count
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("fcall", "fcall_ro"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "nothing", "--scan-max", "1000000"],
        ["cancel", "--kind", "send", "--yes"],
        ["remove", "--all", "--yes"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_calls_of_a_command_grow_with_the_jobs_and_not_with_their_square(arguments: list[str]) -> None:
    few = calls_among(redis_server(), 4_000, arguments)
    many = calls_among(redis_server(), 16_000, arguments)

    assert many <= 5 * few
