"""`make bench-checkpoint`: how an engine writes the changes of many index files, during single-row insertions into
another table.

An empty private server has a log of 32 MiB, so old changes must be written soon. TABLES tables with a primary and two
secondary keys are created, and all remain open. Then one row of each table is updated. From the start of the updates
until SECONDS after their end, the benchmark measures the syncs that the engine counts, the bytes written by the process,
the rounds of checkpoints, and the latency of insertions by another connection.
"""

import argparse
import statistics
import threading
import time

from tests.harness import wait_for_background_writes

from .run import say, server_of

LOG_BYTES = 32 << 20
OTHER = "id INT NOT NULL PRIMARY KEY, pad VARCHAR(4000)"
TABLE = "id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(40), KEY (a), KEY (b)"
COUNTERS = {"InnoDB": ("Innodb_data_fsyncs", "Innodb_os_log_fsyncs")}
TEAK_COUNTERS = ("Teak_data_fsyncs", "Teak_log_fsyncs", "Teak_checkpoints", "Teak_checkpointed_indexes")
ROUND = "SHOW GLOBAL STATUS LIKE 'Teak_checkpoint_microseconds_max'"


class Insertions:
    """A connection that inserts one row at a time and records the latencies."""

    def __init__(self, server):
        self.seconds, self.ended, self.failure = [], threading.Event(), None
        self.server = server
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            with self.server.connect("many") as connection:
                number = 0
                while not self.ended.is_set():
                    began = time.monotonic()
                    connection.run(f"INSERT INTO other VALUES ({number}, HEX(RANDOM_BYTES(1000)))")
                    self.seconds.append(time.monotonic() - began)
                    number += 1
        except Exception as error:  # raised again by end()
            self.failure = error

    def end(self):
        self.ended.set()
        self.thread.join()
        if self.failure:
            raise self.failure
        self.seconds.sort()
        return self.seconds


def counters(connection, engine):
    names = COUNTERS.get(engine, TEAK_COUNTERS)
    found = {name: connection.run(f"SHOW GLOBAL STATUS LIKE '{name}'") for name in names}
    return {name: int(rows[0][1]) for name, rows in found.items() if rows}


def measure(options, engine):
    sql_engine = "InnoDB" if engine == "InnoDB" else "Teak"
    server = server_of("checkpoint", options, engine, f"--table-open-cache={options.tables + 500}", "--open-files-limit=60000",
                       f"--loose-teak-log-size-max={LOG_BYTES}", f"--innodb-log-file-size={LOG_BYTES}", *options.server_option)
    server.start_empty()
    try:
        with server.connect() as connection:
            connection.run("CREATE DATABASE many")
            connection.run("USE many")
            connection.run(f"CREATE TABLE other ({OTHER}) ENGINE={sql_engine}")
            for number in range(options.tables):
                connection.run(f"CREATE TABLE t{number} ({TABLE}) ENGINE={sql_engine}")
                connection.run(f"INSERT INTO t{number} VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three')")
            wait_for_background_writes(connection, sql_engine)
            insertions, before, written = Insertions(server), counters(connection, engine), server.bytes_written()
            began, spent = time.monotonic(), server.cpu_seconds()
            for number in range(options.tables):
                connection.run(f"UPDATE t{number} SET a = a + 10, b = CONCAT(b, a) WHERE id = 2")
            seconds = time.monotonic() - began
            time.sleep(options.seconds)
            spent = server.cpu_seconds() - spent
            latencies = insertions.end()
            after = counters(connection, engine)
            rounds = connection.run(ROUND)
            say(f"{engine}: {3 * options.tables:,} indexes changed in {seconds:.2f} s; until {options.seconds} s later {spent:.2f} s of "
                f"processor time, {(server.bytes_written() - written) / 1e6:.0f} MB; "
                + ", ".join(f"{name} {after[name] - before[name]:,}" for name in after)
                + (f", longest round {int(rounds[0][1]) / 1e6:.2f} s" if rounds else "")
                + f"; {len(latencies):,} insertions: median {statistics.median(latencies) * 1e3:.2f} ms, "
                f"99 % {latencies[len(latencies) * 99 // 100] * 1e3:.1f} ms, longest {latencies[-1] * 1e3:.0f} ms")
    finally:
        server.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", type=int, default=5_000)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["InnoDB", "Teak"])
    parser.add_argument("--seconds", type=int, default=150)
    parser.add_argument("--before", help="another ha_teak.so, for the engine Before")
    parser.add_argument("--cache", default="1G")
    parser.add_argument("--server-option", action="append", default=[])
    options = parser.parse_args()
    for engine in options.engines:
        measure(options, engine)


if __name__ == "__main__":
    main()
