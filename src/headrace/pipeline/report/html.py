"""HTML that cannot be spoilt by what is in it: whatever is not markup already is escaped."""

import html
import re

_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")
"""Characters that HTML does not allow, or that cannot be written as UTF-8."""


class Html:
    """Markup that is safe to put into a page. Only this module and the page's own files make it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


Content = Html | str | int | None
"""What may be put into an element; None is nothing."""


def escaped(text: str) -> str:
    """A text as it may stand in an element or in a quoted attribute."""
    return html.escape(_UNSHOWABLE.sub("\ufffd", text))


def joined(*contents: Content) -> Html:
    """Contents behind each other."""
    return Html("".join(_safe(content) for content in contents))


def tag(name: str, *contents: Content, **attributes: str | int | bool | None) -> Html:
    """An element. `class_` is written class, `data_view` data-view; an attribute that is None or False is left out."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        words.append(word if value is True else f'{word}="{escaped(str(value))}"')
    inner = "".join(_safe(content) for content in contents)
    return Html(f"<{' '.join(words)}>{inner}</{name}>")


def named(text: str, *, class_: str | None = None) -> Html:
    """A name that somebody else has chosen: it may be long, and its direction must not turn what stands around it."""
    return tag("bdi", text, class_=class_, title=text if len(text) > 24 else None)


def _safe(content: Content) -> str:
    if content is None:
        return ""
    return content.text if isinstance(content, Html) else escaped(str(content))
