"""What Spark itself must not show of a store's URL: in plans, in its log of events, and on its pages."""

from collections.abc import Mapping

OPTIONS = "spark.sql.redaction.options.regex"
"""Names of options whose values Spark hides where it shows options."""
STRINGS = "spark.sql.redaction.string.regex"
"""Parts of texts that Spark hides in plans, and in what it notes of a Spark Connect client's requests, whole as they
came: with them its log of events would hold the password of every URL."""

_URL = "(?i:url)"
# As headrace.model.redact has them, for Java: whatever is before the last @ of a host, and options that are secrets.
_SECRETS = (
    r"(?<=://)[^\s/?#'\"@]*(?:@[^\s/?#'\"@]*)*@"
    r"|(?i:password|passwd|secret|token|passfile|sslkey)[\w-]*(?:=|%3D)[^\s&;,'\"\\]+"
)


def redaction(given: Mapping[str, str]) -> dict[str, str]:
    """Settings under which Spark hides what must be hidden, and what the settings that are given hide besides."""
    return {OPTIONS: _with(_URL, given.get(OPTIONS, "")), STRINGS: _with(_SECRETS, given.get(STRINGS, ""))}


def _with(ours: str, theirs: str) -> str:
    if ours in theirs:
        return theirs
    # Theirs comes last: a flag such as (?i) that stands at its beginning holds for all that follows.
    return f"{ours}|{theirs}" if theirs else ours
