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
    """Open the store at `url`, by default that of the project, and return the result of `use`.

    Refuses a missing file unless `new`, so that a command that only reads leaves no empty store behind.
    """
    resolved = resolve_url(url)
    if not new:
        _check_file(resolved)
    return asyncio.run(_use(resolved, use))


def resolve_url(url: str | None) -> str:
    """The URL itself, else that of the project's app, else the default; refuses a store in memory."""
    resolved = url_of(url if url is not None else _url_of_app())
    if is_memory(resolved):
        raise BadConfig(
            "a store in memory ends with the command, and other processes cannot see it; choose another with --url or"
            " HEADRACE_URL, such as sqlite:///headrace.db"
        )
    return resolved


def _url_of_app() -> str | None:
    """The URL of the project's app, if the project names an app and the app has a URL."""
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


async def _use(url: str, use: Callable[[Store], Awaitable[T]]) -> T:
    store = await open_store(url)
    try:
        return await use(store)
    finally:
        await store.close()
