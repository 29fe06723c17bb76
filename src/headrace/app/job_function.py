"""A function that is also a job: calling it calls it, enqueueing it lets a worker call it."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from headrace.app.pickling import PickledFunction, pickled_function
from headrace.app.sender import P, R, Sender
from headrace.client.options import Options
from headrace.model.errors import BadConfig
from headrace.model.validate import bounded_repr
from headrace.worker.handlers import Handler

if TYPE_CHECKING:
    from headrace.app.app import App


class JobFunction(Sender[P, R]):
    """What `@app.job` makes of a function. It can be sent from here, called as before, and carried to other processes,
    where it is found by its name; where there is no such name, it can be sent and not called."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, app: "App", handler: Handler, options: Options) -> None:
        super().__init__(self, options)
        self.app = app
        self.handler = handler
        functools.update_wrapper(cast("Any", self), handler.function)

    @property
    def kind(self) -> str:
        """What its jobs are called in the store."""
        return self.handler.kind

    def __reduce__(self) -> tuple[Any, ...]:
        return restored_function, (type(self), self.app, pickled_function(self.handler, self._options))

    def __repr__(self) -> str:
        return f"<job {self.kind!r} on queue {self.queue.name!r}>"


class AsyncJobFunction(JobFunction[P, R]):
    """A job function whose calls are awaited."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function, here and now."""
        answer: Coroutine[Any, Any, R] = self.__wrapped__(*args, **kwargs)
        return answer


class PlainJobFunction(JobFunction[P, R]):
    """A job function whose calls return at once what it returns; a worker runs it in a thread or process."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now."""
        answer: R = self.__wrapped__(*args, **kwargs)
        return answer


def restored_function(cls: type[JobFunction[..., Any]], app: "App", was: PickledFunction) -> JobFunction[..., Any]:
    """A job function that arrived from another process: the one of that name, else one that can only be sent."""
    found = was.find()
    if isinstance(found, JobFunction) and found.kind == was.kind:
        return found
    return cls(app, was.handler(), was.options)


def check_function(function: Any, use: str) -> None:
    """Raise `BadConfig` for what cannot be a handler: workers find it by its name, and call it once for each job."""
    name = getattr(function, "__qualname__", None)
    if isinstance(function, JobFunction):
        wrong = f"{name} is a job already"
    elif isinstance(function, staticmethod | classmethod) or inspect.ismethod(function):
        wrong = f"{name} is a method, and a worker has no object to call it on"
    elif not callable(function) or inspect.isclass(function) or name is None:
        wrong = f"{bounded_repr(function)} is no function"
    elif name.endswith("<lambda>"):
        wrong = "a lambda has no name"
    elif "." in name and not name.rpartition(".")[0].endswith("<locals>"):
        wrong = f"{name} is a method, and a worker has no object to call it on"
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        wrong = f"{name} yields, and a job returns once"
    else:
        return
    raise BadConfig(f"{use} takes a function, plain or async; {wrong}; define one with def at the top of a module")
