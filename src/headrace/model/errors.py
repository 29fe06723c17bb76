"""The errors that callers may meet.

    HeadraceError
    ├── Refused             the input or the state forbids it; nothing was changed, a repetition will not help
    ├── StoreUnavailable    the store could not be reached; nothing was changed, a repetition may help
    ├── OutcomeUnknown      the answer of the store got lost: check, or repeat with the same key or nonce
    ├── BadConfig           found at start: a wrong URL, option or server setting
    ├── JobFailed           the job whose result was waited for is dead
    └── JobCancelled        the job whose result was waited for was cancelled

A refusal that a caller must expect in normal work (a lost lease, a duplicate) is not an exception but a value in
the answer; see `headrace.model.results`. Messages are one sentence: what was wanted, what was found, what to do.
All of them can be pickled: a pool of processes brings them home whole.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.model.outcome import JobError


class HeadraceError(Exception):
    """The root of all errors that Headrace raises itself."""

    def __reduce__(self) -> tuple[Callable[..., "HeadraceError"], tuple[Any, ...]]:
        # The usual way calls the class with the message alone, which most of these classes do not take.
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(cls: type[HeadraceError], args: tuple[object, ...], fields: dict[str, object]) -> HeadraceError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(fields)
    return error


class Refused(HeadraceError):
    """The call cannot be granted and changed nothing; `reason` is a short name for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class StoreUnavailable(HeadraceError):
    """The store could not be reached, or was busy for too long; nothing was changed."""


class OutcomeUnknown(HeadraceError):
    """The answer of the store got lost; `known` has the answers that arrived, `unknown` the ids without one."""

    def __init__(self, message: str, *, known: Sequence[object] = (), unknown: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.known = tuple(known)
        self.unknown = tuple(unknown)


class BadConfig(HeadraceError):
    """A setting that was found wrong when something was opened or started."""


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
