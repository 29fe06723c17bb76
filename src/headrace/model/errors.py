"""The errors that callers may meet.

    HeadraceError
    ├── Refused             asking again will not help: the input or the state forbids it, and nothing was changed
    ├── StoreUnavailable    the store could not be asked; nothing was changed, asking again may help
    ├── OutcomeUnknown      the store was asked and the answer got lost: look, or ask again with the same key or nonce
    └── BadConfig           found at start: a wrong URL, option or server setting

A refusal that a caller must expect in normal work (a lost lease, a duplicate) is not an exception but a value in
the answer; see `headrace.model.answers`. Messages are one sentence: what was wanted, what was found, what to do.
"""

from collections.abc import Sequence


class HeadraceError(Exception):
    """The root of everything that Headrace raises on purpose."""


class Refused(HeadraceError):
    """The call cannot be granted and changed nothing; `reason` is a short name for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class StoreUnavailable(HeadraceError):
    """The store could not be reached, or was busy for too long; nothing was changed."""


class OutcomeUnknown(HeadraceError):
    """The store was asked but did not answer; `known` holds the answers that arrived, `unknown` the ids without one."""

    def __init__(self, message: str, *, known: Sequence[object] = (), unknown: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.known = tuple(known)
        self.unknown = tuple(unknown)


class BadConfig(HeadraceError):
    """A setting that was found wrong when something was opened or started."""
