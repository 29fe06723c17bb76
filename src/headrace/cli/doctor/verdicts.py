"""One line of the doctor's table."""

from typing import Literal

from msgspec import Struct


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
