"""The options of `format("headrace")`, checked when a query is planned."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from headrace.model.checks import cut
from headrace.model.errors import BadConfig
from headrace.model.names import DEFAULT_TENANT, check_tenant

ALL = "*"
PARTITIONS_MAX = 10_000
"""More tasks than any cluster runs at once, and already a minute of mere scheduling."""

_KNOWN = ("what", "url", "tenant", "queue", "minPartitions")


class Options(Struct, frozen=True):
    """What is to be read."""

    url: str
    tenant: str
    """A name, or `*` for all."""
    queues: tuple[str, ...]
    """Full names; empty for all."""
    partitions_min: int

    @staticmethod
    def parse(given: Mapping[str, str]) -> "Options":
        """The options of a query; `BadConfig` with a sentence to act on when they make no sense."""
        known = {name.lower() for name in _KNOWN}
        for name in given:
            if name.lower() not in known:
                raise BadConfig(f"format headrace has no option {cut(name)!r}; known options: {', '.join(_KNOWN)}")
        options = {name.lower(): value.strip() for name, value in given.items()}
        what = options.get("what", "journal")
        if what != "journal":
            raise BadConfig(f"option what is {cut(what)!r}; the only thing to read is 'journal'")
        tenant = options.get("tenant", DEFAULT_TENANT)
        if tenant != ALL:
            check_tenant(tenant)
        return Options(
            url=check_url(options.get("url", "")),
            tenant=tenant,
            queues=_queues(options.get("queue", ALL)),
            partitions_min=_partitions(options.get("minpartitions", "1")),
        )


def check_url(url: str) -> str:
    """The URL again, if a store that Spark can read is there. Only its scheme is ever shown: it may hold a password."""
    if not url:
        raise BadConfig("format headrace needs option url; give the store's, for example sqlite:////var/lib/jobs.db")
    scheme, separator, _ = url.partition("://")
    if scheme == "memory":
        raise BadConfig(
            "a memory:// store lives inside one process, where Spark's own processes cannot see it; use sqlite:///path"
        )
    if scheme != "sqlite" or not separator:
        found = f"{cut(scheme)}://" if separator else "no scheme"
        raise BadConfig(f"Spark can read sqlite:///path only; the url has {found}; give the path of a SQLite store")
    parts = urlsplit(url)
    if parts.netloc or not parts.path.removeprefix("/"):
        raise BadConfig(
            "a SQLite url names a file after three slashes, as in sqlite:///jobs.db or sqlite:////var/jobs.db"
        )
    path = Path(unquote(parts.path.removeprefix("/"))).absolute()
    if not path.is_file():
        # Opening it would make an empty store, and a misspelt path would read as a queue without jobs.
        raise BadConfig(f"there is no store at {path}; check the path (sqlite:///relative or sqlite:////absolute)")
    return url


def _queues(text: str) -> tuple[str, ...]:
    if text == ALL:
        return ()
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    if not names or ALL in names:
        raise BadConfig(f"option queue is {cut(text)!r}; give a name, several names with commas between them, or *")
    return tuple(dict.fromkeys(names))


def _partitions(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= PARTITIONS_MAX:
        raise BadConfig(f"option minPartitions is {cut(text)!r}; give a whole number from 1 to {PARTITIONS_MAX:,}")
    return int(text)
