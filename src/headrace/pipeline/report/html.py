"""HTML and SVG that cannot be spoilt by what is in it: whatever is not markup already is escaped."""

import html
import re
from collections.abc import Sequence

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


WIDTH, HEIGHT = 1_000, 1_000
"""The units of a plot; the browser stretches them, and strokes keep their width."""
COLUMN_SHARE = 0.84
"""Of a bucket's room that its column takes; the rest sets columns apart."""
COLUMN_MAX = 0.04
"""Of the plot's width: a column that is alone is not a wall."""

Points = Sequence[tuple[float, float | None]]


def plot(*shapes: Content, class_: str = "shapes") -> Html:
    """A drawing that fills its place."""
    return tag(
        "svg", *shapes, class_=class_, viewBox=f"0 0 {WIDTH} {HEIGHT}", preserveAspectRatio="none", aria_hidden="true"
    )


def line(points: Points, class_: str) -> Html:
    """A line through points; it is interrupted where y is None, and a point without neighbours is a dot."""
    parts: list[str] = []
    dots: list[str] = []
    is_down = False
    for index, (x, y) in enumerate(points):
        if y is not None:
            alone = not is_down and (index + 1 == len(points) or points[index + 1][1] is None)
            place = f"{_x(x)} {_y(y)}"
            (dots if alone else parts).append(f"M{place}h0" if alone else f"{'L' if is_down else 'M'}{place}")
        is_down = y is not None
    paths = [(parts, f"line {class_}"), (dots, f"line dots {class_}")]
    return joined(*(tag("path", d="".join(path), class_=look) for path, look in paths if path))


def area(lower: Sequence[tuple[float, float]], upper: Sequence[tuple[float, float]], class_: str) -> Html | None:
    """The room between two lines."""
    outline = [*upper, *reversed(lower)]
    if not outline or all(top == bottom for (_, bottom), (_, top) in zip(lower, upper, strict=True)):
        return None
    path = "L".join(f"{_x(x)} {_y(y)}" for x, y in outline)
    return tag("path", d=f"M{path}Z", class_=f"area {class_}")


def columns(lower: Sequence[float], upper: Sequence[float], class_: str) -> Html | None:
    """A column for each place where the two differ; places share the width evenly."""
    room = 1 / len(lower) if lower else 1
    width = min(room * COLUMN_SHARE, COLUMN_MAX)
    parts = [
        f"M{_x((index + 0.5) * room - width / 2)} {_y(bottom)}h{_x(width)}V{_y(top)}h{_x(-width)}Z"
        for index, (bottom, top) in enumerate(zip(lower, upper, strict=True))
        if top > bottom
    ]
    return tag("path", d="".join(parts), class_=f"column {class_}") if parts else None


def _x(x: float) -> str:
    return _number(x * WIDTH)


def _y(y: float) -> str:
    return _number((1 - y) * HEIGHT)


def _number(value: float) -> str:
    text = f"{value:.1f}"
    return text.removesuffix(".0")
