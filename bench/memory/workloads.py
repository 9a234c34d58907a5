"""The workloads of `make bench-memory`. A row has PAD_BYTES random bytes, which no engine can compress, so a table of a
number of rows has at least that many times PAD_BYTES in every engine."""

import hashlib
import random
import threading
import time
from contextlib import contextmanager

from bench.sql import shapes
from bench.sql.run import client
from bench.sql.threads import in_parallel
from tests.harness import SqlError

from .series import Series, quantile

PAD_BYTES = 200
PAD = f"VARBINARY({PAD_BYTES}) NOT NULL"


# What a statement uses. The reads are those of the disk, so nothing else should read from it.
USAGE = ("reads", "bytes_read", "user", "kernel")


def usage(server):
    """What the server has used so far, by the kernel's counters."""
    return *server.disk_reads(), *server.processor_seconds()


def batches(total, size):
    """A function that returns the next (first, count) of the numbers 1..total, to any thread, and None after the last."""
    mutex, done = threading.Lock(), [0]

    def take():
        with mutex:
            count = min(size, total - done[0])
            if count <= 0:
                return None
            done[0] += count
            return done[0] - count + 1, count
    return take


class Clock:
    """Runs statements and records them in series, with times since its creation."""

    def __init__(self):
        self.began = time.monotonic()
        self.conflicts = 0

    def run(self, connection, statement, series, rows):
        """Runs the statement, again after a conflict; returns its answer. The duration includes the repetitions."""
        sent = time.monotonic()
        while True:
            try:
                answer = connection.run(statement)
                break
            except SqlError as error:
                if not error.conflict:
                    raise
                self.conflicts += 1
        ended = time.monotonic()
        series.add(ended - self.began, ended - sent, rows)
        return answer


class Workload:
    """One measured load. `rows` is the number of rows of the table; `needs` is a workload that fills the table first."""

    name = title = ""
    needs = None

    def __init__(self, options, rows):
        self.options, self.rows = options, rows
        self.conflicts = 0

    def create(self, connection, engine):
        """Creates the table, unless the workload uses that of another one."""

    def fill(self, server):
        """Fills the table without measuring, as fast as the engine can."""
        raise NotImplementedError

    def run(self, server, restart):
        """Runs the load; returns its series by name. `restart` starts the server again with empty caches."""
        raise NotImplementedError

    def result(self, series):
        """The figures, from the series of the run."""
        return {**series[""].result(), "conflicts": self.conflicts}


class Writes(Workload):
    """Statements of `batch` rows each by `writers` connections."""

    writers, batch = 1, 1000

    def total(self):
        return self.rows

    def statement(self, first, count):
        """The statement for the numbers first .. first + count - 1."""
        raise NotImplementedError

    def check(self, affected, count):
        """Fails if the statement changed another number of rows."""
        if affected != count:
            raise RuntimeError(f"{self.name}: {affected} rows were written, not {count}")

    def run(self, server, restart):
        series, clock, take = Series(), Clock(), batches(self.total(), self.batch)

        def work(connection, _number):
            while (batch := take()) is not None:
                self.check(clock.run(connection, self.statement(*batch), series, batch[1]), batch[1])
        for connection in in_parallel(server, "bench", self.writers, work):
            connection.close()
        self.conflicts = clock.conflicts
        return {"": series}


class Insert(Writes):
    """The insert benchmark: an ascending primary key and three secondary keys on random columns."""

    name, title = "insert", "ordered inserts, 3 random secondary keys, 1 writer"

    def create(self, connection, engine):
        columns = shapes.PURCHASES_COLUMNS.replace("data VARCHAR(60) NOT NULL", f"data {PAD}")
        connection.run(shapes.create("purchases", columns, shapes.PURCHASES_KEYS, engine))

    def statement(self, first, count):
        return (f"INSERT INTO purchases {shapes.PURCHASES_FIELDS} SELECT '2026-01-01' + INTERVAL seq DIV 100 SECOND, FLOOR(RAND() * 1000),"
                f" FLOOR(RAND() * 100000), FLOOR(RAND() * 10000), FLOOR(RAND() * 50000) / 100, RANDOM_BYTES({PAD_BYTES})"
                f" FROM seq_{first}_to_{first + count - 1}")


