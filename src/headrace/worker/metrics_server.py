"""A small HTTP server beside a worker: its metrics and its health, for whoever watches from outside."""

import logging
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Self

import msgspec

from headrace.model.errors import BadConfig
from headrace.model.limits import SCRAPE_SECONDS_MAX
from headrace.worker.health import ProcessesHealth, WorkerHealth

CLOSE_SECONDS = 0.1
"""How often the server looks whether it is to close."""
LOG = logging.getLogger("headrace.worker")
Page = Callable[[str], tuple[bytes, str]]
"""Takes what the caller accepts; answers a body and its type."""
Health = Callable[[], WorkerHealth | ProcessesHealth]


class MetricsServer:
    """Answers on threads of its own until `close`, or the end of a `with` block."""

    def __init__(self, host: str, port: int, page: Page, health: Health | None) -> None:
        try:
            self._server = _Server((host, port), _handler(page, health))
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "ports go from 0 to 65535"
            raise BadConfig(
                f"metrics cannot be served on {host}:{port} ({why}); choose another port, or 0 for any that is free"
            ) from error
        self.host = host
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CLOSE_SECONDS,), name="headrace-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more; twice is fine."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # Not that of HTTPServer, which asks the name service who we are, and may wait long for the answer.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - its signature is given
        LOG.debug("an answer to %s failed", client_address, exc_info=True)  # noqa: LOG014 - called by a handler of exceptions


def _handler(page: Page, health: Health | None) -> type[BaseHTTPRequestHandler]:
    class RequestHandler(BaseHTTPRequestHandler):
        timeout = SCRAPE_SECONDS_MAX
        server_version = "headrace"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                body, content_type = page(self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, body, content_type)
            elif path == "/health" and health is not None:
                found = health()
                status = HTTPStatus.OK if found.ok else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, msgspec.json.encode(found), "application/json")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"here are /metrics and /health\n", "text/plain; charset=utf-8")

        do_HEAD = do_GET  # noqa: N815 - its name is given; some probes ask for no body

        def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its signature is given
            LOG.debug("asked: " + format, *args)  # noqa: G003 - its texts are formats

    return RequestHandler
