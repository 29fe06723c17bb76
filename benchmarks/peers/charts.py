"""Draws bars as SVG: one row a system, one bar a series."""

from math import log
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, NAME_WIDTH, FIGURE_WIDTH = 760, 190, 110
BAR, ROW_GAP, TOP = 15, 9, 46
_STYLE = """
text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:14px}.key,.failed{fill:#656d76}
.ours{fill:#0969da}.ours2{fill:#80b8f0}.peer{fill:#8c959f}.peer2{fill:#c8cdd3}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.key,.failed{fill:#8d96a0}.peer{fill:#6e7681}.peer2{fill:#484f58}}
""".strip().replace("\n", "")


class Bars(NamedTuple):
    """One system's row: a length for each series, or None where it has no figure."""

    name: str
    values: list[float | None]
    texts: list[str]
    is_ours: bool


def chart(title: str, series: list[str], rows: list[Bars], least: float | None = None) -> str:
    """The picture, as the text of an SVG file; with the least value of a scale, its lengths are logarithms."""

    def length_of(value: float) -> float:
        share = value / longest if least is None else log(max(value / least, 1)) / log(max(longest / least, 2))
        return max(round(share * room, 1), 1.0)

    longest = max((value for row in rows for value in row.values if value is not None), default=1.0) or 1.0
    room = WIDTH - NAME_WIDTH - FIGURE_WIDTH
    row_height = BAR * len(series) + ROW_GAP
    height = TOP + row_height * len(rows) + 6
    key = ", ".join([*(["each row: " + ", ".join(series)] if series[1:] else []), *(["logarithmic"] if least else [])])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-size="12">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<text class="title" x="0" y="16">{escape(title)}</text><text class="key" x="0" y="34">{escape(key)}</text>',
    ]
    for number, row in enumerate(rows):
        top = TOP + number * row_height
        middle = top + BAR * len(series) / 2 + 4
        parts.append(f'<text x="{NAME_WIDTH - 8}" y="{middle:g}" text-anchor="end">{escape(row.name)}</text>')
        for place, (value, text) in enumerate(zip(row.values, row.texts, strict=True)):
            y = top + place * BAR
            color = ("ours" if row.is_ours else "peer") + ("2" if place % 2 else "")
            length = 0.0 if value is None else length_of(value)
            shade = "failed" if value is None else "figure"
            if length:
                parts.append(
                    f'<rect class="{color}" x="{NAME_WIDTH}" y="{y}" width="{length:g}" height="{BAR - 3}" rx="2"/>'
                )
            x = NAME_WIDTH + length + 5
            parts.append(f'<text class="{shade}" x="{x:g}" y="{y + BAR - 5}">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])
