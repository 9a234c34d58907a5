"""Draws some panels of the dashboard as one SVG file, from the data of a Prometheus server:

    python3 -m tests.monitoring.picture URL BEGIN END [FILE.svg]

BEGIN and END are seconds since 1970. The expressions are those of the dashboard; the lines are not Grafana's.
"""

import json
import math
import sys
import urllib.parse
import urllib.request
from pathlib import Path

from bench.memory.plot import HEIGHT, WIDTH, line_chart
from tests.harness import ROOT

from . import sources

POINTS = 180
RATE_SECONDS = 15
COLUMNS = 2
LEGEND_WIDTH = 90  # of long legends, in addition to the width of a chart
# Panels, and their units with a divisor.
PANELS = {
    "Rows written": ("rows/s", 1), "Statement times": ("ms", 1e-3), "Writer delays": ("s/s", 1), "Log size": ("MiB", 1 << 20), "Memtables": ("MiB", 1 << 20),
    "Memory": ("MiB", 1 << 20), "Age of transactions": ("s", 1), "Index files": ("MiB", 1 << 20),
}
LINES_MAX = 4


def series(url, expression, begin, end):
    """The points (seconds since `begin`, value) of an expression that has one series."""
    for variable, value in {"$job": ".*", "$instance": ".*", "$__rate_interval": f"{RATE_SECONDS}s"}.items():
        expression = expression.replace(variable, value)
    query = urllib.parse.urlencode({"query": expression, "start": begin, "end": end, "step": max((end - begin) / POINTS, 1)})
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{query}", timeout=60) as answer:
        found = json.load(answer)["data"]["result"]
    points = [(float(time) - begin, float(value)) for time, value in found[0]["values"]] if found else []
    return [(time, value) for time, value in points if math.isfinite(value)]


def picture(url, begin, end):
    panels = {panel["title"]: panel for panel in sources.panels(json.loads(sources.DASHBOARD.read_text()))}
    charts = []
    for title, (unit, divisor) in PANELS.items():
        lines = {}
        for target in panels[title]["targets"][:LINES_MAX]:
            points = series(url, target["expr"], begin, end)
            lines[target["legendFormat"]] = [(time, value / divisor) for time, value in points]
        charts.append(line_chart(title, "seconds", unit, lines))
    rows = -(-len(charts) // COLUMNS)
    width, height = COLUMNS * (WIDTH + LEGEND_WIDTH), rows * HEIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for number, chart in enumerate(charts):
        place = f'x="{number % COLUMNS * (WIDTH + LEGEND_WIDTH)}" y="{number // COLUMNS * HEIGHT}" width="{WIDTH}" height="{HEIGHT}" overflow="visible"'
        parts.append(chart.replace("<svg ", f"<svg {place} ", 1))
    return "\n".join([*parts, "</svg>", ""])


def main():
    if len(sys.argv) not in (4, 5):
        print(__doc__)
        return 2
    target = Path(sys.argv[4]) if len(sys.argv) > 4 else ROOT / "docs" / "images" / "dashboard.svg"
    target.write_text(picture(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
    print(f"-- {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
