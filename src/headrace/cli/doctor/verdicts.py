"""One line of the doctor's table."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from headrace.model.limits import QUEUES_LISTED_MAX


class Check(Struct, frozen=True):
    """What was looked at, how it is, what was found, and what to do about it."""

    check: str
    status: Literal["ok", "look", "wrong"]
    found: str
    todo: str | None = None


def ok(check: str, found: str) -> Check:
    """All is well."""
    return Check(check, "ok", found)


def look(check: str, found: str, todo: str) -> Check:
    """Perhaps it is meant to be so; a person should know."""
    return Check(check, "look", found, todo or None)


def wrong(check: str, found: str, todo: str) -> Check:
    """To be fixed."""
    return Check(check, "wrong", found, todo)


def together(found: Sequence[tuple[str, Check]], words: str) -> list[Check]:
    """The checks of queues, each beside its queue's name; where there are many, one that counts the queues.

    `words` say of several what the checks say of one.
    """
    if len(found) <= QUEUES_LISTED_MAX:
        return [check for _, check in found]
    names, (_, first) = [repr(name) for name, _ in found[:3]], found[0]
    told = f"{len(found):,} queues {words}: {', '.join(names)} and {len(found) - len(names):,} more"
    return [Check(first.check, first.status, told, None if first.todo is None else f"for each, as in: {first.todo}")]
