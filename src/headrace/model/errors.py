"""The errors of Headrace.

    HeadraceError
    ├── Refused             the input or the state forbids it; nothing was changed, a repetition will not help
    ├── StoreUnavailable    the store could not be reached; nothing was changed, a repetition may help
    ├── OutcomeUnknown      the store's reply was lost: check, or repeat with the same key or nonce
    ├── BadConfig           found at start: a wrong URL, option or server setting
    ├── JobFailed           the awaited job is dead
    └── JobCancelled        the awaited job was cancelled

A refusal that is part of normal work (a lost lease, a duplicate) is not an exception but a value in the answer; see
`headrace.model.results`. Messages are one sentence: what was wanted, what was found, what to do. All of them can be
pickled, so a process pool can raise them in the parent.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.model.outcome import JobError


class HeadraceError(Exception):
    """The base class of all errors of Headrace."""

    def __reduce__(self) -> tuple[Callable[..., "HeadraceError"], tuple[Any, ...]]:
        # The default calls the class with the message alone, which most of these classes do not accept.
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(cls: type[HeadraceError], args: tuple[object, ...], fields: dict[str, object]) -> HeadraceError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(fields)
    return error


class Refused(HeadraceError):
    """The call was refused and changed nothing; `reason` is a short name for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class StoreUnavailable(HeadraceError):
    """The store could not be reached, or was busy for too long; nothing was changed."""


class OutcomeUnknown(HeadraceError):
    """The store's reply was lost; `known` has the answers that arrived, `unknown` the ids without an answer."""

    def __init__(self, message: str, *, known: Sequence[object] = (), unknown: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.known = tuple(known)
        self.unknown = tuple(unknown)


class BadConfig(HeadraceError):
    """A wrong setting, found when something was opened or started."""


class JobFailed(HeadraceError):
    """The job `id` is dead; `reason` (attempts, stalls, failed, expired) and `error` are those of its newest dead
    letter."""

    def __init__(self, id: str, reason: str, error: "JobError") -> None:
        reason_text = f": {error.message}" if error.message else ""
        super().__init__(f"job {id!r} died ({reason}) of {error.cls}{reason_text}")
        self.id = id
        self.reason = reason
        self.error = error


class JobCancelled(HeadraceError):
    """The job `id` was cancelled, so there is no result."""

    def __init__(self, id: str) -> None:
        super().__init__(f"job {id!r} was cancelled and has no result")
        self.id = id
