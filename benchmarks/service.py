"""Measures the HTTP service: the processor time of its process for a request beside a bare uvicorn, and waiting claims.

python -m benchmarks.service [--quick] [--json]
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import redis
import uvloop

from headrace.service.keys import AuthKey, new_key, write_key
from headrace.service.tokens import AUDIENCE, ISSUER, sign_token
from tests.support.redis_servers import RedisServer

CONNECTIONS = (64, 16, 1)
ROUNDS = 5
REQUESTS = 8_000
BATCH = 100
TENANTS, POLLS_PER_TENANT = 12, 250
PAYLOAD = {"user": 42, "text": "x" * 70}


class Place(NamedTuple):
    """A server that is measured."""

    name: str
    port: int
    token: str
    pid: int

    @property
    def cpu_s(self) -> float:
        """The processor time that its threads have used."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    @property
    def memory_kib(self) -> int:
        """The memory that its process holds."""
        line = next(x for x in Path(f"/proc/{self.pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
        return int(line.split()[1])

    def request(self, path: str, body: object, token: str | None = None) -> bytes:
        """The bytes of a POST."""
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token or self.token}\r\n"
        return f"{head}content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


class Connection:
    """A connection that is kept: a request, then its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, place: Place) -> "Connection":
        """A connection to a server."""
        return cls(*await asyncio.open_connection("127.0.0.1", place.port))

    async def send(self, request: bytes) -> None:
        """Send a request, without waiting for the answer."""
        self._writer.write(request)
        await self._writer.drain()

    async def answer(self) -> bytes:
        """The body of the next answer; raises for one that is no success."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if not head.startswith(b"http/1.1 2"):
            raise RuntimeError(body.decode())
        return body

    async def call(self, request: bytes) -> bytes:
        """Send a request and return the body of its answer."""
        await self.send(request)
        return await self.answer()

    def close(self) -> None:
        """Close it."""
        self._writer.close()


@contextmanager
def started(name: str, command: list[str], read: Callable[[str], int], token: str) -> Iterator[Place]:
    """A server in a process of its own, ready."""
    command = [sys.executable, *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield Place(name, read(process.stdout.readline()), token, process.pid)
        finally:
            process.terminate()


def service(name: str, url: str, key: str, token: str) -> AbstractContextManager[Place]:
    """The service on a store; rates are off, so that nothing but the work is measured."""
    words = ["-m", "headrace.cli.main", "serve", "--url", url, "--port", "0", "--json", "--key", key, "--no-rates"]
    return started(name, words, lambda line: int(json.loads(line)["url"].rpartition(":")[2]), token)


async def enqueues(place: Place, connections: int, requests: int) -> float:
    """Microseconds of the server's processor time for a single enqueue."""
    request = place.request("/v1/jobs", {"queue": "mail", "kind": "work", "payload": PAYLOAD})
    lines = [await Connection.open(place) for _ in range(connections)]

    async def send(line: Connection) -> None:
        for _ in range(requests // connections):
            await line.call(request)

    await asyncio.gather(*(line.call(request) for line in lines))
    before = place.cpu_s
    await asyncio.gather(*map(send, lines))
    spent = place.cpu_s - before
    for line in lines:
        line.close()
    return spent / (requests // connections * connections) * 1e6


async def cycle(place: Place, jobs: int) -> float:
    """Microseconds of the server's processor time for a job that is enqueued, claimed and settled in batches."""
    line = await Connection.open(place)
    batch = place.request("/v1/jobs/batch", {"jobs": [{"queue": "cycle", "kind": "work", "payload": PAYLOAD}] * BATCH})
    before = place.cpu_s
    for _ in range(jobs // BATCH):
        await line.call(batch)
        body = {"queues": ["cycle"], "limit": BATCH}
        claims = json.loads(await line.call(place.request("/v1/claims", body)))["claims"]
        settlements = [
            {"queue": "cycle", "id": each["id"], "token": each["token"], "outcome": "done"} for each in claims
        ]
        await line.call(place.request("/v1/leases/settle", {"settlements": settlements}))
        assert len(claims) == BATCH
    spent = place.cpu_s - before
    line.close()
    return spent / jobs * 1e6


async def polls(place: Place, server: RedisServer, tokens: list[str], number: int) -> dict[str, float]:
    """Claims of several tenants that wait on a queue each: memory for each, and what one enqueue costs."""
    lines = [(token, await Connection.open(place)) for token in tokens for _ in range(number)]
    before = place.memory_kib
    for token, line in lines:
        await line.send(place.request("/v1/claims", {"queues": ["parked"], "wait_ms": 30_000}, token))
    answers = [asyncio.ensure_future(line.answer()) for _, line in lines]
    other = await Connection.open(place)
    await asyncio.sleep(3)
    memory = (place.memory_kib - before) / len(lines)
    with redis.Redis(port=server.port) as info:
        calls = _calls(info)
        started_s = time.perf_counter()
        await other.call(place.request("/v1/jobs", {"queue": "parked", "kind": "work"}, tokens[0]))
        done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        waited_ms = (time.perf_counter() - started_s) * 1e3
        await asyncio.sleep(1)
        asked = _calls(info) - calls
    assert len(json.loads(next(iter(done)).result())["claims"]) == 1
    for answer in answers:
        answer.cancel()
    for _, line in [*lines, ("", other)]:
        line.close()
    return {"waiting": len(lines), "kib_each": memory, "answered_ms": waited_ms, "store_calls": asked}


def _calls(server: "redis.Redis") -> int:
    """Functions that the server has run."""
    stats = server.info("commandstats")
    return sum(found["calls"] for name, found in stats.items() if name.startswith("cmdstat_fcall"))


def _token(key: AuthKey, tenant: str) -> str:
    now_s = int(time.time())
    scopes = "enqueue claim read"
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "bench", "tid": tenant, "scope": scopes, "iat": now_s}
    return sign_token(key, {**claims, "exp": now_s + 3_600})


async def measure(quick: bool, say: Callable[[str], None]) -> dict[str, object]:
    """Everything: requests in rounds in which the servers take turns."""
    rounds, requests = (1, REQUESTS // 10) if quick else (ROUNDS, REQUESTS)
    key = new_key("bench")
    tokens = [_token(key, f"tenant-{n}") for n in range(TENANTS)]
    with ExitStack() as stack:
        file = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "key.jwk")
        write_key(key, file)
        server = stack.enter_context(RedisServer())
        server.launch()
        hello = stack.enter_context(started("bare", ["-m", "benchmarks.bare_http"], int, tokens[0]))
        on_redis = stack.enter_context(service("redis", f"{server.url}?profile=fast", file, tokens[0]))
        in_memory = stack.enter_context(service("memory", "memory://", file, tokens[0]))
        places = [hello, in_memory, on_redis]
        found: dict[int, dict[str, list[float]]] = {n: {each.name: [] for each in places} for n in CONNECTIONS}
        for number in range(rounds):
            for connections in CONNECTIONS:
                for place in places:
                    say(f"round {number + 1}: {connections} connections, {place.name}")
                    share = requests if connections > 1 else requests // 4
                    found[connections][place.name].append(await enqueues(place, connections, share))
        say("batches of 100")
        cycles = {each.name: median([await cycle(each, requests) for _ in range(rounds)]) for each in places[1:]}
        say("waiting claims")
        parked = await polls(on_redis, server, tokens, POLLS_PER_TENANT // 10 if quick else POLLS_PER_TENANT)
    singles = {n: {name: median(each) for name, each in found[n].items()} for n in CONNECTIONS}
    shares = {
        n: {name: median(b / o for b, o in zip(found[n]["bare"], each, strict=True)) for name, each in found[n].items()}
        for n in CONNECTIONS
    }
    return {"enqueue_us": singles, "bare_share": shares, "cycle_us_per_job": cycles, "waiting_claims": parked}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one round")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (16_384, max(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 16_384)))

    def say(text: str) -> None:
        if not options.json:
            print(f"  {text}", flush=True)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(measure(options.quick, say))
    print(json.dumps(figures, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
