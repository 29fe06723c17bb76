"""Middleware: what is wrapped around every handler, in the order given, outermost first.

Around all of it the worker itself turns whatever is raised into an outcome, and ends what takes longer than its time.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headrace.worker.context import Context

Next = Callable[[Context], Awaitable[Any]]
Middleware = Callable[[Context, Next], Any]
"""`async def m(context, call_next): … return await call_next(context)`, or a plain function that returns what
`call_next(context)` returns. Not calling it answers in the handler's place."""


def wrapped(middleware: Sequence[Middleware], innermost: Next) -> Next:
    """The handler inside its middleware."""
    chain = innermost
    for each in reversed(middleware):
        chain = _around(each, chain)
    return chain


def _around(each: Middleware, call_next: Next) -> Next:
    async def call(context: Context) -> Any:
        result = each(context, call_next)
        return await result if inspect.isawaitable(result) else result

    return call
