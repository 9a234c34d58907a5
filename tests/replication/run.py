"""Replication between two servers with Teak tables; afterwards both must have the same rows.

Scenarios, each with its own servers:
  row, mixed    a load of all kinds of statements, by binlog_format (load.py)
  statement     a load of statements whose text may be logged
  snapshot      consistent snapshots and dumps under load, by their position in the binary log; semi-synchronous replication
                (snapshot.py)
  kill          kill -9 of primary and replica while money moves (kills.py); the replica logs what it applies
  kill-plain    the same with a replica without a binary log and with four workers
  row-parallel  the load of row, applied by eight workers in optimistic mode
  unread        changes of rows that the replica does not read, for each binlog_row_image (unread.py)
  parallel      conflicting transactions on few rows, in each slave_parallel_mode (parallel.py)

Each scenario counts as one test.
"""

import argparse
import sys
import time
from pathlib import Path

from tests.harness import BUILD, SqlError, bank, finish

from . import kills, load, parallel, snapshot, unread
from .load import Load
from .servers import Pair, Stopped, compare, log_faults, position_faults

FAULTS_SHOWN = 12
# Words that must not be in any error log.
BAD_WORDS = ("[ERROR]", "Lock wait timeout", "got signal", "assert")
# Messages of a replica when its primary is killed.
AWAY = ("Error reading packet from server", "Slave I/O: error reconnecting", "Slave I/O: error connecting")


def compare_sides(pair, databases, allowed=(), timeout=120):
    """Waits for the replica to catch up and compares; returns (tables, rows, faults)."""
    pair.mark()
    wanted = pair.catch_up(timeout)
    with pair.primary.connect() as left, pair.replica.connect() as right:
        tables, rows, faults = compare(left, right, databases)
        faults += position_faults(right, wanted)
    allowed = (*allowed, *pair.expected_messages)
    for server in (pair.primary, pair.replica):
        lines = [line for line in log_faults(server, BAD_WORDS) if not any(words in line for words in allowed)]
        faults += [f"{server.directory.name}'s log: {line}" for line in lines[:4]]
    return tables, rows, faults


def all_kinds(options, pair, kinds=load.ROW_KINDS):
    pair.create()
    load.create(pair.primary, kinds)
    running = Load(pair.primary, options.seed, options.writers, options.seconds, kinds).run()
    began = time.monotonic()
    tables, rows, faults = compare_sides(pair, [load.DATABASE])
    seconds = time.monotonic() - began
    return running.errors + faults, (
        f"{sum(running.counts.values())} statements and transactions of {len(running.counts)} kinds, {running.refused} refused; "
        f"{tables} tables with {rows} rows are the same, {seconds:.1f} s to catch up and compare")


def with_kills(options, pair):
    pair.create()
    kills.BANK.create(pair.primary)
    pair.catch_up()
    test = kills.Kills(pair, options.seed, options.writers, options.pause)
    for number in range(1, options.kills + 1):
        faults, text = test.round(number)
        print(f"kill {number:3} {text}", flush=True)
        if faults:
            return faults, f"at kill {number}"
    tables, rows, faults = compare_sides(pair, [bank.DATABASE], AWAY)
    return faults, (f"{options.kills} kills, {sum(test.acknowledged)} acknowledged transactions, {test.snapshots} consistent "
                    f"snapshots hold; {tables} tables with {rows} rows are the same")


def with_parallel_workers(options, pair):
    pair.create()
    parallel.create(pair.primary)
    pair.catch_up()
    faults, results = [], []
    for mode, threads in parallel.MODES:
        retries, found = parallel.one_mode(pair, mode, threads, options.seed, options.transactions)
        results.append(f"{mode} with {threads} workers {retries} retries")
        tables, rows, differences = compare_sides(pair, [parallel.DATABASE])
        faults += [f"{mode}: {fault}" for fault in found + differences]
        if mode in ("optimistic", "aggressive") and retries == 0:
            faults.append(f"{mode}: no transaction was retried, so nothing was tested")
    return faults, f"{', '.join(results)}; {tables} tables with {rows} rows are the same"


