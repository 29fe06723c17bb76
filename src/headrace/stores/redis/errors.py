"""What a server's error replies mean, and how they become ours."""

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, StoreUnavailable

REFUSAL = "HEADRACE "
"""How the error reply of a function begins that refuses on purpose."""

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
"""The first words of replies with which a server turns a command away before it runs."""


class ScriptRefusal(HeadraceError):
    """A function refused the whole call and changed nothing; callers turn it into `Refused`."""

    def __init__(self, reason: str, details: str) -> None:
        super().__init__(f"{reason} {details}".rstrip())
        self.reason = reason
        self.details = details


class NotSent(Exception):
    """A command that surely did not leave this process."""


class ReplyLost(Exception):
    """A command that may have reached the server, whose reply did not come back."""


def code_of(reply: object) -> str:
    """The first word of an error reply."""
    return str(reply).partition(" ")[0]


def is_unknown_function(reply: object) -> bool:
    """Whether the server does not have the library: the function never ran."""
    return str(reply).startswith("ERR Function not found")


def came_from_inside(reply: object) -> bool:
    """Whether a function was running when the error arose; the server then names the function and the line."""
    return " script: " in str(reply)


def error_of(where: str, what: str, reply: object, *, reads: bool) -> HeadraceError:
    """Our error for an error reply, or for a reply that did not come."""
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
            f"redis at {where} could not be asked for {what} ({text}); nothing was changed, ask again"
        )
    if isinstance(reply, ReplyLost):
        return lost(where, what, text, reads=reads)
    if (code_of(text) in NOT_EXECUTED or text.startswith("ERR max number of clients")) and not came_from_inside(text):
        return StoreUnavailable(f"redis at {where} turned {what} away ({text}); nothing was changed, ask again later")
    # What a running function had written before it failed stays written.
    return lost(where, what, text, reads=reads)


def lost(where: str, what: str, why: str, *, reads: bool) -> HeadraceError:
    """Our error for a call that may have been carried out."""
    if reads:
        return StoreUnavailable(f"redis at {where} did not answer {what} ({why}); ask again")
    return OutcomeUnknown(f"redis at {where} was asked for {what} but gave no good answer ({why}); look, or ask again")


def bad_start(where: str, reply: object) -> HeadraceError:
    """Our error for a server that refuses the handshake or a question asked at start."""
    text = str(reply)
    if code_of(text) in {"WRONGPASS", "NOAUTH"} or text.startswith("ERR AUTH"):
        return BadConfig(
            f"redis at {where} does not take the user and password of the URL ({code_of(text)}); correct them"
        )
    if code_of(text) == "NOPERM":
        return BadConfig(f"redis at {where} does not let this user do its work ({text}); see the ACL in docs/stores.md")
    if code_of(text) in NOT_EXECUTED or text.startswith("ERR max number of clients"):
        return StoreUnavailable(f"redis at {where} cannot be used yet ({text}); ask again later")
    return BadConfig(f"redis at {where} refused to start work ({text}); correct the URL or the server's settings")
