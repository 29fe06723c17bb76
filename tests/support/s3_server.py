"""A real S3 server on the loopback: moto's, which keeps objects in memory and knows conditional writes."""

import http.client
import sys
from collections.abc import Sequence

from tests.support.process import Server

KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "not-a-secret-either", "AWS_REGION": "us-east-1"}


class S3Server(Server):
    """One server; buckets are made with `add_bucket`."""

    name = "s3"

    def command(self) -> Sequence[str]:
        """The command line of the server."""
        return [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(self.port)]

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            return self._request("GET", "/moto-api/") < 500
        except OSError:
            return False

    @property
    def environment(self) -> dict[str, str]:
        """The variables under which pyarrow and deltalake find it."""
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}

    def add_bucket(self, name: str) -> str:
        """Make a bucket, and give its URL."""
        assert self._request("PUT", f"/{name}") == 200
        return f"s3://{name}"

    def _request(self, method: str, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            return connection.getresponse().status
        finally:
            connection.close()
