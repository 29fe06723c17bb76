"""The URL of a store that Spark is to reach: from the driver, and from tasks that may run elsewhere."""

from pathlib import Path

from headrace.model.errors import BadConfig
from headrace.stores.open import POSTGRES, REDIS, split, sqlite_path, unknown_scheme


def check_url(url: str) -> str:
    """The URL again, if Spark's processes can reach the store behind it. Never shown: it may hold a password."""
    if not url:
        raise BadConfig(
            "format headrace needs option url; give the store's, for example sqlite:////var/lib/jobs.db or"
            " redis://host:6379/0"
        )
    parts, options = split(url)
    if parts.scheme == "memory":
        raise BadConfig(
            "a memory:// store lives inside one process, where Spark's own processes cannot see it; use sqlite:///path"
        )
    if parts.scheme == "sqlite":
        check_file(sqlite_path(parts, options))
    elif parts.scheme not in (*POSTGRES, *REDIS):
        raise unknown_scheme(parts)
    return url


def check_file(path: str) -> None:
    """Refuse a store that is not there: opening it would make an empty one, and a misspelt path would read as such."""
    absolute = Path(path).absolute()
    if not absolute.is_file():
        raise BadConfig(f"there is no store at {absolute}; check the path (sqlite:///relative or sqlite:////absolute)")
