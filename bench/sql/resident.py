"""`make bench-resident`: the maximum resident memory of the server under several loads, compared with the same load into BLACKHOLE.

Each case runs once on an empty private server without Teak, into BLACKHOLE tables, and once into Teak tables. The bound
of a case is the maximum with BLACKHOLE plus teak_cache_size plus 64 MiB (docs/design/memory.md). The cases:

- writers: 4 connections insert random 16-byte keys with two secondary keys, cache 64 MiB.
- load: LOAD DATA of 256-byte rows with four keys, cache 256 MiB.
- connections: 256 connections that write and read continuously, cache 64 MiB.
- tables: 10,000 tables, each written, then all read; cache 64 MiB.
- add_key: two keys are added to a table, one after the other, cache 256 MiB.

The resident memory is also measured some seconds after the load. Prints the measurements; exceeding a bound is not an
error. --scale=0.1 divides the rows of load and add_key, and the number of tables of the case tables, by ten.
"""

import argparse
import time
from pathlib import Path

from tests.harness import Server

from .run import DIRECTORY, say
from .threads import in_parallel

MIB = 1 << 20
SLACK = 64 * MIB
ROW = "id BINARY(16) PRIMARY KEY, a BIGINT, b BIGINT, pad VARCHAR(200)"
NEW_ROW = "SELECT RANDOM_BYTES(16), FLOOR(RAND() * 1e12), FLOOR(RAND() * 1e12), REPEAT(CHAR(97 + seq MOD 26), 20 + seq MOD 60) FROM seq_1_to_{}"
PARTS = ("Teak_memory", "Teak_cache_bytes_used", "Teak_memtable_bytes", "Teak_lock_memory_bytes", "Teak_write_id_memory_bytes")


class Case:
    """One load on one server. Measures, in bytes, `peak`, the maximum resident memory, and `rest`, the resident memory
    some seconds after the load."""

    cache_bytes = 64 * MIB
    server_options = ()

    def __init__(self, options, engine):
        self.options, self.engine = options, engine
        chosen = [] if engine == "TEAK" else ["--no-teak", "--plugin=ha_blackhole"]
        self.server = Server(DIRECTORY / "resident", [f"--cache={self.cache_bytes}", *self.server_options, *chosen, *options.server_option])

    def scaled(self, amount):
        return max(1, int(amount * self.options.scale))

    def run(self):
        self.server.start_empty()
        try:
            with self.server.connect() as connection:
                connection.run("CREATE DATABASE memory")
                connection.run("USE memory")
                self.prepare(connection)
            began = time.monotonic()
            work = self.load()
            seconds = time.monotonic() - began
            peak = self.maximum()
            time.sleep(self.options.rest)
            return {"peak": peak, "rest": self.server.memory(), "work": work, "seconds": seconds, "parts": self.parts()}
        finally:
            self.server.remove()

    def maximum(self):
        for line in Path(f"/proc/{self.server.pid()}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmHWM")

    def parts(self):
        with self.server.connect() as connection:
            rows = connection.run("SHOW GLOBAL STATUS LIKE 'Teak%\\_bytes%'")
        found = {name.decode(): int(value) for name, value in rows}
        return {name: count for name, count in found.items() if name.startswith(PARTS) and "limit" not in name}

    def create(self, connection, table="t", columns=ROW + ", KEY (a), KEY (b)"):
        connection.run(f"CREATE TABLE {table} ({columns}) ENGINE={self.engine}")

    def prepare(self, connection):
        self.create(connection)

    def load(self):
        """Runs the load; returns the amount of work done."""
        raise NotImplementedError


class Writers(Case):
    def load(self):
        until = time.monotonic() + self.options.seconds
        rows = []

        def work(connection, _number):
            written = 0
            while time.monotonic() < until:
                written += connection.run("INSERT INTO t " + NEW_ROW.format(200))
            rows.append(written)
        for connection in in_parallel(self.server, "memory", 4, work):
            connection.close()
        return sum(rows)


