"""Jobs in a module, as programs have them: other processes find them by name."""

import os
from typing import Any

from headrace import App, current

app = App(queue="reports")


@app.job(process=True, timeout="20s")
def square(number: int) -> tuple[int, int]:
    """The square, and the process that knows it."""
    return number * number, os.getpid()


@app.job(tag="greeting", result_ttl="1h")
async def greet(name: str, *, loud: bool = False) -> str:
    """A greeting."""
    return name.upper() if loud else name


@app.job(style="whole")
def whole(payload: dict[str, Any]) -> list[str]:
    """The keys of the payload, and who asked."""
    return [*sorted(payload), current().job.tenant]
