"""Looks that the commands about feeds take: which feeds there are, and how the one that is named stands."""

import os
import socket
from typing import Annotated

import typer

from headrace.model.errors import Refused
from headrace.model.feed import FeedName, check_writable
from headrace.model.results import FeedState
from headrace.model.validate import bounded_repr, nearest
from headrace.stores.catalog import all_feeds
from headrace.stores.contract.store import Store

Name = Annotated[str, typer.Argument(metavar="NAME", help="The feed.")]
Tenant = Annotated[str, typer.Option("--tenant", envvar="HEADRACE_TENANT", help="Whose feeds.")]
ReadName = Annotated[str, typer.Argument(metavar="NAME", help="The feed; '*' is the directory of all feeds.")]


def instance() -> str:
    """Who makes the changes of a command."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:cli"


def writable(name: str, tenant: str) -> FeedName:
    """The name of a feed that may be changed; refuses the directory."""
    feed = FeedName(name, tenant)
    check_writable(feed)
    return feed


async def feed_of(store: Store, tenant: str, name: str) -> FeedState:
    """The feed of that name as it stands; raises `Refused` with the nearest names when there is none."""
    state = await store.feeds.describe(FeedName(name, tenant))
    if state is None:
        raise _unknown(name, tenant, [feed.name for feed in await all_feeds(store, tenant)])
    return state


def _unknown(name: str, tenant: str, known: list[str]) -> Refused:
    if not known:
        return Refused(
            "unknown_feed",
            f"tenant {tenant!r} has no feed {bounded_repr(name)}; it has none yet; make one with:"
            " headrace feeds create NAME",
        )
    near = nearest(name, known)
    hint = (
        f"did you mean {near!r}?"
        if near
        else f"there are {', '.join(known[:10])}{' and more' if len(known) > 10 else ''}"
    )
    return Refused("unknown_feed", f"tenant {tenant!r} has no feed {bounded_repr(name)}; {hint}")
