"""Concurrent random transactions on a real server, whose histories are checked for Adya's anomalies.

1. Clients (processes) run short transactions on a few hot lists and registers, and record what they read.
2. After each round the final lists are read and the round is checked.

  python3 -m tests.isolation.run --transactions=1000000              1,000,000 transactions for each level
  python3 -m tests.isolation.run --engine=InnoDB --report            the same on InnoDB; nothing counts as a failure
Levels: READ UNCOMMITTED, READ COMMITTED, REPEATABLE READ, SNAPSHOT (REPEATABLE READ with teak_refuse_stale_writes=ON),
SERIALIZABLE (half of the clients with teak_refuse_stale_writes=ON).
Each level counts as one test.
"""

import argparse
import multiprocessing
import sys
import threading
import time
from pathlib import Path

from tests.harness import Server, finish
from tests.harness.wire import Lost, Session

from .checker import FORBIDDEN, Anomalies, Checker
from .client import CONFLICTS, DATABASE, LOCK_TIMEOUT, TABLES, Client, Unexpected, final_lists
from .history import COMMITTED

PER_ROUND = 20_000
HISTORIES_MAX = 20  # printed of one round
SETTINGS = {
    # An INSERT of several rows is a bulk load.
    "TEAK": ("teak_lock_timeout = 30000", "teak_refuse_stale_writes = {}", "teak_bulk_load_threshold = 0"),
    "INNODB": ("innodb_lock_wait_timeout = 3", "innodb_snapshot_isolation = {}"),
}


class Checkpoints:
    """A thread whose checkpoints write all rows to pages, so that the transactions read pages and not only memory."""

    def __init__(self, server, seconds):
        self.server, self.seconds = server, seconds
        self.ended = threading.Event()
        self.error = None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            session = Session(self.server.socket)
            while self.error is None and not self.ended.wait(self.seconds):
                answer = session.run("FLUSH ENGINE LOGS")
                if answer[0] == "error":
                    self.error = f"{answer[1]} {answer[2]} in a checkpoint"
            session.close()
        except Lost as error:
            self.error = f"the connection is lost: {error}"

    def start(self):
        if self.seconds:
            self.thread.start()

    def stop(self):
        self.ended.set()
        if self.seconds:
            self.thread.join()


def work(arguments):
    """One client's part of a round: its transactions, or the text of an error."""
    socket, number, level, settings, seed, count, conflicts = arguments
    try:
        client = Client(socket, number, level, settings, seed, conflicts)
        done = [client.transaction(each) for each in range(count)]
        client.session.close()
        return done
    except (Unexpected, Lost) as error:
        return f"{type(error).__name__}: {error}"


def settings_of(engine, level, client):
    # At SERIALIZABLE half of the clients have ON: the level must hold between clients with different settings.
    is_on = "ON" if level == "SNAPSHOT" or level == "SERIALIZABLE" and client % 2 else "OFF"
    return [f"SET SESSION {setting.format(is_on)}" for setting in SETTINGS[engine]]


def run_round(pool, server, options, level, number, count):
    session = Session(server.socket)
    for statement in (f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}",
                      *(table.format(options.engine) for table in TABLES)):
        answer = session.run(statement)
        if answer[0] == "error":
            raise SystemExit(f"{answer[2]} in: {statement}")
    real = "REPEATABLE READ" if level == "SNAPSHOT" else level
    conflicts = CONFLICTS if options.engine == "TEAK" else CONFLICTS | {LOCK_TIMEOUT}
    jobs = [(server.socket, each, real, settings_of(options.engine, level, each), f"{options.seed}-{level}-{number}",
             -(-count // options.clients), conflicts) for each in range(options.clients)]
    found, transactions = Anomalies(), []
    for part in pool.map(work, jobs, chunksize=1):
        if isinstance(part, str):
            found.add("unexpected", part)
        else:
            transactions += part
    if not found.counts:
        found = Checker(transactions, final_lists(session)).check()
    for table in ("lists", "registers"):
        answer = session.run(f"CHECK TABLE {table}")
        if answer[0] != "rows" or b"OK" not in answer[2][-1]:
            found.add("unexpected", f"CHECK TABLE {table}: {answer}")
    session.close()
    print_histories(found, transactions, FORBIDDEN[level] if not options.report else frozenset())
    return found, len(transactions), sum(one.status == COMMITTED for one in transactions)


def print_histories(found, transactions, kinds):
    """Prints the statements and answers of the transactions of forbidden anomalies."""
    members = {number for kind in kinds & set(found.involved) for number in found.involved[kind]}
    for one in [transactions[number] for number in sorted(members)][:HISTORIES_MAX]:
        print(f"    transaction {one.name}, {one.status}, began at {one.began:.6f}:")
        for ended, statement, answer in one.statements:
            print(f"        {ended:.6f} {statement} -> {str(answer)[:2000]}")


def run_level(pool, server, options, level):
    """Runs all rounds of a level; returns whether none had a forbidden anomaly, and the number of transactions."""
    began, total, committed, good, bad, anomalies = time.monotonic(), 0, 0, 0, 0, Anomalies()
    forbidden = FORBIDDEN[level] | {"unexpected"}
    while total < options.transactions:
        found, count, ended = run_round(pool, server, options, level, good + bad, min(PER_ROUND, options.transactions - total))
        anomalies.merge(found)
        is_bad = bool(forbidden & set(found.counts)) and not options.report
        good, bad = good + (not is_bad), bad + is_bad
        total, committed = total + count, committed + ended
        if count == 0:
            break
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(anomalies.counts.items())) or "none"
    print(f"{options.engine:6} {level:16} {total:>8} transactions, {committed:>8} committed, "
          f"{time.monotonic() - began:5.0f} s; anomalies: {counts}", flush=True)
    for kind, texts in sorted(anomalies.examples.items()):
        if kind in forbidden or options.examples:
            for text in texts:
                print(f"    {kind}: {text[:600]}")
    return bad == 0, total


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--transactions", type=int, default=20_000, help="of each level")
    parser.add_argument("--level", action="append", choices=list(FORBIDDEN), help="default: all")
    parser.add_argument("--engine", default="TEAK", type=str.upper, choices=list(SETTINGS))
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--cache", default="32M")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-seconds", type=float, default=0.2, help="between checkpoints; 0: none")
    parser.add_argument("--report", action="store_true", help="only count anomalies")
    parser.add_argument("--examples", action="store_true", help="print examples of allowed anomalies, too")
    parser.add_argument("--directory", default="build/isolation")
    options = parser.parse_args()

    directory = Path(options.directory).absolute()
    server = Server(directory / "server", [f"--cache={options.cache}"])
    checkpoints = Checkpoints(server, options.checkpoint_seconds)
    server.start_empty(directory)
    checkpoints.start()
    good = bad = transactions = 0
    try:
        with multiprocessing.get_context("fork").Pool(options.clients) as pool:
            for level in options.level or FORBIDDEN:
                held, count = run_level(pool, server, options, level)
                good, bad, transactions = good + held, bad + (not held), transactions + count
    except Lost as error:
        print(f"the connection is lost: {error}\n{server.log_tail()}")
        bad += 1
    finally:
        checkpoints.stop()
        server.stop()
    if checkpoints.error:
        print(checkpoints.error)
        bad += 1
    return finish(good, bad, f"{transactions:,} transactions")


if __name__ == "__main__":
    sys.exit(main())
