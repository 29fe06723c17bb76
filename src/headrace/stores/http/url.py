"""Reads the URL of a service and the token for it."""

import os
from pathlib import Path
from urllib.parse import SplitResult

from msgspec import Struct

from headrace.model.errors import BadConfig, StoreUnavailable
from headrace.model.times import duration_ms
from headrace.model.validate import bounded_repr, check_path, shown_path

VARIABLE = "HEADRACE_TOKEN"
_OPTIONS = ("token_file", "connections", "ca", "timeout", "insecure")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class HttpOptions(Struct, frozen=True, kw_only=True):
    """Where the service is, and how it is reached."""

    base: str
    token_file: str | None = None
    connections: int = 8
    ca: str | None = None
    timeout_ms: int = 30_000

    def read_token(self) -> str:
        """The token of now: from the file, else from the environment."""
        if self.token_file is None:
            text = os.environ.get(VARIABLE, "").strip()
            if not text:
                raise BadConfig(
                    f"a service wants a token; put it into {VARIABLE}, or name a file with ?token_file=PATH"
                )
        else:
            try:
                text = Path(self.token_file).read_text("ascii").strip()
            except (OSError, ValueError) as error:
                raise StoreUnavailable(f"the token file {shown_path(self.token_file)} cannot be read") from error
        if not text.isascii() or not text.isprintable() or " " in text:
            raise BadConfig("the token holds a character that no token has; check where it comes from")
        return text


def options_of(parts: SplitResult, options: dict[str, str]) -> HttpOptions:
    """The options of a URL; raises `BadConfig` for one that leads nowhere or shows its secrets."""
    for option in options:
        if option not in _OPTIONS:
            raise BadConfig(f"a service has no option {bounded_repr(option)}; known options: {', '.join(_OPTIONS)}")
    if parts.username is not None or parts.password is not None:
        raise BadConfig(f"a service wants no user in its URL, but a token; put it into {VARIABLE}")
    if not parts.hostname:
        raise BadConfig("the URL of a service names its host, as in https://jobs.example.org")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and options.get("insecure") != "1":
        raise BadConfig("http:// shows the token on the way; use https://, or add ?insecure=1 in a trusted network")
    for name in ("token_file", "ca"):
        if name in options:
            check_path(name, options[name])
    connections = options.get("connections", "8")
    if not connections.isdigit() or not 1 <= int(connections) <= 1_000:
        raise BadConfig(f"connections must be from 1 to 1,000; found {bounded_repr(connections)}")
    timeout_ms = duration_ms("timeout", options.get("timeout", "30s"))
    if timeout_ms <= 0:
        raise BadConfig("timeout must be longer than nothing, such as 30s")
    return HttpOptions(
        base=f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/v1",
        token_file=options.get("token_file"),
        connections=int(connections),
        ca=options.get("ca"),
        timeout_ms=timeout_ms,
    )
