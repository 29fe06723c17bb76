"""Sample handlers: `headrace worker --register KIND=echo|fail|sleep` works without an app."""

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
    """Fails, so that the job is retried until it is dead."""
    raise RuntimeError(f"this job fails on purpose; its payload was {payload!r:.100}")


async def sleep(payload: Any = None) -> Any:
    """Sleeps for its payload, a duration ("250ms") or a number of seconds, and returns it."""
    await asyncio.sleep(duration_ms("sleep", SLEEP_DEFAULT if payload is None else payload) / 1_000)
    return payload


SAMPLES: dict[str, Callable[..., Any]] = {"echo": echo, "fail": fail, "sleep": sleep}


def app_of_command(spec: "WorkerSpec") -> "App":
    """The app of `headrace worker` in another process; the arguments are its name, which may be empty, and kinds."""
    from headrace.app.app import App
    from headrace.app.discovery import load_app

    name, *kinds = spec.source.arguments
    app = load_app(name) if name else App()
    register(app, kinds)
    return app


def register(app: "App", kinds: Sequence[str]) -> None:
    """Add a job to the app for each `KIND=echo|fail|sleep`; raises `BadConfig` for other texts."""
    for text in kinds:
        kind, sign, name = text.rpartition("=")
        if not kind or not sign or name not in SAMPLES:
            near = nearest(name, SAMPLES)
            hint = f"; did you mean {kind or 'KIND'}={near}?" if near else ""
            raise BadConfig(f"--register must be KIND=echo, KIND=fail or KIND=sleep; found {bounded_repr(text)}{hint}")
        try:
            app.job(kind=kind, style="whole")(SAMPLES[name])
        except Refused as refused:
            raise BadConfig(f"--register {bounded_repr(text)} is not possible: {refused}") from refused
