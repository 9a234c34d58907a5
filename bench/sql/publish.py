"""`make publish`: writes the tables of docs/performance.md and README.md and the plots in docs/images from the results in docs/results.

    python3 -m bench.sql.publish            rewrites the pages and plots from docs/results/*.json
    python3 -m bench.sql.publish --take=bench,sysbench,space
                                            first copies the newest results of make bench, make sysbench and make bench-space to docs/results
    python3 -m bench.sql.publish --check    changes nothing; fails if a page does not show the results

A table is between two comments, <!-- table NAME --> and <!-- end -->. Plots need matplotlib, which `make publish` installs into
a virtual environment under build/. The charts of make bench-space need no library.
"""

import argparse
import json
import re
import shutil
import statistics
import sys

from bench.space import figures as space
from tests.harness import ROOT

RESULTS = ROOT / "docs" / "results"
IMAGES = ROOT / "docs" / "images"
PAGES = [ROOT / "docs" / "performance.md", ROOT / "README.md"]
# The files in build/bench with the newest results.
NEWEST = {"bench": "latest.json", "sysbench": "sysbench.json", "space": "space.json"}
NOT_PUBLISHED = ["There are no published results of `make bench-space` yet."]
SPACE_CHARTS = {"bytes_per_row_idle": "space.svg", "rows_per_second": "space-loads.svg", "warm_rows_per_second": "space-scans.svg"}
TITLES = {"InnoDB": "InnoDB", "RocksDB": "MyRocks", "Teak": "Teak"}
COLORS = {"InnoDB": "#9aa5b1", "RocksDB": "#d9a25f", "Teak": "#2f7d5b"}
SCALES = {"MiB": 1 / 1048576, "ms": 1000, "us": 1e6}
# The measures in the README: workload, measure, title, unit.
HEADLINES = [
    ("insert", "rows_per_second", "1000-row INSERTs with 3 random keys", "rows/s"),
    ("load_keys", "rows_per_second", "LOAD DATA with 4 secondary keys", "rows/s"),
    ("load_keys", "disk_bytes", "files on disk after it", "MiB"),
    ("insert", "bytes_written", "bytes written by the INSERTs", "MiB"),
    ("point", "scan_rows_per_second", "full scan from cache", "rows/s"),
]


def load(name):
    path = RESULTS / name
    if not path.exists():
        sys.exit(f"error: There is no {path.relative_to(ROOT)}: run make bench and make sysbench, then this with --take.")
    return json.loads(path.read_text())


def number(value, unit):
    if value is None:
        return "-"
    value *= SCALES.get(unit, 1)
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 10 else f"{value:,.2f}"


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def ratio(value, base):
    return f"{value / base:.2f}" if value is not None and base else "-"


def engine_columns(engines):
    return [TITLES[engine] for engine in engines] + [f"Teak / {TITLES[engine]}" for engine in engines if engine != "Teak"]


def engine_cells(values, engines, unit):
    shown = [number(values.get(engine), unit) for engine in engines]
    return shown + [ratio(values["Teak"], values.get(engine)) for engine in engines if engine != "Teak"]


def bench_table(bench):
    engines = [engine for engine in bench["options"]["engines"] if engine in TITLES]
    lines = [row("workload", "measure", *engine_columns(engines)), row(*["---"] * (2 + 2 * len(engines) - 1))]
    for measure in bench["measures"]:
        is_detail = measure["title"].startswith(" ")
        title = "" if is_detail else measure["title"]
        what = measure["title"].strip() + f", {measure['unit']}" if is_detail else measure["unit"]
        lines.append(row(title, what, *engine_cells(measure["values"], engines, measure["unit"])))
    return lines


def headline_table(bench):
    engines = [engine for engine in ("InnoDB", "RocksDB", "Teak") if engine in bench["options"]["engines"]]
    found = {(measure["workload"], measure["measure"]): measure["values"] for measure in bench["measures"]}
    lines = [row("", *engine_columns(engines)), row(*["---"] * (2 * len(engines)))]
    for workload, measure, title, unit in HEADLINES:
        lines.append(row(f"{title}, {unit}", *engine_cells(found[workload, measure], engines, unit)))
    return lines


def sysbench_table(results):
    engines = [engine for engine in next(iter(results.values())) if engine in TITLES]
    lines = [row("test", "threads", *engine_columns(engines)), row(*["---"] * (2 + 2 * len(engines) - 1))]
    for name, rates in results.items():
        test, threads = name.split()
        medians = {engine: statistics.median(rates[engine]) for engine in engines}
        lines.append(row(test, threads, *engine_cells(medians, engines, "per second")))
    return lines


def machine_lines(bench):
    about, options = bench["machine"], bench["options"]
    runs = "one run" if options["repeat"] == 1 else f"medians of {options['repeat']} runs"
    return [f"{about['processor']}, {about['processors']} processors, {about['memory_bytes'] / 2**30:.0f} GiB of memory, "
            f"MariaDB {about['mariadb']}, commit {about['commit']}. {options['rows']:,} rows, {options['cache']} of cache for each engine, "
            f"durable at commit, {runs} on fresh servers, alternating between the engines."]


