"""Job functions in a module, which other processes find by name."""

import os

from headrace import App

app = App(queue="reports")


@app.job(process=True, timeout="20s")
def square(number: int) -> tuple[int, int]:
    """The square, and the process that knows it."""
    return number * number, os.getpid()


@app.job(tag="greeting", result_ttl="1h")
async def greet(name: str, *, loud: bool = False) -> str:
    """A greeting."""
    return name.upper() if loud else name
