"""Exit codes: what a program learns from how a command ended."""

from typing import Final

from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused, StoreUnavailable

OK: Final = 0
NO: Final = 1
"""It worked, and the answer is no: the job failed, nothing was found, the doctor found something to fix."""
BAD_INPUT: Final = 2
"""An option, name, value or setting is wrong. Nothing was changed."""
NO_SERVER: Final = 3
"""The store cannot be reached. Nothing was changed; a retry may help."""
UNKNOWN: Final = 4
"""The store's answer was lost, so the call may have been done: look before a retry."""
STOPPED: Final = 5
"""A bound was reached before everything was looked at. Raise the bound, or run the command again."""
BROKEN: Final = 70
"""A bug in Headrace."""
INTERRUPTED: Final = 130


def code_of(error: HeadraceError) -> int:
    """The exit code of an error."""
    match error:
        case StoreUnavailable():
            return NO_SERVER
        case OutcomeUnknown():
            return UNKNOWN
        case Refused(reason="process_died"):
            return NO
        case _:
            return BAD_INPUT