class RandomKeys(Writes):
    name, title = "random", "inserts with random 16-byte keys, 2 secondary keys, 4 writers"
    writers, batch = 4, 200
    FILLED_AT_ONCE = 500_000

    def create(self, connection, engine):
        connection.run(shapes.create("random_keys", f"id BINARY(16) NOT NULL PRIMARY KEY, a INT UNSIGNED NOT NULL, b INT UNSIGNED NOT NULL, pad {PAD}",
                                     ", KEY (a), KEY (b)", engine))

    def statement(self, first, count):
        return (f"INSERT INTO random_keys SELECT UNHEX(MD5(seq)), CRC32(seq), CRC32(CONCAT('b', seq)), RANDOM_BYTES({PAD_BYTES})"
                f" FROM seq_{first}_to_{first + count - 1}")

    def fill(self, server):
        """The same rows in the order of the primary key, and the secondary keys after them: else InnoDB would take hours."""
        keys = sorted((hashlib.md5(str(number).encode()).digest(), number) for number in range(1, self.rows + 1))
        path = server.directory / "tmp" / "fill.txt"
        with server.connect("bench") as connection:
            connection.run("ALTER TABLE random_keys DROP KEY a, DROP KEY b")
            for start in range(0, len(keys), self.FILLED_AT_ONCE):
                with open(path, "w") as file:
                    file.writelines(f"{key.hex()}\t{number}\n" for key, number in keys[start:start + self.FILLED_AT_ONCE])
                connection.run(f"LOAD DATA INFILE '{path}' INTO TABLE random_keys CHARACTER SET binary (@key, @number) SET id = UNHEX(@key),"
                               f" a = CRC32(@number), b = CRC32(CONCAT('b', @number)), pad = RANDOM_BYTES({PAD_BYTES})")
            path.unlink()
            connection.run("ALTER TABLE random_keys ADD KEY (a), ADD KEY (b)")


