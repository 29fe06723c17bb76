"""Opens the store of a command, lets the command use it, and closes it."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from headrace.app.discovery import VARIABLE, is_memory, project_table, url_of
from headrace.model.errors import BadConfig, StoreUnavailable
from headrace.model.validate import shown_path
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store, split, sqlite_path

T = TypeVar("T")

APP_VARIABLE = "HEADRACE_APP"


def with_store(url: str | None, use: Callable[[Store], Awaitable[T]], *, new: bool = False) -> T:
    """What `use` returns for the store at `url`, or at the default when there is none.

    A command that only looks leaves no empty file behind: it is refused where there is no file yet, unless `new`.
    """
    found = lasting(url)
    if not new:
        _check_file(found)
    return asyncio.run(_using(found, use))


def lasting(url: str | None) -> str:
    """The URL that holds: the one that is given, else that of the project's app, else the default. Refuses a store that
    would end with the command."""
    found = url_of(url if url is not None else _of_the_app())
    if is_memory(found):
        raise BadConfig(
            "a store in memory is seen by no other process and ends with the command; name another with --url or"
            " HEADRACE_URL, such as sqlite:///headrace.db"
        )
    return found


def _of_the_app() -> str | None:
    """Where the project's app keeps its jobs, if there is such an app and it says so itself."""
    name = os.environ.get(APP_VARIABLE) or project_table(Path.cwd()).get("app")
    if not isinstance(name, str) or VARIABLE in os.environ:
        return None
    from headrace.app.discovery import load_app

    return load_app(name).url


def _check_file(url: str) -> None:
    if not url.startswith("sqlite:///"):
        return
    path = Path(sqlite_path(*split(url)))
    if not path.exists():
        raise StoreUnavailable(
            f"there is no file {shown_path(path)} in {Path.cwd()}; run this where your app runs, name the store with"
            " --url or HEADRACE_URL, or send a first job"
        )


async def _using(url: str, use: Callable[[Store], Awaitable[T]]) -> T:
    store = await open_store(url)
    try:
        return await use(store)
    finally:
        await store.close()
