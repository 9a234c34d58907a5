"""The results as tables, CSV and plots."""

import csv
import statistics
from html import escape

from bench.sql.report import OURS, print_table

from .engines import FLOOR

MIB = 1 << 20
# (figure, title, factor)
MEASURES = [
    ("seconds", "time, s", 1),
    ("rows_per_second", "rows/s", 1),
    ("to_floor", f"time, {FLOOR} = 1", 1),
    ("cpu_per_row", "processor time per row, us", 1e6),
    ("written_at_end", "written at the end, MiB", 1 / MIB),
    ("written", "written in all, MiB", 1 / MIB),
    ("table_bytes_at_end", "files at the end, MiB", 1 / MIB),
    ("table_bytes_idle", "files after 10 s, MiB", 1 / MIB),
    ("table_bytes_stopped", "files after a stop, MiB", 1 / MIB),
    ("memory_bytes", "server's memory, MiB", 1 / MIB),
]
COLORS = {"BLACKHOLE": "#d8dde3", "InnoDB": "#9aa5b1", "InnoDB bulk": "#6f7c8a", "RocksDB": "#d9a25f", "RocksDB bulk": "#b57f3c",
          "Aria": "#a8b58f", "ARCHIVE": "#c3a5b4", "Before": "#8fc0a8", "Teak": "#2f7d5b"}
BAR_HEIGHT, BAR_GAP, LEFT, WIDTH, BARS_RIGHT = 14, 3, 120, 760, 640


def medians(runs, cores, case, engines):
    """{figure: {engine: median}} of the runs that did not fail."""
    chosen = [run for run in runs if (run["cores"], run["case"]) == (cores, case) and "error" not in run]
    found = {}
    for figure, *_ in MEASURES:
        values = {engine: [run[figure] for run in chosen if run["engine"] == engine and run.get(figure) is not None] for engine in engines}
        found[figure] = {engine: statistics.median(some) for engine, some in values.items() if some}
    floor = found["seconds"].get(FLOOR)
    if floor:
        found["to_floor"] = {engine: seconds / floor for engine, seconds in found["seconds"].items()}
    return found


def bars(case, found):
    """Lines about the bars of the case: what was reached, and whether it is enough."""
    lines = []
    ours = found["to_floor"].get(OURS)
    if case.floor_max and ours is not None:
        lines.append(f"time {ours:.2f} of {FLOOR}'s, at most {case.floor_max:g}: {'met' if ours <= case.floor_max else 'MISSED'}")
    rates = found["rows_per_second"]
    rivals = {engine: rate for engine, rate in rates.items() if engine not in (FLOOR, OURS, "Before")}
    for engine, least in case.rates_min.items():
        rate = max(rivals.values(), default=None) if engine == "*" else rivals.get(engine)
        if rate and OURS in rates:
            ratio = rates[OURS] / rate
            name = "the fastest rival" if engine == "*" else engine
            lines.append(f"{ratio:.2f} times {name}, at least {least:g}: {'met' if ratio >= least else 'MISSED'}")
    return lines


def shown(value):
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def print_case(case, runs, cores, engines):
    found = medians(runs, cores, case.name, engines)
    lines = [[title, "", *(shown(found[figure][engine] * factor if engine in found[figure] else None) for engine in engines)]
             for figure, title, factor in MEASURES if found[figure]]
    print(f"\n{case.title}; {cores} processor{'s' if cores > 1 else ''}")
    if lines:
        print_table(["", "", *engines], lines)
    for line in bars(case, found):
        print(f"   {line}")
    for run in runs:
        if (run["cores"], run["case"]) == (cores, case.name) and "error" in run:
            print(f"FAILED: {run['engine']}: {run['error']}")


def write_runs(path, runs):
    names = list(dict.fromkeys(name for run in runs for name in run))
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(runs)


def chart(title, rates):
    """The text of an SVG file: a bar for each engine's rate. `rates`: {group: {engine: rows per second}}."""
    top = max((rate for group in rates.values() for rate in group.values()), default=1)
    parts, y = [f'<text x="10" y="20" font-size="14">{escape(title)}</text>'], 40
    for group, values in rates.items():
        parts.append(f'<text x="10" y="{y + 12}" font-size="12" font-weight="bold">{escape(group)}</text>')
        y += 20
        for engine, rate in values.items():
            width = rate / top * (BARS_RIGHT - LEFT)
            parts.append(f'<text x="{LEFT - 6}" y="{y + 11}" font-size="11" text-anchor="end">{escape(engine)}</text>'
                         f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" fill="{COLORS.get(engine, "#888")}"/>'
                         f'<text x="{LEFT + width + 6:.1f}" y="{y + 11}" font-size="11">{rate:,.0f}</text>')
            y += BAR_HEIGHT + BAR_GAP
        y += 10
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif">'
            f'<rect width="{WIDTH}" height="{y}" fill="white"/>{"".join(parts)}</svg>\n')


def write_chart(path, cases, runs, cores, engines):
    rates = {case.title: medians(runs, cores, case.name, engines)["rows_per_second"] for case in cases}
    title = f"rows per second, {cores} processor{'s' if cores > 1 else ''} (more is better)"
    path.write_text(chart(title, {name: values for name, values in rates.items() if values}), encoding="utf-8")
