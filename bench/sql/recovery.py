"""`make bench-recovery`: the time of a start after kill -9, by the size of the log that recovery reads, against InnoDB.

For each size and engine, 4 connections insert rows with random 16-byte keys and two secondary keys on an empty private
server, until the log of the first engine has the size. The other engines get the same number of rows. The log may grow to
eight times the size, so that no checkpoint begins. Then the server is killed and started. The measured time ends when the
server answers. Then the rows are counted; the count must be the number of acknowledged rows. InnoDB writes its pages
during the insertions, which shortens its recovery. RIVAL is the largest size, in GiB, at which InnoDB is measured.
"""

import argparse
import os
import threading
import time

from .run import say, server_of

GIB = 1 << 30
WRITERS = 4
ROWS = 500
TABLE = "id BINARY(16) PRIMARY KEY, a BIGINT, b BIGINT, pad VARCHAR(200), KEY (a), KEY (b)"
INSERT = ("INSERT INTO t SELECT RANDOM_BYTES(16), FLOOR(RAND() * 1e12), FLOOR(RAND() * 1e12), "
          f"CONCAT(HEX(RANDOM_BYTES(20)), REPEAT('x', 60)) FROM seq_1_to_{ROWS}")
LOG = {"Teak": "Teak_log_bytes_used", "Before": "Teak_log_bytes_used", "InnoDB": "Innodb_checkpoint_age"}


def insert(server, is_enough):
    """Inserts until is_enough(rows). Returns the number of rows that were acknowledged."""
    done, failures = [0] * WRITERS, []

    def write(number):
        try:
            with server.connect("recovery") as connection:
                while not failures and not is_enough(sum(done)):
                    connection.run(INSERT)
                    done[number] += ROWS
        except Exception as error:  # raised again below
            failures.append(error)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(done)


def measure(options, engine, gib, rows):
    """Fills the log, kills and starts the server. Returns the number of rows inserted."""
    log_bytes = int(gib * GIB)
    # InnoDB allocates its log file as a whole.
    innodb_bytes = 8 * log_bytes if engine == "InnoDB" else 64 << 20
    server = server_of("recovery", options, engine, f"--loose-teak-log-size-max={8 * log_bytes}", "--loose-teak-checkpoint-period=86400",
                       f"--innodb-log-file-size={innodb_bytes}", *options.server_option)
    server.start_empty()
    try:
        with server.connect() as status:
            def used():
                return int(status.run(f"SHOW GLOBAL STATUS LIKE '{LOG[engine]}'")[0][1])
            status.run("CREATE DATABASE recovery")
            status.run(f"CREATE TABLE recovery.t ({TABLE}) ENGINE={'InnoDB' if engine == 'InnoDB' else 'Teak'}")
            began, mutex, last = time.monotonic(), threading.Lock(), [0]

            def is_enough(done):
                if rows is not None:
                    return done >= rows
                with mutex:
                    if done >= last[0] + 20_000:
                        last[0] = done
                        return used() >= log_bytes
                return False
            inserted = insert(server, is_enough)
            seconds, log_used = time.monotonic() - began, used()
        server.kill()
        began = time.monotonic()
        server.start(timeout=3600)
        started, spent = time.monotonic() - began, server.cpu_seconds()
        with server.connect("recovery") as connection:
            found = int(connection.run("SELECT COUNT(*) FROM t")[0][0])
        if found != inserted:
            raise RuntimeError(f"{engine}: {inserted:,} rows were acknowledged, {found:,} were found")
        say(f"{engine}: {inserted:,} rows in {seconds:.1f} s, {log_used / GIB:.2f} GiB of log; started in {started:.2f} s "
            f"({spent:.2f} s of processor time), all rows found")
        return inserted
    finally:
        server.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--log", type=lambda text: [float(part) for part in text.split(",")], default=[0.25, 1.0])
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["Teak", "InnoDB"])
    parser.add_argument("--rival", type=float, default=1.0, help="largest size for InnoDB, in GiB")
    parser.add_argument("--before", help="another ha_teak.so, for the engine Before")
    parser.add_argument("--cache", default="256M")
    parser.add_argument("--server-option", action="append", default=[])
    options = parser.parse_args()
    os.environ.setdefault("SERVER_TIMEOUT", "600")
    for gib in options.log:
        rows = None
        for engine in options.engines:
            if engine == "InnoDB" and gib > options.rival:
                continue
            rows = measure(options, engine, gib, rows)


if __name__ == "__main__":
    main()