def with_unread_rows(options, pair):
    pair.create()
    unread.create(pair.primary)
    pair.catch_up()
    faults = []
    for image in ("FULL", "MINIMAL", "NOBLOB"):
        faults += unread.changes(pair, image, options.seed, 150)
    faults += unread.missing_row(pair)
    tables, rows, differences = compare_sides(pair, [unread.DATABASE])
    return faults + differences, f"{unread.unread_rows(pair.replica)} rows were not read; {tables} tables with {rows} rows are the same"


def with_snapshots(options, pair):
    pair.create()
    kills.BANK.create(pair.primary)
    pair.catch_up()
    acknowledged, results = [0] * options.writers, []
    for step in (lambda: snapshot.snapshots(pair, options.seconds, options.seed, acknowledged),
                 lambda: snapshot.from_dump(pair, options.seed, acknowledged),
                 lambda: snapshot.semi_synchronous(pair, options.seconds, options.seed, acknowledged)):
        faults, text = step()
        results.append(text)
        if faults:
            return faults, "; ".join(results)
    tables, rows, faults = compare_sides(pair, [bank.DATABASE], AWAY)
    return faults, f"{'; '.join(results)}; {tables} tables with {rows} rows are the same"


READ_FREE = "--teak-read-free-replication=ON"

# Name: the scenario, and the options of its servers.
SCENARIOS = {
    "row": (all_kinds, {"binlog_format": "ROW"}),
    "mixed": (lambda options, pair: all_kinds(options, pair, load.MIXED_KINDS), {"binlog_format": "MIXED"}),
    "statement": (lambda options, pair: all_kinds(options, pair, load.TEXT_KINDS), {"binlog_format": "STATEMENT"}),
    "row-parallel": (all_kinds, {"replica_options": ["--slave-parallel-threads=8", "--slave-parallel-mode=optimistic", READ_FREE]}),
    "unread": (with_unread_rows, {"replica_options": [READ_FREE]}),
    "parallel": (with_parallel_workers, {"primary_options": ["--binlog-commit-wait-count=3", "--binlog-commit-wait-usec=2000"]}),
    "snapshot": (with_snapshots, {}),
    "kill": (with_kills, {}),
    "kill-plain": (with_kills, {"replica_options": ["--skip-log-bin", "--skip-log-slave-updates", "--slave-parallel-threads=4", READ_FREE]}),
}


def run(name, options):
    """Runs one scenario with its servers; prints the result and returns whether it passed."""
    scenario, made_with = SCENARIOS[name]
    pair = Pair(Path(options.directory).absolute() / name, **made_with)
    try:
        faults, text = scenario(options, pair)
    except (SqlError, Stopped, RuntimeError) as error:
        faults, text = [str(error)], ""
    if not faults:
        pair.remove()
        print(f"{name}: {text}", flush=True)
        return True
    print(f"{name}: FAILED (seed {options.seed}) {text}")
    for fault in faults[:FAULTS_SHOWN]:
        print(f"   {fault}")
    if len(faults) > FAULTS_SHOWN:
        print(f"   and {len(faults) - FAULTS_SHOWN} more")
    print(f"   the servers' directories are kept in {pair.directory}", flush=True)
    pair.stop()
    return False


def main():
    arguments = argparse.ArgumentParser(description="Replicates Teak tables between two servers and compares them.")
    arguments.add_argument("scenario", nargs="*", help=" ".join(SCENARIOS))
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=5, help="seconds of each load")
    arguments.add_argument("--kills", type=int, default=5, help="rounds of each kill scenario")
    arguments.add_argument("--pause", type=float, default=1.5, help="maximum seconds before and after a kill")
    arguments.add_argument("--transactions", type=int, default=300, help="of the parallel scenario, in each mode")
    arguments.add_argument("--writers", type=int, default=3)
    arguments.add_argument("--directory", default=str(BUILD / "replication"))
    options = arguments.parse_args()
    unknown = set(options.scenario) - set(SCENARIOS)
    if unknown:
        arguments.error(f"there is no scenario {' '.join(unknown)}")
    held = [run(name, options) for name in options.scenario or SCENARIOS]
    return finish(held.count(True), held.count(False), f"{len(held)} scenarios")


if __name__ == "__main__":
    sys.exit(main())
