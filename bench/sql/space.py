"""`make bench-space`: file sizes after four loads and, for Teak, their ratio to the live data.

For each engine, on an empty private server: readings of sensors, the star schema with four keys, upserts into a
table with a unique and a secondary key, and the insert benchmark. Sizes are read at the end of the load, after 10 idle
seconds, and after a clean stop and a start. No statement requests a FLUSH, OPTIMIZE or checkpoint.
"""

import argparse
import sys
import time

from . import shapes
from .run import ENGINES, IDLE_SECONDS, build_client, client, data_file, say, server_of

MIB = 1048576
UPSERTS_A_STATEMENT = 10_000


def sensor(options, _, connection, engine):
    connection.run(shapes.create("sensor", shapes.SENSOR_COLUMNS, "", engine))
    connection.run(f"LOAD DATA INFILE '{data_file(options, 'sensor', options.rows)}' INTO TABLE sensor")


def star(options, _, connection, engine):
    connection.run(shapes.create("lineorder", shapes.STAR_COLUMNS, shapes.STAR_KEYS, engine))
    connection.run(f"LOAD DATA INFILE '{data_file(options, 'star', options.rows)}' INTO TABLE lineorder")


def upserts(options, _, connection, engine):
    """About two of three upserts change an existing row."""
    connection.run(shapes.create("stock", shapes.STOCK_COLUMNS, shapes.STOCK_KEYS, engine))
    articles = options.rows // 3
    for first in range(0, options.rows, UPSERTS_A_STATEMENT):
        last = min(first + UPSERTS_A_STATEMENT, options.rows) - 1
        connection.run(f"INSERT INTO stock (article, shop, amount, note) SELECT CRC32(seq) MOD {articles}, CRC32(-seq) MOD 100,"
                       f" seq MOD 1000, MD5(seq) FROM seq_{first}_to_{last}"
                       " ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount), shop = VALUES(shop)")


def inserts(options, server, connection, engine):
    path = data_file(options, "purchases", options.rows, "--insert", f"purchases {shapes.PURCHASES_FIELDS}", "--batch", "1000")
    connection.run(shapes.create("purchases", shapes.PURCHASES_COLUMNS, shapes.PURCHASES_KEYS, engine))
    client(server, "statements", path)


LOADS = {"sensor readings": sensor, "star schema, 4 keys": star, "upserts, 2 keys": upserts, "insert benchmark": inserts}


def status(connection, name):
    return int(connection.run(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


def size(server, connection, engine, when, files):
    """The size of the table's files in MiB; for Teak, also the ratio of file bytes to live bytes."""
    mib = server.files(*files) / MIB
    if engine != "Teak":
        return f"{when} {mib:8.1f} MiB"
    live, length = status(connection, "Teak_file_live_bytes"), status(connection, "Teak_file_bytes")
    ratio = f"{length / live:.3f} of live bytes" if live else "no live bytes"
    return f"{when} {mib:8.1f} MiB ({ratio})"


def measure(options, engine, name):
    *_, files, _ = ENGINES[engine]
    server = server_of("space", options, engine)
    server.start_empty()
    try:
        with server.connect() as connection:
            connection.run("CREATE DATABASE bench")
            connection.run("USE bench")
            LOADS[name](options, server, connection, engine)
            sizes = [size(server, connection, engine, "at the end", files)]
            time.sleep(IDLE_SECONDS)
            sizes.append(size(server, connection, engine, "idle", files))
        server.stop()
        server.start()
        with server.connect("bench") as connection:
            table, = connection.run("SHOW TABLES")[0]
            connection.run(f"SELECT * FROM {table.decode()} LIMIT 1")
            sizes.append(size(server, connection, engine, "stopped and started", files))
        say(f"{name:20} {engine:8} " + "; ".join(sizes))
    finally:
        server.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["InnoDB", "Teak"])
    parser.add_argument("--cache", default="256M")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    build_client()
    for name in LOADS:
        for engine in options.engines:
            measure(options, engine, name)


if __name__ == "__main__":
    sys.exit(main())
