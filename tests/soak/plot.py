"""Plots the samples of a soak run: python3 -m tests.soak.plot [SAMPLES.csv [PLOT.svg]]; needs matplotlib."""

import csv
import sys
from pathlib import Path

from tests.harness import BUILD, ROOT

MIB = 1 << 20
# Title, unit, scale, and the columns with their labels.
PANELS = [
    ("statements per second", "", 1, {"statements": "all sessions"}),
    ("latency without lock waits", "ms", 1, {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9", "longest_ms": "longest", "disk_stalled_ms": "disk stalled"}),
    ("log files", "MiB", MIB, {"log_bytes": "log", "Teak_log_bytes_limit": "bound"}),
    ("index files", "MiB", MIB, {"Teak_file_bytes": "files", "Teak_file_live_bytes": "live", "Teak_pending_flush_bytes": "to merge"}),
    ("memory", "MiB", MIB, {"resident_bytes": "resident", "Teak_cache_bytes_used": "used of the budget"}),
    ("write ids", "KiB", 1024, {"Teak_write_id_memory_bytes": "table of write ids"}),
    ("runs of one child", "", 1, {"Teak_child_runs_max": "maximum of all children"}),
    ("aborted write ids", "", 1, {"Teak_aborted_ranges": "ranges"}),
]


POINTS_MAX = 600


def read(path):
    """The samples by column. Of many samples, each point is the maximum of several."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    group = -(-len(rows) // POINTS_MAX)
    columns = {name: [float(row[name]) for row in rows] for name in rows[0]}
    return {name: [max(values[start:start + group]) for start in range(0, len(values), group)] for name, values in columns.items()}


def plot(samples, path):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "teak", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8})
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(4, 2, figsize=(9.6, 9.6), sharex=True)
    minutes = [second / 60 for second in samples["second"]]
    kills = [minutes[place] for place in range(1, len(minutes)) if samples["kills"][place] != samples["kills"][place - 1]]
    for axis, (title, unit, scale, columns) in zip(axes.flat, PANELS):
        for column, label in columns.items():
            axis.plot(minutes, [value / scale for value in samples[column]], label=label, linewidth=0.8)
        for minute in kills:
            axis.axvline(minute, color="#cccccc", linewidth=0.5, zorder=0)
        axis.set_title(f"{title}, {unit}" if unit else title, fontsize=9)
        axis.set_ylim(bottom=0)
        if unit == "ms":
            axis.set_yscale("log")
            axis.set_ylim(bottom=0.1)
        axis.legend(fontsize=7, frameon=False)
    for axis in axes[-1]:
        axis.set_xlabel("minutes; grey lines: kill -9 and recovery")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def main():
    samples = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "soak" / "samples.csv"
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs" / "images" / "soak.svg"
    plot(read(samples), target)
    print(f"-- {target}")


if __name__ == "__main__":
    main()
