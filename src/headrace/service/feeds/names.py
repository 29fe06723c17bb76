"""Resolves the feed in a path, and the name under which a caller changes it."""

from urllib.parse import unquote_to_bytes

from headrace.model.errors import Refused
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.limits import INSTANCE_CHARS_MAX
from headrace.model.validate import bounded_repr, check_text
from headrace.service.operation import Call
from headrace.service.problems import RequestProblem
from headrace.wire.content import subject_prefix


def path_feed(call: Call) -> FeedName:
    """The feed in the path; refuses reserved names and those that the token does not cover."""
    feed = FeedName(call.path["feed"], call.tenant)
    call.caller.check_feed(feed.name)
    return feed


def instance_of(call: Call) -> str:
    """The name behind a change: the subject of the token, and the caller's own name for its process."""
    given = call.headers.get(b"headrace-instance", b"http")
    own = unquote_to_bytes(given).decode("utf-8", "replace")
    check_text("instance", own, INSTANCE_CHARS_MAX)
    whole = own if call.service.settings.worker_names_as_given else subject_prefix(call.caller.subject) + own
    return whole[:INSTANCE_CHARS_MAX]


def cursor_of(text: str | None) -> FeedCursor | None:
    """The position in a feed's log that a caller gave."""
    return None if text is None else FeedCursor.parse(text)


def version_of_match(call: Call) -> int | None:
    """The version in If-Match, as ETags give it."""
    given = call.headers.get(b"if-match")
    if given is None or given.strip() == b"*":
        return None
    text = given.decode("latin-1").strip()
    digits = text.removeprefix('"v').removesuffix('"')
    if text != f'"v{digits}"' or not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        raise Refused("bad_version", f"If-Match must be the ETag of a configuration; found {bounded_repr(text)}")
    return int(digits)


def unknown_feed(name: str) -> RequestProblem:
    """The problem of a feed that does not exist."""
    return RequestProblem("unknown_feed", f"there is no feed {bounded_repr(name)}; create it first")