def with_tables(text, tables):
    def replace(found):
        name = found[1]
        if name not in tables:
            sys.exit(f"error: There is no table {name}.")
        return f"<!-- table {name} -->\n" + "\n".join(tables[name]) + "\n<!-- end -->"

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end -->", replace, text, flags=re.S)


def bars(axis, groups, engines, values, unit):
    width = 0.8 / len(engines)
    for place, engine in enumerate(engines):
        heights = [(values[group].get(engine) or 0) * SCALES.get(unit, 1) for group in groups]
        drawn = axis.bar([at + place * width for at in range(len(groups))], heights, width, label=TITLES[engine],
                         color=COLORS[engine])
        axis.bar_label(drawn, [f"{height / 1000:,.0f}k" if height >= 10000 else f"{height:,.0f}" for height in heights],
                       fontsize=7, padding=1)
    axis.set_xticks([at + 0.4 - width / 2 for at in range(len(groups))], groups, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="y", labelsize=7)


def plot(bench, results):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "teak", "svg.fonttype": "none", "font.family": "sans-serif"})
    from matplotlib import pyplot

    def save(figure, name):
        figure.tight_layout()
        figure.savefig(IMAGES / name, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)

    engines = [engine for engine in ("InnoDB", "RocksDB", "Teak") if engine in bench["options"]["engines"]]
    found = {(measure["workload"], measure["measure"]): measure["values"] for measure in bench["measures"]}
    figure, (rates, sizes, written) = pyplot.subplots(1, 3, figsize=(9.6, 3.0))
    names = {"load": "load,\nno keys", "load_keys": "load,\n4 keys", "insert": "INSERTs,\n3 keys"}
    for axis, measure, title, unit in ((rates, "rows_per_second", "rows per second (more is better)", ""),
                                       (sizes, "disk_bytes", "files on disk, MiB (less is better)", "MiB"),
                                       (written, "bytes_written", "bytes written, MiB (less is better)", "MiB")):
        bars(axis, list(names.values()), engines, {names[key]: found[key, measure] for key in names}, unit)
        axis.set_title(title, fontsize=9)
    rates.legend(fontsize=8, frameon=False)
    save(figure, "loads.svg")

    tests = sorted({name.split()[0] for name in results})
    counts = sorted({int(name.split()[1]) for name in results})
    engines = [engine for engine in ("InnoDB", "RocksDB", "Teak") if engine in next(iter(results.values()))]
    figure, axes = pyplot.subplots(len(counts), 1, figsize=(9.6, 2.6 * len(counts)), squeeze=False)
    for axis, threads in zip(axes[:, 0], counts):
        values = {}
        for test in tests:
            medians = {engine: statistics.median(results[f"{test} {threads}"][engine]) for engine in engines}
            values[test.replace("oltp_", "")] = {engine: medians[engine] / medians["InnoDB"] for engine in engines}
        width = 0.8 / len(engines)
        for place, engine in enumerate(engines):
            drawn = axis.bar([at + place * width for at in range(len(values))], [each[engine] for each in values.values()], width,
                             label=TITLES[engine], color=COLORS[engine])
            axis.bar_label(drawn, fmt="%.2f", fontsize=6, padding=1)
        axis.set_xticks([at + 0.4 - width / 2 for at in range(len(values))], list(values), fontsize=7)
        axis.set_title(f"sysbench, transactions per second relative to InnoDB, {threads} threads", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="y", labelsize=7)
    axes[0, 0].legend(fontsize=7, frameon=False, ncols=3)
    save(figure, "sysbench.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--take", default="", help=f"copy the newest results of these to docs/results first: {', '.join(NEWEST)}")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page does not show the results")
    options = parser.parse_args()
    for name in filter(None, options.take.split(",")):
        if name not in NEWEST:
            parser.error(f"there are no results of {name}")
        RESULTS.mkdir(exist_ok=True)
        shutil.copy(ROOT / "build" / "bench" / NEWEST[name], RESULTS / f"{name}.json")
    bench, results = load("bench.json"), load("sysbench.json")
    tables = {"bench": bench_table(bench), "headlines": headline_table(bench), "sysbench": sysbench_table(results),
              "machine": machine_lines(bench), "space": NOT_PUBLISHED}
    sizes = load("space.json") if (RESULTS / "space.json").exists() else None
    if sizes:
        tables["space"] = space.page(sizes)
    outdated = []
    for page in PAGES:
        text = page.read_text()
        new = with_tables(text, tables)
        if new != text:
            outdated.append(page.relative_to(ROOT))
            if not options.check:
                page.write_text(new)
    if options.check:
        for page in outdated:
            print(f"{page}: does not show docs/results: run make publish")
        return 1 if outdated else 0
    if sizes:
        for figure, name in SPACE_CHARTS.items():
            (IMAGES / name).write_text(space.chart(sizes, figure), encoding="utf-8")
    plot(bench, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
