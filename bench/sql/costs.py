"""`make bench-costs`: measures the constants of the optimiser's costs and prints them as in plugin/handler/cost_constants.h.

A table of ROWS rows of about 130 bytes has a key on a random permutation of the row numbers. Teak and InnoDB execute the
same statements on it, alternately on two servers, with a cache that contains the table:

- scan: all rows. The time of the server's own work for a row is that of a table of the SEQUENCE engine, and is subtracted.
- look-ups: rows by a range of the key, so at random places, minus the entries of the same range alone.
- entries: those of a range of the key alone, without the server's own work as above and for the condition.
- first entries: equal keys at random places in a join, without the time for the next entry, by which the server ends a range.

Then a Teak server with a small cache executes both again. The additional time is divided by the number of pages that were
read (Teak_cache_misses). The system's cache contains the files, so this is the time of reading from memory, verifying and
decompressing. MISS_NS of it are assumed not to depend on the size of the pages, which is estimated from their number. Times
are processor times of the server. Constants are medians of REPEAT.
"""

import argparse
import statistics
from pathlib import Path

from .run import machine, say, server_of

TABLE = """CREATE TABLE t (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, price DECIMAL(15,2) NOT NULL, amount DECIMAL(15,2) NOT NULL,
    day DATE NOT NULL, mode CHAR(10) NOT NULL, instruction CHAR(25) NOT NULL, comment VARCHAR(44) NOT NULL, KEY (k))
    ENGINE={engine} DEFAULT CHARSET=latin1"""
ROW_BYTES = 130
MISS_NS = 5000
# What the server counts for the first entry of a range in InnoDB; the rest of the measured time is the server's own, in the join.
INNODB_FIRST_NS = 1650
CONDITION_NS = 32  # what the server counts for the evaluation of a condition, optimizer_where_cost
# 1 + seq * PRIME mod ROWS is a permutation if PRIME does not divide ROWS.
PRIME = 15_485_863
WORDS = "carefully final deposits sleep quickly regular ironic packages above bold accounts"
INSERT = """INSERT INTO t SELECT seq, 1 + seq * {prime} MOD {rows}, seq * 7919 MOD 100000 / 100, seq MOD 50, '1992-01-01' + INTERVAL seq MOD 2500 DAY,
    ELT(1 + seq MOD 4, 'AIR', 'RAIL', 'TRUCK', 'SHIP'), ELT(1 + seq MOD 3, 'NONE', 'COLLECT COD', 'DELIVER IN PERSON'),
    SUBSTRING('{words} {words}', 1 + seq * 31 MOD 60, 12 + seq * 17 MOD 30) FROM seq_1_to_{rows}"""
SCAN = "SELECT COUNT(*), SUM(price) FROM t IGNORE INDEX (k)"
SERVER_ALONE = "SELECT COUNT(*), SUM(seq) FROM seq_1_to_{rows}"
BY_KEY = "SELECT COUNT(*), SUM(price) FROM t FORCE INDEX (k) WHERE k BETWEEN {first} AND {last}"
ENTRIES = "SELECT COUNT(*), SUM(k) FROM t FORCE INDEX (k) WHERE k BETWEEN {first} AND {last}"
FIRST_ENTRIES = """SELECT COUNT(*), SUM(t.k) FROM seq_1_to_{lookups} s STRAIGHT_JOIN t FORCE INDEX (k)
    WHERE t.k = 1 + (s.seq + {turn}) * 7919 MOD {rows}"""


