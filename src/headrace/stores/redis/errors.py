"""Turns the error replies of Redis servers into errors of Headrace."""

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, StoreUnavailable

REFUSAL = "HEADRACE "
"""The beginning of an error reply with which a function refuses a call on purpose."""

NOT_EXECUTED = (
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNKILLABLE",
    "WRONGPASS",
)
"""The first words of error replies to commands that were refused before they ran."""


class ScriptRefusal(HeadraceError):
    """A function refused the whole call and changed nothing; callers turn it into `Refused`."""

    def __init__(self, reason: str, details: str) -> None:
        super().__init__(f"{reason} {details}".rstrip())
        self.reason = reason
        self.details = details


class NotSent(Exception):
    """A command that certainly did not leave this process."""


class ReplyLost(Exception):
    """A command that may have reached the server, whose reply did not come back."""


def code_of(reply: object) -> str:
    """The first word of an error reply."""
    return str(reply).partition(" ")[0]


def is_unknown_function(reply: object) -> bool:
    """Whether the server lacks the library: the function never ran."""
    return str(reply).startswith("ERR Function not found")


def is_from_function(reply: object) -> bool:
    """Whether the error arose in a running function; the server then names the function and the line."""
    return " script: " in str(reply)


def error_of(where: str, what: str, reply: object, *, reads: bool) -> HeadraceError:
    """The error for an error reply, or for a lost reply."""
    text = str(reply)
    if text.startswith(REFUSAL):
        reason, _, details = text.removeprefix(REFUSAL).partition(" ")
        if reason == "newer_layout":
            return BadConfig(
                f"redis at {where} holds data of layout {details.split()[0]}, which this Headrace does not know;"
                " nothing was changed, use a newer Headrace"
            )
        if reason == "older_layout":
            return BadConfig(
                f"redis at {where} holds queues of layout {details.split()[0]}, which this Headrace no longer reads;"
                " nothing was changed, let the Headrace that wrote them finish or delete them"
            )
        return ScriptRefusal(reason, details)
    if isinstance(reply, NotSent):
        return StoreUnavailable(
            f"redis at {where} could not be reached for {what} ({text}); nothing was changed, try again"
        )
    if isinstance(reply, ReplyLost):
        return lost_reply_error(where, what, text, reads=reads)
    if (code_of(text) in NOT_EXECUTED or text.startswith("ERR max number of clients")) and not is_from_function(text):
        return StoreUnavailable(f"redis at {where} rejected {what} ({text}); nothing was changed, try again later")
    # The writes of a function before it failed stay.
    return lost_reply_error(where, what, text, reads=reads)


def lost_reply_error(where: str, what: str, why: str, *, reads: bool) -> HeadraceError:
    """The error for a call that may have run."""
    if reads:
        return StoreUnavailable(f"redis at {where} did not answer {what} ({why}); try again")
    return OutcomeUnknown(
        f"redis at {where} gave no valid answer to {what} ({why}), so it may have run; check or repeat it"
    )


def startup_error(where: str, reply: Exception) -> HeadraceError:
    """The error for a handshake or a check at start that did not succeed."""
    if isinstance(reply, HeadraceError):
        return reply
    text = str(reply)
    if isinstance(reply, (NotSent, ReplyLost)):
        return StoreUnavailable(f"redis at {where} dropped the connection ({text}); is it running?")
    if code_of(text) in {"WRONGPASS", "NOAUTH"} or text.startswith("ERR AUTH"):
        return BadConfig(
            f"redis at {where} does not take the user and password of the URL ({code_of(text)}); correct them"
        )
    if code_of(text) == "NOPERM":
        return BadConfig(f"redis at {where} refuses this user ({text}); see the ACL in docs/reference/stores.md")
    if code_of(text) in NOT_EXECUTED or text.startswith("ERR max number of clients"):
        return StoreUnavailable(f"redis at {where} is not ready ({text}); try again later")
    return BadConfig(f"redis at {where} refused to start work ({text}); correct the URL or the server's settings")
