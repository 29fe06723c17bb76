"""Removes secrets from texts: users, passwords and secret options of URLs."""

import re
from urllib.parse import urlsplit

HIDDEN = "…"
_USER = re.compile(r"(?<=://)[^\s/?#'\"@]*(?:@[^\s/?#'\"@]*)*@")
"""Everything between `://` and the last `@` before the path: a password may itself hold an unquoted `@` or `:`."""
# Anchored at the beginning of a word: trying each letter would take quadratic time on a long one.
_OPTION = re.compile(r"(?i)(?<![\w-])([\w-]*(?:password|passwd|secret|token|passfile|sslkey)[\w-]*)(=|%3D)[^\s&;,'\"]*")


def redact_url(url: str) -> str:
    """A URL for people: without user, password and options, because each may be a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an unreadable URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def redact(text: str) -> str:
    """A text in which URLs keep their hosts and lose their users, passwords and secret options."""
    if "://" not in text and "=" not in text:  # most texts
        return text
    return _OPTION.sub(rf"\1\2{HIDDEN}", _USER.sub(f"{HIDDEN}@", text))


def redact_head(text: str, chars_max: int) -> str:
    """Like `redact`, of the first `chars_max` characters. A URL that would be cut is left out: without its `@`, the
    password cannot be recognized."""
    if len(text) > chars_max:
        text = text[:chars_max]
        last = text.rfind("://")
        if last >= 0 and not any(map(str.isspace, text[last:])):
            text = text[:last]
    return redact(text)
