"""Handlers for trying things out: `headrace worker --register KIND=echo|fail|sleep` works without an app."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.model.errors import BadConfig, Refused
from headrace.model.times import duration_ms
from headrace.model.validate import bounded_repr, nearest

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.worker.supervisor.messages import WorkerSpec

SLEEP_DEFAULT = "1s"


async def echo(payload: Any = None) -> Any:
    """Returns its payload."""
    return payload


async def fail(payload: Any = None) -> Any:
    """Fails, so that the job is tried again until its attempts are used up."""
    raise RuntimeError(f"this job fails on purpose; its payload was {payload!r:.100}")


async def sleep(payload: Any = None) -> Any:
    """Sleeps for its payload, a duration ("250ms") or a number of seconds, and returns it."""
    await asyncio.sleep(duration_ms("sleep", SLEEP_DEFAULT if payload is None else payload) / 1_000)
    return payload


TRIALS: dict[str, Callable[..., Any]] = {"echo": echo, "fail": fail, "sleep": sleep}


def app_of_command(orders: "WorkerSpec") -> "App":
    """The app of `headrace worker` in another process; the words are its name, empty where there is none, and what is
    registered."""
    from headrace.app.app import App
    from headrace.app.discovery import load_app

    name, *wishes = orders.source.arguments
    app = load_app(name) if name else App()
    register(app, wishes)
    return app


def register(app: "App", wishes: Sequence[str]) -> None:
    """Let the app have a job for each `KIND=echo|fail|sleep`; raises `BadConfig` for what it cannot have."""
    for wish in wishes:
        kind, sign, name = wish.rpartition("=")
        if not kind or not sign or name not in TRIALS:
            near = nearest(name, TRIALS)
            hint = f"; did you mean {kind or 'KIND'}={near}?" if near else ""
            raise BadConfig(f"--register wants KIND=echo, KIND=fail or KIND=sleep; found {bounded_repr(wish)}{hint}")
        try:
            app.job(kind=kind, style="whole")(TRIALS[name])
        except Refused as refused:
            raise BadConfig(f"--register {bounded_repr(wish)} is not possible: {refused}") from refused
