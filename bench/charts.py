"""A chart of bars as SVG, without a library."""

from html import escape

BAR_HEIGHT, BAR_GAP, LEFT, NUMBER_WIDTH = 14, 3, 130, 90
WIDTH = 760
COLORS = {"BLACKHOLE": "#d8dde3", "InnoDB": "#9aa5b1", "InnoDB bulk": "#6f7c8a", "InnoDB compressed": "#84909d", "InnoDB page": "#6f7c8a",
          "RocksDB": "#d9a25f", "RocksDB bulk": "#b57f3c", "RocksDB zstd": "#b57f3c", "Aria": "#a8b58f", "ARCHIVE": "#c3a5b4",
          "Parquet": "#8a7fb5", "pco": "#a9a1c9", "Before": "#8fc0a8", "Teak": "#2f7d5b"}
OTHER, OTHER_OF_TEAK = "#888888", "#8fc0a8"


def color(name):
    return COLORS.get(name) or (OTHER_OF_TEAK if name.startswith("Teak") else OTHER)


def number(value):
    """A value in a chart or a table: no more digits than are meaningful."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"


def _group(title, values, top, left, y, width_max):
    """The bars of a group below its title; returns their text and the position below them."""
    parts = [f'<text x="{left + 10}" y="{y + 12}" font-size="12" font-weight="bold">{escape(title)}</text>']
    y += 20
    for name, value in values.items():
        width = value / top * width_max if top else 0
        parts.append(f'<text x="{left + LEFT - 6}" y="{y + 11}" font-size="11" text-anchor="end">{escape(name)}</text>'
                     f'<rect x="{left + LEFT}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" fill="{color(name)}"/>'
                     f'<text x="{left + LEFT + width + 6:.1f}" y="{y + 11}" font-size="11">{number(value)}</text>')
        y += BAR_HEIGHT + BAR_GAP
    return parts, y + 10


def bar_chart(title, groups, columns=1, column_width=WIDTH, same_scale=True):
    """The text of an SVG file: a bar for each value. `groups`: {group: {name: value}}. The groups fill `columns` columns, line
    by line; without `same_scale` the longest bar of each group has the full width."""
    highest = max((value for group in groups.values() for value in group.values()), default=0)
    parts, y, bottom = [f'<text x="10" y="20" font-size="14">{escape(title)}</text>'], 40, 40
    for position, (name, values) in enumerate(groups.items()):
        if position % columns == 0:
            y = bottom
        top = highest if same_scale else max(values.values(), default=0)
        drawn, end = _group(name, values, top, position % columns * column_width, y, column_width - LEFT - NUMBER_WIDTH)
        parts += drawn
        bottom = max(bottom, end)
    width = column_width * columns
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom}" viewBox="0 0 {width} {bottom}" '
            f'font-family="sans-serif"><rect width="{width}" height="{bottom}" fill="white"/>{"".join(parts)}</svg>\n')
