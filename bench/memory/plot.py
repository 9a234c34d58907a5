"""A chart of lines as SVG, without a library."""

from html import escape

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 70, 110, 30, 40
COLORS = ["#2f7d5b", "#9aa5b1", "#d9a25f", "#7a5ba6"]
TICKS = 5


def nice_step(highest):
    """A step of 1, 2 or 5 times a power of ten, at most TICKS of which reach the highest value."""
    step = 1.0
    while step * TICKS < highest:
        step *= 10
    while step > highest / TICKS / 1000 and step / 10 * TICKS >= highest:
        step /= 10
    return next(step * factor / 10 for factor in (2, 5, 10) if step * factor / 10 * TICKS >= highest)


def short(value):
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def line_chart(title, x_title, y_title, lines):
    """The text of an SVG file. `lines` has a list of points (x, y), none of them negative, by name."""
    points = [point for line in lines.values() for point in line]
    x_step = nice_step(max((x for x, _ in points), default=1) or 1)
    y_step = nice_step(max((y for _, y in points), default=1) or 1)
    x_max, y_max = (step * TICKS for step in (x_step, y_step))

    def place(x, y):
        return (f"{LEFT + x / x_max * (WIDTH - LEFT - RIGHT):.1f}", f"{HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM):.1f}")
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             f'<text x="{LEFT}" y="18" font-size="13">{escape(title)}, {escape(y_title)}</text>']
    for number in range(TICKS + 1):
        (left, y), (right, _) = place(0, number * y_step), place(x_max, number * y_step)
        parts.append(f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y}" text-anchor="end" dominant-baseline="middle">{short(number * y_step)}</text>')
        x, _ = place(number * x_step, 0)
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(number * x_step)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        drawn = " ".join(",".join(place(x, y)) for x, y in line)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{color}" stroke-width="1.2"/>')
        y = TOP + 14 * number
        parts.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{y}" width="10" height="10" fill="{color}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 27}" y="{y + 9}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