class Load(Case):
    cache_bytes = 256 * MIB

    def prepare(self, connection):
        self.create(connection, columns="id BIGINT PRIMARY KEY, a BIGINT, b BIGINT, c CHAR(16), pad VARCHAR(220), KEY (a), KEY (b), KEY (c), KEY (b, a)")
        self.file = DIRECTORY / "resident.tsv"
        self.file.unlink(missing_ok=True)
        connection.run(f"SELECT seq, FLOOR(RAND() * 1e12), FLOOR(RAND() * 1e12), HEX(RANDOM_BYTES(8)), CONCAT(HEX(RANDOM_BYTES(40)), REPEAT('x', 128)) "
                       f"FROM seq_1_to_{self.scaled(2_000_000)} INTO OUTFILE '{self.file}'")

    def load(self):
        with self.server.connect("memory") as connection:
            try:
                return connection.run(f"LOAD DATA INFILE '{self.file}' INTO TABLE t")
            finally:
                self.file.unlink()


class Connections(Case):
    server_options = ("--max-connections=600",)

    def load(self):
        until = time.monotonic() + self.options.seconds
        statements = []

        def work(connection, _number):
            done = 0
            while time.monotonic() < until:
                connection.run("INSERT INTO t " + NEW_ROW.format(20))
                connection.run("SELECT COUNT(*) FROM (SELECT * FROM t WHERE id > RANDOM_BYTES(16) ORDER BY id LIMIT 100) AS rows_found")
                connection.run(f"SELECT MAX(b) FROM (SELECT b FROM t WHERE a > {time.time_ns() % 10**12} ORDER BY a LIMIT 50) AS rows_found")
                done += 3
            statements.append(done)
        # The connections remain open until the server is removed.
        self.open = in_parallel(self.server, "memory", self.options.connections, work)
        return sum(statements)


class Tables(Case):
    server_options = ("--table-open-cache=4000", "--open-files-limit=30000")

    def prepare(self, connection):
        pass

    def load(self):
        tables = self.scaled(10_000)
        with self.server.connect("memory") as connection:
            for number in range(tables):
                self.create(connection, f"t{number}", "id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(40), KEY (a), KEY (b)")
                connection.run(f"INSERT INTO t{number} VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three')")
            for number in range(tables):
                connection.run(f"SELECT SUM(a) FROM t{number} WHERE id > 1")
            connection.run("SELECT COUNT(*), SUM(table_rows) FROM information_schema.tables WHERE table_schema = 'memory'")
        return tables


class AddKey(Case):
    cache_bytes = 256 * MIB

    def prepare(self, connection):
        self.create(connection, columns=ROW)
        for _ in range(10):
            connection.run("INSERT INTO t " + NEW_ROW.format(self.scaled(500_000)))

    def load(self):
        with self.server.connect("memory") as connection:
            Path(f"/proc/{self.server.pid()}/clear_refs").write_text("5")  # resets VmHWM: measures the ALTERs only
            for key in ("a, b", "pad, a"):
                connection.run(f"ALTER TABLE t ADD KEY ({key})")
        return self.scaled(500_000) * 10


CASES = {"writers": Writers, "load": Load, "connections": Connections, "tables": Tables, "add_key": AddKey}


def mib(count):
    return f"{count / MIB:,.0f}"


def measure(options, name):
    kind = CASES[name]
    own = kind(options, "BLACKHOLE").run()
    found = kind(options, "TEAK").run()
    bound = own["peak"] + kind.cache_bytes + SLACK
    say(f"{name}: {found['work']:,} in {found['seconds']:.1f} s; resident, MiB: BLACKHOLE {mib(own['peak'])}, Teak {mib(found['peak'])}, "
        f"bound {mib(bound)} (cache {mib(kind.cache_bytes)}): {found['peak'] / bound:.2f} of the bound; "
        f"after {options.rest:g} s {mib(own['rest'])} and {mib(found['rest'])}; "
        + ", ".join(f"{part} {mib(count)}" for part, count in found["parts"].items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="factor of rows and tables")
    parser.add_argument("--seconds", type=float, default=60, help="of the cases writers and connections")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--rest", type=float, default=3, help="seconds without statements before the second measurement")
    parser.add_argument("--server-option", action="append", default=[])
    options = parser.parse_args()
    for name in options.cases:
        if name not in CASES:
            parser.error(f"unknown case {name}: {', '.join(CASES)}")
    for name in options.cases:
        measure(options, name)


if __name__ == "__main__":
    main()
