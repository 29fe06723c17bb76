"""Opens a store by its URL."""

from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from headrace.model.clock import Clock
from headrace.model.errors import BadConfig
from headrace.stores.contract.store import Store

KNOWN = "memory://, sqlite:///relative.db, sqlite:////absolute/path.db"


async def open_store(url: str, *, clock: Clock | None = None) -> Store:
    """Open the store at `url`; close it with `await store.close()`.

    `memory://` lives in this process. `sqlite:///headrace.db` is a file beside you, `sqlite:////var/lib/headrace.db` an
    absolute path; `?profile=durable` (the default) or `?profile=fast` chooses what survives a power cut. `clock`
    replaces the clock of this process, for tests.
    """
    parts = _split(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "memory":
        _check_options("memory://", options, ())
        if parts.netloc or parts.path:
            raise BadConfig("the store in memory has no name; write memory://")
        # A driver is imported when it is asked for: nobody pays for the others.
        from headrace.stores.memory.store import MemoryStore

        return MemoryStore(clock)
    if parts.scheme == "sqlite":
        _check_options("sqlite://", options, ("profile",))
        path = unquote(parts.path.removeprefix("/"))
        if parts.netloc or not path:
            raise BadConfig(
                "a SQLite URL names a file after three slashes, as in sqlite:///headrace.db, and no host or user"
            )
        if path.startswith(":memory:"):
            raise BadConfig("SQLite in memory is not shared by connections; write memory://")
        from headrace.stores.sqlite.store import SqliteStore

        return await SqliteStore.open(path, profile=options.get("profile", "durable"), clock=clock)
    raise BadConfig(f"no store for scheme {parts.scheme!r}; known URLs: {KNOWN}")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadConfig(f"{url!r} is not a URL ({error}); known URLs: {KNOWN}") from error
    if parts.fragment:
        raise BadConfig(f"the part behind # would be lost; write %23 for a # in a file's name; found {url!r}")
    return parts


def _check_options(store: str, options: dict[str, str], known: tuple[str, ...]) -> None:
    for option in options:
        if option not in known:
            raise BadConfig(f"{store} has no option {option!r}; known options: {', '.join(known) or 'none'}")
