"""Where the jobs of an app are: at the URL it was given, else at HEADRACE_URL, else in a file beside the program."""

import os

DEFAULT_URL = "sqlite:///headrace.db"
VARIABLE = "HEADRACE_URL"


def url_of(given: str | None) -> str:
    """The URL that holds at this moment."""
    return given if given is not None else os.environ.get(VARIABLE, "").strip() or DEFAULT_URL


def is_memory(url: str) -> bool:
    """Whether the store lives in this process, and dies with it."""
    return url.startswith("memory:")
