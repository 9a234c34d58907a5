"""The tables and files of the results: medians over the repetitions, ratios between the engines, CSV, plots."""

import csv
import statistics

from bench.sql.report import OURS, print_table

from .plot import line_chart

MIB = 1 << 20
# (figure, title, unit, factor)
MEASURES = [
    ("rows_per_second", "rate", "rows/s", 1),
    ("first_tenth", "  in the first tenth", "rows/s", 1),
    ("second_tenth", "  in the second tenth", "rows/s", 1),
    ("last_tenth", "  in the last tenth", "rows/s", 1),
    ("last_to_second", "  last to second tenth", "", 1),
    ("seconds_without_progress", "seconds without progress", "s", 1),
    ("longest_gap", "longest gap between statements", "ms", 1000),
    ("p999", "statement, p99.9", "ms", 1000),
    ("longest", "statement, longest", "ms", 1000),
    ("conflicts", "statements repeated after a conflict", "", 1),
    ("delete_p999", "DELETE, p99.9", "ms", 1000),
    ("delete_longest", "DELETE, longest", "ms", 1000),
    ("min_p50", "MIN, median", "ms", 1000),
    ("min_p50_last_tenth", "MIN, median of the last tenth", "ms", 1000),
    ("min_longest", "MIN, longest", "ms", 1000),
    ("first_ten_p50", "first ten rows, median", "ms", 1000),
    ("first_ten_p50_last_tenth", "first ten rows, median of the last tenth", "ms", 1000),
    ("first_ten_longest", "first ten rows, longest", "ms", 1000),
    *((f"{key}_{state}_{figure}", f"{key} key, {rows}{title}", unit, factor)
      for key in ("primary", "secondary")
      for state, rows in (("cold", "cache cold"), ("random", "random rows"), ("warm", "cache warm"))
      for figure, title, unit, factor in (
          ("rate", "", "statements/s", 1), ("p50", ", median", "ms", 1000), ("p999", ", p99.9", "ms", 1000),
          ("reads", ", reads from the disk", "", 1), ("bytes_read", ", read from the disk", "KiB", 1 / 1024),
          ("user", ", processor outside of the kernel", "us", 1e6), ("kernel", ", processor in the kernel", "us", 1e6))),
    ("written_per_row_at_end", "bytes written per row at the end", "B", 1),
    ("written_per_row_settled", "bytes written per row, settled", "B", 1),
    ("written_per_row", "bytes written per row, until a clean stop", "B", 1),
    ("table_bytes_at_end", "table's files at the end", "MiB", 1 / MIB),
    ("table_bytes_settled", "table's files, settled", "MiB", 1 / MIB),
    ("table_bytes_stopped", "table's files after a clean stop", "MiB", 1 / MIB),
    ("data_bytes_at_end", "all files at the end", "MiB", 1 / MIB),
    ("data_bytes_settled", "all files, settled", "MiB", 1 / MIB),
    ("data_bytes_stopped", "all files after a clean stop", "MiB", 1 / MIB),
]


def shown(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"


def medians(runs, setting, workload, engines):
    """{figure: {engine: median}} of the repetitions that did not fail."""
    found = {}
    for figure, *_ in MEASURES:
        values = {engine: [run[figure] for run in runs if run["setting"] == setting and run["workload"] == workload
                           and run["engine"] == engine and run.get(figure) is not None] for engine in engines}
        if any(values.values()):
            found[figure] = {engine: statistics.median(values[engine]) if values[engine] else None for engine in engines}
    return found


def ratios(values, engines):
    """The ratios of Teak to the other engines; None where a figure is missing or zero."""
    ours = values.get(OURS)
    return [ours / values[engine] if ours is not None and values.get(engine) else None for engine in engines if engine != OURS]


def print_workload(title, runs, setting, workload, engines):
    found = medians(runs, setting, workload, engines)
    others = [engine for engine in engines if engine != OURS] if OURS in engines else []
    lines = []
    for figure, name, unit, factor in MEASURES:
        if figure in found:
            values = found[figure]
            lines.append([name, unit, *(shown(None if values[engine] is None else values[engine] * factor) for engine in engines),
                          *(shown(ratio) for ratio in (ratios(values, engines) if others else []))])
    failed = [f"{run['engine']}: {run['error']}" for run in runs if run["setting"] == setting and run["workload"] == workload and "error" in run]
    print(f"\n{title}")
    if lines:
        print_table(["", "", *engines, *(f"{OURS}/{engine}" for engine in others)], lines)
    for line in failed:
        print(f"FAILED: {line}")


def write_runs(path, runs):
    """All figures of all runs, a line for each."""
    names = list(dict.fromkeys(name for run in runs for name in run))
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        for run in runs:
            table.writerow({name: "; ".join(value) if isinstance(value, list) else value for name, value in run.items()})


def write_series(path, series):
    """Rows, statements and the longest statement of each second, for each kind of statement."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["statement", "second", "rows", "statements", "longest_ms"])
        for name, one in series.items():
            table.writerows([name or "write", second, rows, statements, round(longest * 1000, 3)]
                            for second, rows, statements, longest in one.per_second())


def rate_points(series, points=200):
    """(rows so far, rows per second) of a run, in at most so many intervals of equal numbers of rows."""
    total, done, counted, begun, found = series.total(), 0, 0, 0.0, []
    for end, _, rows in series.by_end():
        done += rows
        if done * points >= total * (len(found) + 1) and end > begun:
            found.append((done, (done - counted) / (end - begun)))
            counted, begun = done, end
    return found


def write_plot(path, title, series_of_engines):
    """The rate by the number of rows, a line for each engine."""
    lines = {engine: rate_points(series) for engine, series in series_of_engines.items()}
    path.write_text(line_chart(title, "rows", "rows/s", lines), encoding="utf-8")