class Updates(Writes):
    """Updates of random rows: a twentieth of the number of rows."""

    name, title = "updates", "updates of an indexed column of random rows, 4 writers"
    needs = "random"
    writers, batch = 4, 50

    def total(self):
        return max(1, self.rows // 20)

    def statement(self, first, count):
        draw = random.Random(f"{self.options.seed} {first}")
        drawn = (str(draw.randint(1, self.rows)) for _ in range(count))
        keys = ", ".join(f"x'{hashlib.md5(number.encode()).hexdigest()}'" for number in drawn)
        return f"UPDATE random_keys SET a = FLOOR(RAND() * 4294967295) WHERE id IN ({keys})"

    def check(self, affected, count):
        """A row may have been drawn twice, or the new value may be the old one."""
        if affected * 2 < min(count, self.rows):
            raise RuntimeError(f"updates: {affected} rows were changed, not about {count}")


class Upsert(Writes):
    """Twice as many upserts as rows: most hit the newest day, a tenth the day before, and about half of them an existing row."""

    name, title = "upsert", "upserts into day partitions, 1 writer"
    DAYS = 20

    def total(self):
        return 2 * self.rows

    def create(self, connection, engine):
        days = ", ".join(f"PARTITION d{day} VALUES LESS THAN ('2026-01-{day + 1:02}')" for day in range(1, self.DAYS + 1))
        connection.run(shapes.create("daily", f"day DATE NOT NULL, item INT UNSIGNED NOT NULL, amount INT UNSIGNED NOT NULL, note {PAD}",
                                     ", PRIMARY KEY (day, item), KEY (amount)", engine) + f" PARTITION BY RANGE COLUMNS (day) ({days})")

    def statement(self, first, count):
        a_day = -(-self.total() // self.DAYS)
        items = max(1, self.rows * 5 // (4 * self.DAYS))
        return (f"INSERT INTO daily SELECT '2026-01-01' + INTERVAL GREATEST(0, CAST((seq - 1) DIV {a_day} AS SIGNED) - (seq MOD 10 = 0)) DAY,"
                f" CRC32(seq) MOD {items}, seq MOD 1000, RANDOM_BYTES({PAD_BYTES}) FROM seq_{first}_to_{first + count - 1}"
                " ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount), note = VALUES(note)")

    def check(self, affected, count):
        """A changed row counts twice."""
        if not count <= affected <= 2 * count:
            raise RuntimeError(f"upsert: {affected} rows affected by {count} upserts")


class Queue(Workload):
    """A quarter of the number of rows passes through a queue of constant length: one connection inserts at the end, one
    deletes at the start, one reads MIN and the first ten rows four times a second."""

    name, title = "queue", "queue: inserts and deletes"
    BATCH, LENGTH, PAUSE = 200, 20_000, 0.25
    READS = {"min": "SELECT MIN(id) FROM queue", "first ten": "SELECT * FROM queue ORDER BY id LIMIT 10"}
    has_snapshot = False

    def create(self, connection, engine):
        connection.run("DROP TABLE IF EXISTS queue")
        connection.run(shapes.create("queue", f"id BIGINT UNSIGNED NOT NULL PRIMARY KEY, at DATETIME NOT NULL, task {PAD}", ", KEY (at)", engine))

    def statement(self, first, count):
        return f"INSERT INTO queue SELECT seq, NOW(), RANDOM_BYTES({PAD_BYTES}) FROM seq_{first}_to_{first + count - 1}"

    @contextmanager
    def snapshot(self, server):
        """A transaction that has read the table and remains open."""
        with server.connect("bench") as connection:
            if self.has_snapshot:
                connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                connection.run("SELECT COUNT(*) FROM queue")
            yield

    def run(self, server, restart):
        total = max(self.BATCH, self.rows // 4)
        length = min(self.LENGTH, total // 2)
        clock, stopped, changed = Clock(), threading.Event(), threading.Condition()
        series = {name: Series() for name in ("", "deletes", *self.READS)}
        inserted, deleted = [0], [0]

        def advance(counter, rows):
            with changed:
                counter[0] += rows
                changed.notify_all()

        def produce(connection):
            take = batches(total, self.BATCH)
            while (batch := take()) is not None:
                with changed:
                    changed.wait_for(lambda: stopped.is_set() or inserted[0] - deleted[0] <= length)
                if stopped.is_set():
                    return
                clock.run(connection, self.statement(*batch), series[""], batch[1])
                advance(inserted, batch[1])

        def consume(connection):
            while deleted[0] < total - length:
                with changed:
                    changed.wait_for(lambda: stopped.is_set() or inserted[0] - deleted[0] >= length)
                if stopped.is_set():
                    return
                count = min(self.BATCH, total - length - deleted[0])
                found = clock.run(connection, f"DELETE FROM queue ORDER BY id LIMIT {count}", series["deletes"], count)
                if found != count:
                    raise RuntimeError(f"queue: {found} rows were deleted, not {count}")
                advance(deleted, count)

        def read(connection):
            while not stopped.is_set() and deleted[0] < total - length:
                for name, statement in self.READS.items():
                    clock.run(connection, statement, series[name], 0)
                stopped.wait(self.PAUSE)

        def work(connection, number):
            try:
                (produce, consume, read)[number](connection)
            except Exception:
                stopped.set()
                with changed:
                    changed.notify_all()
                raise
        with self.snapshot(server):
            for connection in in_parallel(server, "bench", 3, work):
                connection.close()
        self.conflicts = clock.conflicts
        return series

    def result(self, series):
        found = super().result(series)
        found.update(delete_p999=quantile(series["deletes"].durations, 0.999), delete_longest=max(series["deletes"].durations))
        for name, key in (("min", "min"), ("first ten", "first_ten")):
            durations = series[name].durations
            if durations:
                last = durations[-max(1, len(durations) // 10):]
                found.update({f"{key}_p50": quantile(durations, 0.5), f"{key}_longest": max(durations), f"{key}_p50_last_tenth": quantile(last, 0.5)})
        return found


class QueueWithSnapshot(Queue):
    name, title = "queue_snapshot", "the same with a snapshot from the start"
    has_snapshot = True


class Points(Workload):
    """Point reads by the primary and by a secondary key: of random rows of the whole table, first after a start with empty
    caches, then with the caches that this has filled; and of a few rows that are in the cache."""

    name, title = "points", "point reads"
    needs = "random"
    QUERIES = {"primary": "SELECT * FROM random_keys WHERE id = UNHEX(MD5(?))", "secondary": "SELECT * FROM random_keys WHERE b = CRC32(CONCAT('b', ?))"}
    # A read of a row loads a page of each of two indexes. The pages of the warm reads fill at most half of the cache.
    CACHE_BYTES_A_ROW = 64 << 10

    def run(self, server, restart):
        self.found = {}
        for key, query in self.QUERIES.items():
            restart()
            self.measure(server, f"{key}_cold", query, self.rows, seed=0)
            self.measure(server, f"{key}_random", query, self.rows, seed=1)
            warm = max(1, min(self.rows, self.options.cache // self.CACHE_BYTES_A_ROW))
            self.measure(server, f"{key}_warm", query, warm, seed=0, warm_up=self.options.read_seconds / 2)
        return {}

    def measure(self, server, name, query, ids, seed, warm_up=0):
        before = usage(server)
        done = client(server, "timed_point", query, ids, self.options.read_seconds, self.options.seed + seed, warm_up)
        if done["rows"] < done["statements"] or name.startswith("primary") and done["rows"] != done["statements"]:
            raise RuntimeError(f"{name}: {done['statements']} rows asked for, {done['rows']} found")
        self.found.update({f"{name}_rate": done["statements"] / done["seconds"], f"{name}_p50": done["p50"], f"{name}_p999": done["p999"]})
        if not warm_up:
            used = (now - then for now, then in zip(usage(server), before))
            self.found.update({f"{name}_{figure}": count / done["statements"] for figure, count in zip(USAGE, used)})

    def result(self, series):
        return self.found


# Workloads in a group use one server, and one table.
GROUPS = [[Insert], [RandomKeys, Points, Updates], [Upsert], [Queue, QueueWithSnapshot]]
WORKLOADS = {workload.name: workload for group in GROUPS for workload in group}
