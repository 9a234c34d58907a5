"""The results as tables and plots."""

import statistics

from bench.charts import bar_chart
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


def write_chart(path, cases, runs, cores, engines):
    rates = {case.title: medians(runs, cores, case.name, engines)["rows_per_second"] for case in cases}
    title = f"rows per second, {cores} processor{'s' if cores > 1 else ''} (more is better)"
    path.write_text(bar_chart(title, {name: values for name, values in rates.items() if values}), encoding="utf-8")
