"""The results: medians of the runs, bars that are met or missed, tables as text and Markdown, and charts."""

import statistics

from bench.charts import bar_chart, number
from bench.sql.report import OURS, print_table

from . import columns

MIB = 1 << 20
# (figure, title, factor)
MEASURES = [
    ("table_bytes_at_end", "MiB at the end", 1 / MIB),
    ("table_bytes_idle", "idle", 1 / MIB),
    ("table_bytes_stopped", "stopped", 1 / MIB),
    ("bytes_per_row_at_end", "B a row at the end", 1),
    ("bytes_per_row_idle", "idle", 1),
    ("bytes_per_row_stopped", "stopped", 1),
    ("to_ours", f"/ {OURS}", 1),
    ("all_bytes_at_end", "all files, MiB at the end", 1 / MIB),
    ("all_bytes_idle", "idle", 1 / MIB),
    ("rows_per_second", "load, rows/s", 1),
    ("cold_rows_per_second", "scan, rows/s cold", 1),
    ("warm_rows_per_second", "warm", 1),
    ("cpu_per_row", "us a row", 1e6),
    ("memory_bytes", "server, MiB", 1 / MIB),
    ("to_live_bytes", "/ live bytes", 1),
]
# What a run records of these; the others are computed.
RECORDED = ["table_rows", *(figure for figure, *_ in MEASURES if figure != "to_ours" and not figure.startswith("bytes_per_row"))]
# Small tables are in memtables and logs until the server stops.
MOMENTS = {"at_end": "at the end of the load", "idle": "after 10 idle seconds", "stopped": "after a clean stop"}
# Figures that are published: title, whether less is better.
PUBLISHED = {
    "bytes_per_row_idle": "Bytes per row, 10 seconds after the load (less is better)",
    "rows_per_second": "Rows per second of the load (more is better)",
    "cold_rows_per_second": "Rows per second of the first scan after a restart (more is better)",
    "warm_rows_per_second": "Rows per second of later scans (more is better)",
}
TITLES = {"InnoDB page": "InnoDB page-compressed", "RocksDB": "MyRocks", "RocksDB zstd": "MyRocks zstd", "Parquet": "Parquet zstd",
          "pco": "pco files", "Teak": "Teak (zstd)"}


def title_of(engine):
    return TITLES.get(engine, engine)


def medians(runs, case, engines):
    """{engine: {figure: median}} of the runs of a case that did not fail."""
    found = {}
    for engine in engines:
        chosen = [run for run in runs if (run["case"], run["engine"]) == (case, engine) and "error" not in run]
        values = {figure: [run[figure] for run in chosen if run.get(figure) is not None] for figure in RECORDED}
        values = {figure: statistics.median(some) for figure, some in values.items() if some}
        if values:
            for moment in MOMENTS:
                values[f"bytes_per_row_{moment}"] = values[f"table_bytes_{moment}"] / values["table_rows"]
            found[engine] = values
    if OURS in found:
        for values in found.values():
            values["to_ours"] = values["table_bytes_idle"] / found[OURS]["table_bytes_idle"]
    return found


def bar(one, found, moment):
    """(what was reached, its text) of a bar at a moment; None if it was not measured."""
    ours, rival = found.get(OURS), found.get(one.rival)
    if not ours or one.rival and not rival:
        return None
    size = ours[f"table_bytes_{moment}"]
    if one.rival:
        reached = size / rival[f"table_bytes_{moment}"]
        return reached, f"{reached:.3f} of {title_of(one.rival)}, at most {one.limit:g}"
    if one.unit == "MiB":
        return size / MIB, f"{size / MIB:.2f} MiB, at most {one.limit:g}"
    reached = ours[f"bytes_per_row_{moment}"]
    return reached, f"{reached:.2f} {one.unit}, at most {one.limit:g}"


def is_in_files(figures, moment):
    """Whether most of an engine's rows are in the files of the table, and not only in its memory and log."""
    return 2 * figures[f"table_bytes_{moment}"] >= figures["table_bytes_idle"]


def bars(case, found):
    """A line for each bar and moment: what was reached, and whether it is enough."""
    lines = []
    for one in case.bars:
        rows = found.get(OURS, {}).get("table_rows")
        if one.rows and rows is not None and rows != one.rows:
            lines.append(f"bar of {one.limit:g} {one.unit}: not judged, because it is one of {one.rows:,} rows, and these are {rows:,.0f}")
            continue
        for moment, when in MOMENTS.items():
            reached = bar(one, found, moment)
            if reached is None:
                lines.append(f"bar of {one.limit:g} {'of ' + title_of(one.rival) if one.rival else one.unit}, {when}: not measured")
            elif not all(is_in_files(found[engine], moment) for engine in (OURS, one.rival) if engine):
                lines.append(f"{when}: not judged, because most rows are not in the table's files yet")
            else:
                lines.append(f"{when}: {reached[1]}: {'met' if reached[0] <= one.limit else 'MISSED'}")
    return lines


