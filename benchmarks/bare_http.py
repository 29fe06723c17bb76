"""Answers every request with a few bytes: what uvicorn itself costs. python -m benchmarks.bare_http prints its port."""

import asyncio
from typing import Any

import httptools  # noqa: F401 - uvicorn must not take its slower parser
import uvicorn
import uvloop

BODY = b'{"id":"x"}'


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Read the body, answer 200."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


async def main() -> None:
    """Serve until the process is stopped."""
    config = uvicorn.Config(app, port=0, http="httptools", lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await serving


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
