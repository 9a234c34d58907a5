"""`make bench-tables`: the time of INFORMATION_SCHEMA.TABLES and SHOW TABLE STATUS with many tables, and the memory of
tables that are not used.

For each engine, on an empty private server: a database of TABLES tables, three rows in each. After a restart
each query is executed REPEAT times; no table is open at the first execution of the first query. Then each table is read
once, later written once, and each time the resident memory is measured immediately and after each of the IDLE times.
The times of the stops and starts are measured, too.
"""

import argparse
import time

from .run import say, server_of

TABLE = "id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(40), KEY (a), KEY (b)"
QUESTIONS = {
    "I_S.TABLES": "SELECT COUNT(*), SUM(table_rows), SUM(data_length), SUM(index_length) FROM information_schema.tables "
                  "WHERE table_schema = 'many'",
    "SHOW TABLE STATUS": "SHOW TABLE STATUS FROM many",
    "I_S.STATISTICS": "SELECT COUNT(*), SUM(cardinality) FROM information_schema.statistics WHERE table_schema = 'many'",
    "names alone": "SELECT COUNT(table_name) FROM information_schema.tables WHERE table_schema = 'many'",
}
USES = {"read": "SELECT COUNT(*) FROM {}", "write": "UPDATE {} SET a = a + 1 WHERE id = 2"}


def state(server, connection, engine):
    memory = f"{server.memory() / 1048576:.0f} MiB of memory"
    if engine != "Teak":
        return memory
    (_, count), = connection.run("SHOW GLOBAL STATUS LIKE 'Teak_open_tables'")
    return f"{memory}, {int(count)} tables open"


def restart(server):
    began = time.monotonic()
    server.stop()
    stopped = time.monotonic()
    server.start()
    say(f"   stopped in {stopped - began:.2f} s, started in {time.monotonic() - stopped:.2f} s, "
        f"then {server.memory() / 1048576:.0f} MiB of memory")


def measure(options, engine):
    server = server_of("tables", options, engine, "--table-open-cache=4000", "--open-files-limit=30000", *options.server_option)
    server.start_empty()
    try:
        with server.connect() as connection:
            connection.run("CREATE DATABASE many")
            connection.run("USE many")
            began = time.monotonic()
            for number in range(options.tables):
                connection.run(f"CREATE TABLE t{number} ({TABLE}) ENGINE={engine}")
                connection.run(f"INSERT INTO t{number} VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three')")
            say(f"{engine}: {options.tables:,} tables made and written to in {time.monotonic() - began:.1f} s")
        restart(server)
        with server.connect() as connection:
            for name, question in QUESTIONS.items():
                seconds, spent = [], []
                for _ in range(options.repeat):
                    before, processor = time.monotonic(), server.cpu_seconds()
                    rows = connection.run(question)
                    seconds.append(time.monotonic() - before)
                    spent.append(server.cpu_seconds() - processor)
                if len(rows) != options.tables and int(rows[0][0]) < options.tables:
                    raise RuntimeError(f"{name}: {len(rows)} rows, {rows[0]}")
                say(f"   {name:18} first {seconds[0]:6.2f} s, then " + ", ".join(f"{each:.2f}" for each in seconds[1:])
                    + " (processor: " + ", ".join(f"{each:.2f}" for each in spent) + ")")
            say(f"   {server.memory() / 1048576:.0f} MiB of memory")
            connection.run("USE many")
            for name, statement in USES.items():
                began = time.monotonic()
                for number in range(options.tables):
                    connection.run(statement.format(f"t{number}"))
                say(f"   {name} each table: {time.monotonic() - began:.2f} s, then {state(server, connection, engine)}")
                ended = time.monotonic()
                for idle in options.idle:
                    time.sleep(max(0, ended + idle - time.monotonic()))
                    say(f"   {idle} s later {state(server, connection, engine)}")
        restart(server)
    finally:
        server.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["InnoDB", "Teak"])
    parser.add_argument("--cache", default="256M")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--idle", type=lambda text: [int(part) for part in text.split(",")], default=[60, 200])
    parser.add_argument("--server-option", action="append", default=[])
    options = parser.parse_args()
    for engine in options.engines:
        measure(options, engine)


if __name__ == "__main__":
    main()
