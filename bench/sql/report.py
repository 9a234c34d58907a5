"""The results of a benchmark's runs: medians, ratios to InnoDB, and whether the goals are met."""

import statistics

REFERENCE = "InnoDB"
OURS = "Teak"

# (workload, measure, title, unit, goal). The goal applies to Teak's ratio to InnoDB, for example (">=", 1.5) or ("<=",
# 0.35).
MEASURES = [
    ("load", "rows_per_second", "LOAD DATA, no key", "rows/s", (">=", 1.0)),
    ("load", "cpu_per_row", "  processor time per row", "us", None),
    ("load", "bytes_written", "  bytes written", "MiB", None),
    ("load", "disk_bytes_at_end", "  files at the end of the load", "MiB", None),
    ("load", "disk_bytes_idle", "  files after 10 idle seconds", "MiB", None),
    ("load", "disk_bytes", "  files after a clean stop", "MiB", ("<=", 0.35)),
    ("load_keys", "rows_per_second", "LOAD DATA, 4 secondary keys", "rows/s", (">=", 1.5)),
    ("load_keys", "cpu_per_row", "  processor time per row", "us", None),
    ("load_keys", "bytes_written", "  bytes written", "MiB", None),
    ("load_keys", "disk_bytes_at_end", "  files at the end of the load", "MiB", None),
    ("load_keys", "disk_bytes_idle", "  files after 10 idle seconds", "MiB", None),
    ("load_keys", "disk_bytes", "  files after a clean stop", "MiB", ("<=", 0.35)),
    ("insert", "rows_per_second", "1000-row INSERTs, 3 random keys", "rows/s", (">=", 1.0)),
    ("insert", "cpu_per_row", "  processor time per row", "us", None),
    ("insert", "bytes_written", "  bytes written", "MiB", ("<=", 0.4)),
    ("insert", "disk_bytes_at_end", "  files at the end of the load", "MiB", None),
    ("insert", "disk_bytes_idle", "  files after 10 idle seconds", "MiB", None),
    ("insert", "disk_bytes", "  files after a clean stop", "MiB", None),
    ("insert", "longest", "  longest statement", "ms", None),
    ("point", "rows_per_second", "point SELECT by primary key", "rows/s", (">=", 0.8)),
    ("point", "cpu_per_row", "  processor time per row", "us", None),
    ("load", "scan_rows_per_second", "full scan, no key", "rows/s", (">=", 1.0)),
    ("load", "scan_first_rows_per_second", "  first one after a restart", "rows/s", None),
    ("point", "scan_rows_per_second", "full scan, from cache", "rows/s", (">=", 1.0)),
    ("load", "memory_bytes", "server's memory at most: load", "MiB", None),
    ("load_keys", "memory_bytes", "  load with keys", "MiB", None),
    ("insert", "memory_bytes", "  inserts", "MiB", None),
]


def median(runs, workload, engine, measure):
    values = [run[measure] for run in runs
              if run["workload"] == workload and run["engine"] == engine and run.get(measure) is not None]
    return statistics.median(values) if values else None


def shown(value, unit):
    if value is None:
        return "-"
    if unit == "MiB":
        return f"{value / 1048576:,.1f}"
    if unit == "ms":
        return f"{value * 1000:,.1f}"
    if unit == "us":
        return f"{value * 1e6:,.2f}"
    return f"{value:,.0f}"


def summary(runs, engines):
    """The measures as dictionaries: title, unit, value by engine, Teak's ratio to InnoDB, goal, met."""
    found = []
    for workload, measure, title, unit, goal in MEASURES:
        values = {engine: median(runs, workload, engine, measure) for engine in engines}
        if all(value is None for value in values.values()):
            continue
        ours, reference = values.get(OURS), values.get(REFERENCE)
        ratio = ours / reference if ours is not None and reference else None
        met = None
        if goal and ratio is not None:
            met = ratio >= goal[1] if goal[0] == ">=" else ratio <= goal[1]
        found.append({"workload": workload, "measure": measure, "title": title, "unit": unit, "values": values,
                      "ratio": ratio, "goal": f"{goal[0]} {goal[1]:g}" if goal else None, "met": met})
    return found


def print_report(measures, engines):
    header = ["", "", *engines, f"{OURS}/{REFERENCE}", "goal", ""]
    lines = [[row["title"], row["unit"], *(shown(row["values"][engine], row["unit"]) for engine in engines),
              f"{row['ratio']:.2f}" if row["ratio"] is not None else "-", row["goal"] or "",
              {True: "met", False: "MISSED", None: ""}[row["met"]]] for row in measures]
    print_table(header, lines)


def print_table(header, lines):
    """Prints lines of cells below a header; the first two columns are aligned to the left."""
    widths = [max(len(line[column]) for line in [header, *lines]) for column in range(len(header))]
    for number, line in enumerate([header, *lines]):
        print("  ".join(cell.ljust(width) if column < 2 else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(line, widths))).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
