"""Makes jobs for the command line: as the app says where it knows the kind, as typed where there is no app."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from headrace.client.options import OptionFields, Options
from headrace.model.errors import Refused
from headrace.model.job import Job
from headrace.model.validate import bounded_repr

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.job_function import JobFunction

OPTIONS = tuple(OptionFields.__annotations__)


class Making:
    """Makes jobs of a kind, a payload and options. With `is_checked` the app knows its kinds: the function's queue and
    options are the defaults, and the payload must fit its arguments."""

    def __init__(self, app: "App", options: OptionFields, *, is_checked: bool) -> None:
        self.app = app
        self.is_checked = is_checked
        self._options = options

    def function(self, kind: str) -> "JobFunction[..., Any] | None":
        """The function that does such jobs; raises `Refused` for a kind that the app does not have."""
        if not self.is_checked:
            return None
        found = self.app.registry.find(kind)
        if found is None:
            raise Refused("bad_kind", f"{self.app.handlers.describe_unknown(kind)}; --no-app sends it all the same")
        return found

    def job(self, kind: str, payload: Any, own: OptionFields | None = None) -> Job:
        """A job, ready to be sent; `own` options come before those of all jobs."""
        function = self.function(kind)
        if function is None:
            options = Options(**(own or {})).over(Options(**self._options))
            return self.app.maker.job_of(kind, self.app.maker.codec.encode(payload), options)
        sender = function.options(**self._options).options(**(own or {}))
        return _called(sender.job, function, payload)


def _called(make: Callable[..., Job], function: "JobFunction[..., Any]", payload: Any) -> Job:
    arguments = function.handler.arguments
    try:
        match arguments.style:
            case "whole":
                return make(payload)
            case "listed" if payload is None or isinstance(payload, list):
                return make(*(payload or ()))
            case "named" if payload is None or isinstance(payload, Mapping):
                return make(**(payload or {}))
    except TypeError as error:  # a name that Python itself stumbles over, such as self
        raise Refused("bad_arguments", f"{arguments} cannot be called with {bounded_repr(payload)}: {error}") from error
    wanted = "an array of arguments" if arguments.style == "listed" else "an object of arguments by name"
    raise Refused("bad_arguments", f"the payload for {arguments} must be {wanted}; found {bounded_repr(payload)}")


def option_fields(given: Mapping[str, Any]) -> OptionFields:
    """Those that were given."""
    return cast("OptionFields", {name: value for name, value in given.items() if value is not None})
