"""What a fail handler is told of a death."""

from msgspec import Struct, field


class DeathInfo(Struct, frozen=True, kw_only=True):
    """Why a job died: annotate the third argument of a fail handler with it.

    `reason` is `attempts`, `stalls`, `failed` or `expired`; `cls` and `message` are those of the last error.
    """

    cls: str = field(name="class")
    message: str
    reason: str
