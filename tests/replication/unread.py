"""A replica that changes rows without reading them (teak_read_free_replication), for each binlog_row_image.

The replica must do so where the events have all columns, and read the rows elsewhere; afterwards both sides have the same
rows, by every index.
"""

import random
import time

from tests.harness import create_tables

from .servers import slave_status

DATABASE = "unread"
ROWS = 60
COLUMNS = "id INT PRIMARY KEY, a INT, b VARCHAR(20) DEFAULT 'b', c INT NOT NULL DEFAULT 7, t TEXT"
CREATE = {
    "one_key": COLUMNS,
    "two_keys": f"{COLUMNS}, KEY (a), UNIQUE KEY (b, id)",
    "clustering": f"{COLUMNS}, KEY (a) CLUSTERING=YES",
    "text_key": f"{COLUMNS}, KEY (t(5))",
    "computed": f"{COLUMNS}, v INT AS (a + c) VIRTUAL, KEY (v)",
    "stored": f"{COLUMNS}, s INT AS (a + c) STORED, KEY (s)",
    "triggered": f"{COLUMNS}, KEY (a)",
    "log": "n INT AUTO_INCREMENT PRIMARY KEY, id INT",
    "hidden": "id INT, a INT, b VARCHAR(20), c INT NOT NULL DEFAULT 7, t TEXT, KEY (a)",
}
PARTITIONED = ("id INT, a INT, b VARCHAR(20) DEFAULT 'b', c INT NOT NULL DEFAULT 7, t TEXT, PRIMARY KEY (id, c), KEY (b)) "
               "PARTITION BY HASH (id) PARTITIONS 3")
CHANGED = [name for name in CREATE if name != "log"] + ["pairs"]
# Where the replica needs reads only because of rows with defaults, if the event has all columns.
UNREAD = ("one_key", "two_keys", "clustering", "text_key", "stored", "pairs")


def create(server):
    with server.connect() as connection:
        create_tables(connection, DATABASE, CREATE)
        connection.run(f"CREATE TABLE {DATABASE}.pairs ({PARTITIONED}")
        connection.run(f"CREATE TRIGGER {DATABASE}.note AFTER UPDATE ON {DATABASE}.triggered FOR EACH ROW "
                       f"INSERT INTO {DATABASE}.log (id) VALUES (NEW.id)")
        for name in CHANGED:
            connection.run(f"INSERT INTO {DATABASE}.{name} (id, a, b, c, t) SELECT seq, seq, CONCAT('b', seq), seq, "
                           f"REPEAT('t', seq) FROM seq_1_to_{ROWS}")


def value(rng, column):
    """A random value, often the default."""
    number = rng.randrange(100)
    return {"a": rng.choice(["NULL", number]), "b": rng.choice(["DEFAULT", "NULL", f"'x{number}'"]),
            "c": rng.choice(["DEFAULT", number]), "t": rng.choice(["NULL", f"REPEAT('{number}', {number * 3})"])}[column]


def change(rng, table, connection):
    """Changes or deletes one row, or inserts one. Returns the number of rows that existed and were changed."""
    ids = [int(row[0]) for row in connection.run(f"SELECT id FROM {table}")]
    new = rng.choice([number for number in range(1, 3 * ROWS) if number not in ids])
    kind = rng.random()
    if kind < 0.2 or not ids:
        connection.run(f"INSERT INTO {table} (id, a, b, c, t) VALUES ({new}, " + ", ".join(str(value(rng, column)) for column in "abct") + ")")
        return 0
    one = rng.choice(ids)
    if kind < 0.35:
        return connection.run(f"DELETE FROM {table} WHERE id = {one}")
    chosen = "abct" if rng.random() < 0.4 else rng.sample("abct", rng.randint(1, 3))
    sets = [f"{column} = {value(rng, column)}" for column in chosen] + ([f"id = {new}"] if rng.random() < 0.3 else [])
    return connection.run(f"UPDATE {table} SET {', '.join(sets)} WHERE id = {one}")


def unread_rows(server):
    with server.connect() as connection:
        return int(connection.run("SHOW GLOBAL STATUS LIKE 'Teak_read_free_rows'")[0][1])


def changes(pair, image, seed, number):
    """Changes rows of all tables. Returns faults."""
    rng = random.Random(f"{seed}-{image}")
    faults = []
    for table in CHANGED:
        before = unread_rows(pair.replica)
        with pair.primary.connect(DATABASE) as connection:
            connection.run(f"SET SESSION binlog_row_image = {image}")
            changed = sum(change(rng, table, connection) for _ in range(number))
        pair.catch_up()
        unread = unread_rows(pair.replica) - before
        if table not in UNREAD:
            expected = unread == 0
        elif image == "FULL":
            # Half of the new values of `t` are NULL, its default.
            expected = changed * 0.3 < unread <= changed
        else:
            expected = unread <= changed
        if not expected:
            faults.append(f"{image}: {unread} of {changed} changed rows of {table} were not read")
    return faults


def missing_row(pair):
    """The replica lacks a row that the primary changes: an error, not a new row. Returns faults."""
    faults = []
    for statement in (f"UPDATE {DATABASE}.one_key SET a = 1 WHERE id = 1000", f"DELETE FROM {DATABASE}.one_key WHERE id = 1001"):
        with pair.primary.connect() as connection:
            connection.run(f"REPLACE INTO {DATABASE}.one_key (id, a) VALUES (1000, 5), (1001, 5)")
        pair.catch_up()
        with pair.replica.connect() as connection:
            connection.run("SET SESSION sql_log_bin = 0")
            connection.run(f"DELETE FROM {DATABASE}.one_key WHERE id IN (1000, 1001)")
        with pair.primary.connect() as connection:
            connection.run(statement)
        deadline = time.monotonic() + 60
        with pair.replica.connect() as connection:
            while (status := slave_status(connection))["Last_SQL_Errno"] == "0" and time.monotonic() < deadline:
                time.sleep(0.1)
            if status["Last_SQL_Errno"] != "1032":
                faults.append(f"{statement}: error {status['Last_SQL_Errno']}, not 1032")
            connection.run("STOP SLAVE")
            connection.run("SET GLOBAL sql_slave_skip_counter = 1")
            connection.run("START SLAVE")
        with pair.primary.connect() as connection:
            connection.run("SET SESSION sql_log_bin = 0")
            connection.run(f"DELETE FROM {DATABASE}.one_key WHERE id IN (1000, 1001)")
    pair.expected_messages.update(("Could not execute", "Can't find record", "slave SQL thread aborted"))
    return faults
