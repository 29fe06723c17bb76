"""Carries a job function to another process: its name, and what is needed to send it where nobody knows the name.

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
    """A job function on its way."""

    module: str
    qualname: str
    kind: str
    signature: inspect.Signature
    hints: dict[str, Any]
    codec: Codec
    style: Style
    options: Options

    def find(self) -> object:
        """What has that name here; None where nothing has."""
        try:
            found: Any = importlib.import_module(self.module)
        except ModuleNotFoundError:
            return None
        for name in self.qualname.split("."):
            found = getattr(found, name, None)
        return found

    def handler(self) -> Handler:
        """A handler whose jobs can be made, and whose function cannot be called."""
        return handler_of(self.kind, self._absent(), codec=self.codec, style=self.style)

    def _absent(self) -> Callable[..., NoReturn]:
        def absent(*_: object, **__: object) -> NoReturn:
            raise Refused(
                "not_here",
                f"{self.qualname} was carried here from another process to be sent; to call it, define it in a module"
                f" that this process can import, not in {self.module}",
            )

        absent.__module__, absent.__qualname__ = self.module, self.qualname
        absent.__name__ = self.qualname.rpartition(".")[2]
        absent.__annotations__ = self.hints
        absent.__signature__ = self.signature  # type: ignore[attr-defined]  # where inspect looks
        return absent


def pickled_function(handler: Handler, options: Options) -> PickledFunction:
    """What travels of a job function: no code, so that the other end needs none."""
    function = handler.function
    hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    signature = inspect.signature(function)
    # Resolved, since the names that annotations use may mean nothing at the other end.
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
