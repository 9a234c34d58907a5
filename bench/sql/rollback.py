"""`make bench-rollback`: the time of a large transaction's rollback, and of reads before and after it.

For each engine, on a fresh private server, one transaction updates every row of a table of ROWS rows with a secondary
key (the entries in both indexes change), and is rolled back. Reads are timed before the transaction, right after the
rollback, and after REST idle seconds, in which engines purge: a full scan, the same rows by the secondary key, and
prepared point SELECTs.
"""

import argparse
import statistics
import time

from tests.harness import wait_for_background_writes

from .run import client, say, server_of

TABLE = "id INT UNSIGNED NOT NULL PRIMARY KEY, n INT NOT NULL, pad VARCHAR(60) NOT NULL, KEY (n)"
SCAN = "SELECT COUNT(*), SUM(n), SUM(LENGTH(pad)) FROM t"
BY_KEY = "SELECT COUNT(*), SUM(n) FROM t FORCE INDEX (n) WHERE n >= 0"


def timed(connection, statement, times=1):
    """The median time of the executions in seconds, and the result of the last one."""
    seconds = []
    for _ in range(times):
        began = time.monotonic()
        found = connection.run(statement)
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds), found


def reads(options, server, connection):
    scan, by_row = timed(connection, SCAN, 3)
    key, by_key = timed(connection, BY_KEY, 3)
    if by_row[0][:2] != by_key[0]:
        raise RuntimeError(f"{by_row} by the rows, {by_key} by the key")
    point = client(server, "point", "t", options.rows, options.point_seconds, 1)
    return by_row, (options.rows / scan / 1e6, options.rows / key / 1e6, point["statements"] / point["seconds"])


def measure(options, engine):
    server = server_of("rollback", options, engine)
    server.start_empty()
    try:
        with server.connect() as connection:
            connection.run("CREATE DATABASE bench")
            connection.run("USE bench")
            connection.run(f"CREATE TABLE t ({TABLE}) ENGINE={engine}")
            connection.run(f"INSERT INTO t SELECT seq, seq * 7919 MOD 1000003, REPEAT('x', 40 + seq MOD 20) FROM seq_1_to_{options.rows}")
            wait_for_background_writes(connection, engine)
            right, before = reads(options, server, connection)
            connection.run("BEGIN")
            update, changed = timed(connection, "UPDATE t SET n = n + 1, pad = CONCAT('y', pad)")
            rollback, _ = timed(connection, "ROLLBACK")
            found, after = reads(options, server, connection)
            time.sleep(options.rest)
            again, rested = reads(options, server, connection)
            if changed != options.rows or found != right or again != right:
                raise RuntimeError(f"{changed} rows changed; {right} before, {found} and {again} after the rollback")
    finally:
        server.remove()
    say(f"{engine}: {options.rows:,} rows updated in {update:.2f} s, rolled back in {rollback * 1000:.1f} ms")
    for when, (scan, key, point) in (("before", before), ("right after", after), ("rested", rested)):
        say(f"   reads {when:12} scan {scan:6.2f} million rows/s, by the key {key:6.2f}, point SELECT {point:8,.0f} per s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["InnoDB", "Teak"])
    parser.add_argument("--cache", default="1G")
    parser.add_argument("--rest", type=float, default=10, help="in seconds")
    parser.add_argument("--point-seconds", type=float, default=2)
    options = parser.parse_args()
    for engine in options.engines:
        measure(options, engine)


if __name__ == "__main__":
    main()
