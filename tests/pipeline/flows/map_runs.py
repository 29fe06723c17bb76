"""An app whose jobs rows are mapped through, and a worker that runs them when a map asks for it."""

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from headrace import App
from headrace.pipeline.flows.map.mapped import Mapped, MapProgress
from headrace.pipeline.flows.map.run import map_rows

app = App()


@app.job(max_attempts=1)
async def square(n: int) -> int:
    """Works for most numbers."""
    if n % 5 == 0:
        raise ValueError(f"{n} is no number")
    return n * n


@app.job(max_attempts=1)
async def greet(name: str, mark: str = "!") -> dict[str, Any]:
    """Says something in several parts."""
    return {"said": f"Hello, {name}{mark}", "dead_letters": len(name)}


@app.job(style="whole")
async def anything(row: dict[str, Any]) -> list[str]:
    """Takes whatever comes."""
    return sorted(row)


Tell = Callable[[MapProgress], None]


def worked(queue: str, tell: Tell = lambda far: None) -> Tell:
    """Does the jobs of a queue that are due whenever a map looks at them."""

    def run(far: MapProgress) -> None:
        tell(far)
        if far.step == "running" and far.open:
            logging.getLogger("headrace").setLevel(logging.CRITICAL)  # the failures are on purpose
            app.run_worker(until_idle=True, queues=[queue])

    return run


def mapped(url: str, frame: DataFrame, kind: str = "square", tell: Tell = lambda far: None, **given: Any) -> Mapped:
    """A map by workers, whose worker is in this process."""
    app.use_url(url)
    settings = {"key": "n", "name": "sq", "by": "workers"} | given
    return map_rows(frame, app, kind, url=url, on_progress=worked(f"map-{settings['name']}", tell), **settings)


def answer(found: DataFrame, *names: str) -> set[tuple[Any, ...]]:
    """The rows of an answer, with some of their columns."""
    return {tuple(row) for row in found.select(*names).collect()}
