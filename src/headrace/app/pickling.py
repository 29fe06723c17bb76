"""Pickles a job function by its name, with enough to send its jobs where the name cannot be imported.

The `__main__` of a Spark driver is such a case: its tasks run in processes with another `__main__`.
"""

import importlib
import inspect
from collections.abc import Callable
from typing import Any, NoReturn, get_type_hints

from msgspec import Struct

from headrace.client.arguments import Style
from headrace.client.codec import Codec
from headrace.client.options import Options
from headrace.model.errors import Refused
from headrace.worker.handlers import Handler, handler_of


class PickledFunction(Struct, frozen=True):
    """A job function in transit."""

    module: str
    qualname: str
    kind: str
    signature: inspect.Signature
    hints: dict[str, Any]
    codec: Codec
    style: Style
    options: Options

    def find(self) -> object:
        """The object of that name in this process; None if it does not exist."""
        try:
            found: Any = importlib.import_module(self.module)
        except ModuleNotFoundError:
            return None
        for name in self.qualname.split("."):
            found = getattr(found, name, None)
        return found

    def handler(self) -> Handler:
        """A handler that can build jobs, but whose function cannot be called."""
        return handler_of(self.kind, self._placeholder(), codec=self.codec, style=self.style)

    def _placeholder(self) -> Callable[..., NoReturn]:
        def placeholder(*_: object, **__: object) -> NoReturn:
            raise Refused(
                "not_here",
                f"{self.qualname} comes from another process and can only be sent here; to call it, define it in a"
                f" module that this process can import, not in {self.module}",
            )

        placeholder.__module__, placeholder.__qualname__ = self.module, self.qualname
        placeholder.__name__ = self.qualname.rpartition(".")[2]
        placeholder.__annotations__ = self.hints
        placeholder.__signature__ = self.signature  # type: ignore[attr-defined]  # inspect reads it
        return placeholder


def pickle_function(handler: Handler, options: Options) -> PickledFunction:
    """The pickled parts of a job function: no code, so that the other process needs none."""
    function = handler.function
    hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    signature = inspect.signature(function)
    # Resolved, since the names in annotations may be unknown in the other process.
    parameters = [each.replace(annotation=hints.get(each.name, Any)) for each in signature.parameters.values()]
    return PickledFunction(
        function.__module__,
        function.__qualname__,
        handler.kind,
        signature.replace(parameters=parameters),
        hints,
        handler.codec,
        handler.arguments.style,
        options,
    )
