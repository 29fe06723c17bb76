"""An app to map rows with, and a worker that runs its jobs whenever the map reports progress."""

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from headrace import App
from headrace.pipeline.flows.map.results import MapProgress, MapReport
from headrace.pipeline.flows.map.run import map_rows

app = App()


@app.job(max_attempts=1)
async def square(n: int) -> int:
    """Fails for multiples of five."""
    if n % 5 == 0:
        raise ValueError(f"{n} is no number")
    return n * n


@app.job(max_attempts=1)
async def greet(name: str, mark: str = "!") -> dict[str, Any]:
    """Returns an object."""
    return {"said": f"Hello, {name}{mark}", "dead_letters": len(name)}


@app.job(style="whole")
async def anything(row: dict[str, Any]) -> list[str]:
    """Takes the whole row."""
    return sorted(row)


OnProgress = Callable[[MapProgress], None]


def with_worker(queue: str, on_progress: OnProgress = lambda _: None) -> OnProgress:
    """Run the due jobs of a queue whenever a map reports progress."""

    def run(progress: MapProgress) -> None:
        on_progress(progress)
        if progress.step == "running" and progress.open:
            logging.getLogger("headrace").setLevel(logging.CRITICAL)  # the failures are on purpose
            app.run_worker(until_idle=True, queues=[queue])

    return run


def run_map(
    url: str, frame: DataFrame, kind: str = "square", on_progress: OnProgress = lambda _: None, **options: Any
) -> MapReport:
    """A map by workers, with a worker in this process."""
    app.use_url(url)
    settings = {"key": "n", "name": "sq", "by": "workers"} | options
    return map_rows(
        frame, app, kind, url=url, on_progress=with_worker(f"map-{settings['name']}", on_progress), **settings
    )


def row_set(frame: DataFrame, *names: str) -> set[tuple[Any, ...]]:
    """The rows of a frame, with some of their columns."""
    return {tuple(row) for row in frame.select(*names).collect()}
