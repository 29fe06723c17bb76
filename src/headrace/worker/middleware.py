"""Middleware: functions around every handler, outermost first.

Outside of them the worker turns exceptions into outcomes and enforces the time-out.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headrace.worker.context import Context

Next = Callable[[Context], Awaitable[Any]]
Middleware = Callable[[Context, Next], Any]
"""`async def m(context, call_next): … return await call_next(context)`, or a plain function that returns what
`call_next(context)` returns. If it does not call `call_next`, its own result replaces the handler's."""


def wrap_handler(middleware: Sequence[Middleware], innermost: Next) -> Next:
    """The handler wrapped in its middleware."""
    chain = innermost
    for each in reversed(middleware):
        chain = _wrap_one(each, chain)
    return chain


def _wrap_one(each: Middleware, call_next: Next) -> Next:
    async def call(context: Context) -> Any:
        result = each(context, call_next)
        return await result if inspect.isawaitable(result) else result

    return call