class Measured:
    """One engine's server with the table."""

    def __init__(self, options, engine, cache):
        self.options, self.engine = options, engine
        self.server = server_of(f"costs-{engine}-{cache}", argparse.Namespace(cache=cache), engine)
        self.server.start_empty()
        with self.server.connect() as connection:
            connection.run("CREATE DATABASE bench")
            connection.run("USE bench")
            connection.run(TABLE.format(engine=engine))
            connection.run(INSERT.format(prime=PRIME, rows=options.rows, words=WORDS))
        # After a restart the rows are in the index files and not in the memtables.
        self.server.stop()
        self.server.start()

    def nanoseconds(self, statement):
        """The processor time of a statement, and the pages that it read."""
        with self.server.connect("bench") as connection:
            if self.engine == "Teak":
                connection.run("SET teak_group_by_pushdown = OFF")  # it would read columns instead of rows
            before, began = self.misses(connection), self.processor_nanoseconds()
            connection.run(statement)
            spent = self.processor_nanoseconds() - began
            return spent, self.misses(connection) - before

    def processor_nanoseconds(self):
        """The processor time of the server's threads."""
        threads = Path(f"/proc/{self.server.pid()}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads)

    def misses(self, connection):
        return int(connection.run("SHOW GLOBAL STATUS LIKE 'Teak_cache_misses'")[0][1]) if self.engine == "Teak" else 0

    def scan(self):
        """The time of a scan without the server's own work, and the pages that it read."""
        spent, pages = self.nanoseconds(SCAN)
        return spent - self.nanoseconds(SERVER_ALONE.format(rows=self.options.rows))[0], pages

    def lookups(self, turn):
        """The time of look-ups without their entries, and the pages that they read."""
        span = self.options.lookups
        first = 1 + turn * span % (self.options.rows - span)
        entries, _ = self.nanoseconds(ENTRIES.format(first=first, last=first + span - 1))
        spent, pages = self.nanoseconds(BY_KEY.format(first=first, last=first + span - 1))
        return spent - entries, pages

    def entry(self, turn):
        """The time of an entry of the key, and of the first one of a range."""
        span = self.options.lookups
        first = 1 + turn * span % (self.options.rows - span)
        server, _ = self.nanoseconds(SERVER_ALONE.format(rows=span))
        entries, _ = self.nanoseconds(ENTRIES.format(first=first, last=first + span - 1))
        firsts, _ = self.nanoseconds(FIRST_ENTRIES.format(lookups=span, turn=turn, rows=self.options.rows))
        entry = (entries - server) / span - CONDITION_NS
        return entry, (firsts - server) / span - entry


def warmed(measured):
    """Fills the cache."""
    for _ in range(2):
        measured.nanoseconds(SCAN)
        measured.nanoseconds(BY_KEY.format(first=1, last=measured.options.rows))


def main():
    arguments = argparse.ArgumentParser(prog="bench.sql.costs", description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--lookups", type=int, default=50_000)
    arguments.add_argument("--repeat", type=int, default=7)
    arguments.add_argument("--cache", default="512M")
    arguments.add_argument("--small-cache", default="32M")
    options = arguments.parse_args()
    about = machine()
    say(f"{options.rows:,} rows, {options.lookups:,} look-ups, {options.repeat} times, on {about['processor']}")
    servers = []
    try:
        for engine, cache in (("InnoDB", options.cache), ("Teak", options.cache), ("Teak", options.small_cache)):
            servers.append(Measured(options, engine, cache))
        innodb, teak, small = servers
        for measured in (innodb, teak):
            warmed(measured)
        found = {name: [] for name in ("unit", "lookup", "scan_ratio", "scan", "entry", "first", "miss", "scan_miss", "pages")}
        for turn in range(options.repeat):
            unit, lookup = (measured.lookups(turn)[0] / options.lookups for measured in (innodb, teak))
            (reference, _), (scan, none) = innodb.scan(), teak.scan()
            if none:
                raise RuntimeError("the cache does not contain the table: choose another --cache")
            entry, first = teak.entry(turn)
            innodb_entry, innodb_first = innodb.entry(turn)
            missed, pages = small.lookups(turn)
            scanned, read = small.scan()
            found["unit"].append(unit)
            found["lookup"].append(lookup)
            found["scan_ratio"].append(scan / reference)
            found["scan"].append(scan / options.rows)
            found["entry"].append(entry)
            found["first"].append(first - (innodb_first - INNODB_FIRST_NS))
            found["miss"].append((missed - lookup * options.lookups) / pages)
            found["scan_miss"].append((scanned - scan) / read)
            found["pages"].append(read)
            say(f"a row by an entry: InnoDB {unit:,.0f} ns, Teak {lookup:,.0f} ns; a scanned row: InnoDB {reference / options.rows:,.0f} ns, "
                f"Teak {scan / options.rows:,.0f} ns; an entry: InnoDB {innodb_entry:,.0f} ns, Teak {entry:,.0f} ns; the first entry: "
                f"InnoDB {innodb_first:,.0f} ns, Teak {first:,.0f} ns; a page that is not cached: {found['miss'][-1]:,.0f} ns in a look-up ({pages:,} pages), "
                f"{found['scan_miss'][-1]:,.0f} ns in a scan ({read:,})")
        medians = {name: statistics.median(values) for name, values in found.items()}
        page_kib = options.rows * ROW_BYTES / 1024 / medians["pages"]
        print(f"\nconstexpr double UNIT_NS = {medians['unit']:.0f};\nconstexpr double LOOKUP_NS = {medians['lookup']:.0f};\n"
              f"constexpr double SCAN_NS = {medians['scan']:.0f};\nconstexpr double ENTRY_NS = {medians['entry']:.0f};\n"
              f"constexpr double ENTRY_LOOKUP_NS = {medians['first']:.0f};\n"
              f"constexpr double MISS_NS = {MISS_NS};\n"
              f"constexpr double MISS_NS_PER_KIB = {(medians['miss'] - MISS_NS) / page_kib:.0f};\n"
              f"constexpr double SCAN_MISS_NS_PER_KIB = {medians['scan_miss'] / page_kib:.0f};\n\n"
              f"A scan in memory takes {medians['scan_ratio']:.2f} of InnoDB's time; the costs assume 1.")
    finally:
        for measured in servers:
            measured.server.remove()


if __name__ == "__main__":
    main()
