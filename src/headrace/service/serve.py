"""Serves the application with uvicorn: guarded connections, metrics on an address of their own, an orderly end."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httptools  # noqa: F401 - without it uvicorn would take a parser that costs four times as much
import uvicorn
from msgspec import Struct

from headrace.model.limits import DRAIN_S, KEEP_ALIVE_S
from headrace.service.app import Service
from headrace.service.guard import GuardedProtocol
from headrace.service.metrics import metrics_text
from headrace.service.systemd import notify_systemd


class ListenAddress(Struct, frozen=True):
    """Where to listen; port 0 takes a free one. With a certificate, TLS."""

    host: str = "127.0.0.1"
    port: int = 8080
    tls_cert: str | None = None
    tls_key: str | None = None


class ServiceServer(uvicorn.Server):
    """uvicorn with our settings; a signal ends waits and streams, and then the server."""

    def __init__(
        self, app: Any, address: ListenAddress, on_exit: Callable[[], None], *, is_guarded: bool = True
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=address.host,
                port=address.port,
                http=GuardedProtocol if is_guarded else "httptools",
                ws="none",
                lifespan="on" if is_guarded else "off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=DRAIN_S,
                ssl_certfile=address.tls_cert,
                ssl_keyfile=address.tls_key,
            )
        )
        self._on_exit = on_exit
        self.ready = asyncio.Event()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port

    async def startup(self, sockets: Any = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        self.ready.set()

    def stop(self) -> None:
        """End: waits and streams first, then connections. A second call ends at once."""
        self._on_exit()
        notify_systemd("STOPPING=1")
        self.force_exit = self.should_exit
        self.should_exit = True

    async def serve_until_stopped(self) -> None:
        """Serve until `stop`. Not `serve`, which takes the signals of the process, and raises them again at the end."""
        await self._serve()


async def serve(
    service: Service,
    address: ListenAddress,
    *,
    metrics: ListenAddress | None = None,
    on_ready: Callable[[int], None] | None = None,
) -> None:
    """Serve until a signal; `on_ready` is called with the port."""
    server = ServiceServer(service, address, service.shutdown.begin)
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, server.stop)
    saying = loop.create_task(_say_ready(server, on_ready))
    try:
        async with _metrics_server(service, metrics):
            await server.serve_until_stopped()
    finally:
        saying.cancel()


@asynccontextmanager
async def _metrics_server(service: Service, address: ListenAddress | None) -> AsyncIterator[None]:
    if address is None:
        yield
        return
    server = ServiceServer(_metrics_app(service), address, lambda: None, is_guarded=False)
    running = asyncio.get_running_loop().create_task(server.serve_until_stopped())
    try:
        yield
    finally:
        server.stop()
        await running


async def _say_ready(server: ServiceServer, on_ready: Callable[[int], None] | None) -> None:
    await server.ready.wait()
    if on_ready is not None and server.started:
        on_ready(server.port)
    notify_systemd("READY=1")


def _metrics_app(service: Service) -> Callable[[Any, Any, Any], Awaitable[None]]:
    async def app(scope: Any, _receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        found = scope["path"] == "/metrics" and scope["method"] in ("GET", "HEAD")
        if found:
            await service.queue_metrics.refresh()
        body = metrics_text(service).encode() if found else b""
        headers = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200 if found else 404, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return app