def wrong_answers(case, runs, definitions):
    """A line for each engine whose scan had other sums than that of the first one. `definitions`: the tables' columns."""
    answers = [(run["engine"], run["answers"]) for run in runs if run["case"] == case.name and "answers" in run]
    wrong = []
    for engine, answer in answers[1:]:
        first, right = answers[0]
        pairs = zip(definitions, right, answer)
        if len(answer) != len(right) or not all(columns.same(*pair) for pair in pairs):
            wrong.append(f"WRONG ANSWER: {case.name}: {engine} has other sums than {first}")
    return list(dict.fromkeys(wrong))


def table(found, notes):
    """The header and a line for each engine. `notes`: {engine: text}."""
    used = [one for one in MEASURES if any(one[0] in values for values in found.values())]
    lines = [[title_of(engine), notes.get(engine, ""),
              *("-" if figure not in values else number(values[figure] * factor) for figure, _, factor in used)]
             for engine, values in found.items()]
    return ["", "", *(title for _, title, _ in used)], lines


def print_case(case, runs, engines, notes, missing):
    found = medians(runs, case.name, engines)
    rows = next((values["table_rows"] for values in found.values()), 0)
    print(f"\n{case.name}: {case.title}; {rows:,.0f} rows")
    if found:
        print_table(*table(found, notes))
    for line in bars(case, found):
        print(f"   {line}")
    for engine, reason in missing.items():
        print(f"   not measured: {title_of(engine)}: {reason}")
    for run in runs:
        if run["case"] == case.name and "error" in run:
            print(f"   FAILED: {title_of(run['engine'])}: {run['error'].splitlines()[0][:300]}")


# ---- what is published -----------------------------------------------------------------------------------------------

def summary(cases, runs, options, missing):
    """What `make publish` needs, as a dictionary for JSON. `missing`: {case: {engine: reason}}."""
    return {"cases": [{"name": case.name, "title": case.title, "engines": medians(runs, case.name, options.engines),
                       "bars": bars(case, medians(runs, case.name, options.engines)), "missing": missing[case.name]} for case in cases]}


def merged(earlier, results):
    """The results with the data sets of earlier ones, if these are of the same builds, machine and options: a run may be divided."""
    def same(one):
        return one["machine"], {name: value for name, value in one["options"].items() if name != "cases"}
    if earlier is None or same(earlier) != same(results):
        return results
    cases = {case["name"]: case for case in [*earlier["cases"], *results["cases"]]}
    return {**results, "cases": list(cases.values())}


def chart(results, figure):
    groups = {case["title"]: {title_of(engine): values[figure] for engine, values in case["engines"].items() if figure in values}
              for case in results["cases"]}
    return bar_chart(PUBLISHED[figure], {title: values for title, values in groups.items() if values}, columns=2, column_width=480,
                     same_scale=False)


def markdown(results, figure):
    """A Markdown table: a line for each engine, a column for each data set."""
    engines = list(dict.fromkeys(engine for case in results["cases"] for engine in case["engines"]))
    lines = [["", *(case["title"] for case in results["cases"])], ["---"] * (1 + len(results["cases"]))]
    for engine in engines:
        values = [case["engines"].get(engine, {}).get(figure) for case in results["cases"]]
        lines.append([title_of(engine), *("-" if value is None else number(value) for value in values)])
    return ["| " + " | ".join(line) + " |" for line in lines]


def page(results):
    """The lines of the section of docs/performance.md below its explanation."""
    about, options = results["machine"], results["options"]
    runs = "one run" if options["repeat"] == 1 else f"medians of {options['repeat']} runs"
    lines = [f"{about['processor']}, {options['cores']} processors, MariaDB {about['mariadb']}, commit {about['commit']}, {results['date']}; "
             f"{options['rows']:,} rows (half as many of sensors and of the web log), TPC-H at scale {options['scale']:g}, "
             f"{options['cache']} of cache, {runs}.", "", f"![{PUBLISHED['bytes_per_row_idle']}](images/space.svg)"]
    for figure, title in PUBLISHED.items():
        lines += ["", f"{title}:", "", *markdown(results, figure)]
    judged = [f"- {case['title']}, {line}" for case in results["cases"] for line in case["bars"]]
    if judged:
        lines += ["", "Bounds of Teak's files:", "", *judged]
    reasons = [f"- {case['title']}: {title_of(engine)}, because {reason}" for case in results["cases"] for engine, reason in case["missing"].items()
               if engine != "pco"]
    if reasons:
        lines += ["", "Not measured:", "", *reasons]
    return lines
