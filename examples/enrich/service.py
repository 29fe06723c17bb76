"""A register of companies to ask over HTTP, as such services are: slow, flaky, and strict about how often one asks.

    python service.py [--port 8099] [--rate 800]

GET  /companies/NO/mill.example    what is known of a company, by country and domain
GET  /figures                      how often it has answered what
POST /registers/NO/open            a country's register is back; …/close closes it
"""

import argparse
import asyncio
import json
import random
import zlib
from asyncio import StreamReader, StreamWriter
from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple

LATENCY_S = 0.02, 0.08
"""From the quickest to the slowest answer."""
BUSY_SHARE = 0.02
"""Of the questions, those that are answered with 503 for no reason."""
SILENT_SHARE = 0.002
"""Of the questions, those that are not answered before the one who asked has gone."""
SILENCE_S = 30.0
INDUSTRIES = ("farming", "logistics", "software", "timber", "tourism")


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    body: dict[str, Any]
    retry_after_s: int | None = None


class Register:
    """Answers questions, so many a second; the registers of some countries may be closed."""

    def __init__(self, rate: float, closed: set[str], chance: random.Random) -> None:
        self.figures: Counter[int] = Counter()
        self._rate = rate
        self._closed = closed
        self._chance = chance
        self._left, self._filled_at = rate, 0.0

    async def answer(self, method: str, path: str) -> Answer:
        """The answer to one request, in its own time."""
        match method, path.strip("/").split("/"):
            case "GET", ["companies", country, domain]:
                found = await self._company(country, domain)
                self.figures[found.status] += 1
                return found
            case "GET", ["figures"]:
                return Answer(200, {str(status): count for status, count in sorted(self.figures.items())})
            case "POST", ["registers", country, "open" | "close" as what]:
                (self._closed.discard if what == "open" else self._closed.add)(country)
                return Answer(200, {"closed": sorted(self._closed)})
            case _:
                return Answer(404, {"detail": f"there is nothing at {path}"})

    async def _company(self, country: str, domain: str) -> Answer:
        if not self._is_within_rate():
            return Answer(429, {"detail": f"at most {self._rate:g} questions a second"}, retry_after_s=1)
        if country in self._closed:
            return Answer(503, {"detail": f"the register of {country} is closed", "code": "closed"})
        if self._chance.random() < SILENT_SHARE:
            await asyncio.sleep(SILENCE_S)
        await asyncio.sleep(self._chance.uniform(*LATENCY_S))
        if self._chance.random() < BUSY_SHARE:
            return Answer(503, {"detail": "too busy", "code": "busy"})
        if "." not in domain:
            return Answer(422, {"detail": f"{domain!r} is no domain"})
        # Always the same of the same company.
        number = zlib.crc32(f"{country}/{domain}".encode())
        name = domain.partition(".")[0].capitalize()
        return Answer(
            200, {"company": f"{name} Ltd", "industry": INDUSTRIES[number % 5], "employees": number // 5 % 5_000 + 1}
        )

    def _is_within_rate(self) -> bool:
        """A bucket that holds a second's worth of questions."""
        now = asyncio.get_running_loop().time()
        self._left = min(self._rate, self._left + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection, for as long as the other side keeps it."""
        try:
            while request := (await reader.readline()).decode().split():
                length = 0
                while line := (await reader.readline()).strip().lower():
                    if line.startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                await reader.readexactly(length)
                writer.write(_packed(await self.answer(request[0], request[1])))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # gone, as those do who have waited long enough
        finally:
            writer.close()


def _packed(answer: Answer) -> bytes:
    body = json.dumps(answer.body).encode()
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if answer.retry_after_s is not None:
        lines.append(f"Retry-After: {answer.retry_after_s}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=8099, help="0 takes a free one (default 8099)")
    parser.add_argument("--rate", type=float, default=800, help="questions a second that are answered (default 800)")
    parser.add_argument("--closed", default="NO", help="countries whose registers are closed (default NO)")
    options = parser.parse_args()
    register = Register(options.rate, set(filter(None, options.closed.split(","))), random.Random(1))
    server = await asyncio.start_server(register.serve, "127.0.0.1", options.port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
