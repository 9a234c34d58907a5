"""Damage in Teak's files: reads return the right rows or an error, never wrong rows, and the server does not crash.

1. A server fills two tables. Two images of its data directory are saved: one after a clean stop, one after a kill,
   with commits that only the log contains.
2. Each round takes an image and damages one file (the row index, a secondary or unique key, the log, the catalogue) by
   flipped bits, random bytes or truncation, before the server starts or while it runs.
3. The engine may refuse to start only if the catalogue or the log is damaged, and must name a damaged file. Otherwise
   every read through every key returns exactly the committed rows, or an error; CHECK TABLE reports a table that
   returned an error; the table whose files were not damaged is correct and accepts new rows; the server has not been
   restarted.
   Damage at the end of a killed server's log cannot be distinguished from a torn write in a crash: then the last commits may be
   lost, but each table has exactly the rows of all commits up to some commit.
4. A table that was found damaged is repaired. Then all its keys agree, every row is one that was committed, it can be
   written, and if only a secondary key was damaged after a clean stop, all rows are there. Only a row index without a
   valid superblock may be beyond repair.

The run counts as one test.
"""

import argparse
import os
import random
import shutil
import sys
from pathlib import Path

from tests.harness import Server, SqlError, finish

ROWS = 20_000
LATE = 500  # rows that were committed last; only the image of the killed server has them, in the log
KINDS = ["t.main", "t.a-", "t.b-", "catalogue", "log"]
READS = [("PRIMARY", "id > 0"), ("a", "a >= 0"), ("b", "b >= ''")]


def text_of(number):
    return f"{number * 7919 % 1_000_003:06}-{number}"


def expected(count):
    return {(number, number % 100, text_of(number)) for number in range(1, count + 1)}


class Test:
    def __init__(self, options):
        self.draw = random.Random(options.seed)
        self.options = options
        self.directory = Path(options.directory).absolute()
        self.server = Server(self.directory / "server", ["--cache=16M", "--skip-innodb", "--default-storage-engine=TEAK"])
        self.data = self.directory / "server" / "data"
        self.errors = {}

    def prepare(self):
        self.server.start_empty(self.directory)
        with self.server.connect() as connection:
            connection.run("CREATE DATABASE f")
            for table in ("t", "whole"):
                connection.run(f"CREATE TABLE f.{table} (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(40) NOT NULL, KEY (a), UNIQUE KEY (b))")
                self.insert(connection, table, 1, ROWS)
        self.server.stop()
        shutil.copytree(self.data, self.directory / "clean")
        self.server.start()
        with self.server.connect() as connection:
            for start in range(ROWS + 1, ROWS + LATE + 1, 50):
                for table in ("t", "whole"):
                    self.insert(connection, table, start, start + 49)
        self.server.kill()
        shutil.copytree(self.data, self.directory / "killed")

    @staticmethod
    def insert(connection, table, first, last):
        for start in range(first, last + 1, 2000):
            rows = ", ".join(f"({n}, {n % 100}, '{text_of(n)}')" for n in range(start, min(start + 2000, last + 1)))
            connection.run(f"INSERT INTO f.{table} VALUES {rows}")

    def damage(self, kind):
        """Damages a file of the kind; returns a description and the file's name, or None if the file is empty."""
        patterns = {"catalogue": "teak.catalogue", "log": "teak.log.*"}
        files = sorted(self.data.glob(patterns.get(kind, f"f/{kind}*.teak")))
        path = self.draw.choice(files)
        size = path.stat().st_size
        if size == 0:
            return None
        with open(path, "r+b") as file:
            shape = self.draw.choice(["bits", "bits", "noise", "cut"])
            if shape == "cut":
                size = self.draw.randrange(size)
                file.truncate(size)
                return f"{path.name} cut to {size} bytes", path.name
            if shape == "noise":
                at, count = self.draw.randrange(size), min(4096, size)
                file.seek(min(at, size - count))
                file.write(self.draw.randbytes(count))
                return f"{count} bytes of noise at {min(at, size - count)} of {path.name}", path.name
            places = [self.draw.randrange(size) for _ in range(self.draw.choice([1, 1, 3, 20]))]
            for at in places:
                file.seek(at)
                byte = file.read(1)[0] ^ 1 << self.draw.randrange(8)
                file.seek(at)
                file.write(bytes([byte]))
            return f"bits flipped at {places[:3]} of {path.name} ({size} bytes)", path.name

    def read(self, connection, table, rows, may_lose_end):
        """Reads through every key. Returns the faults, and whether any read returned an error."""
        faults, failed = [], False
        for key, condition in READS:
            try:
                found = connection.run(f"SELECT id, a, b FROM f.{table} FORCE INDEX ({key}) WHERE {condition}")
            except SqlError as error:
                if error.lost:
                    raise
                self.errors[error.number] = self.errors.get(error.number, 0) + 1
                failed = True
                continue
            got = [(int(row), int(a), b.decode(errors="replace")) for row, a, b in found]
            ends_early = may_lose_end and len(got) >= ROWS and len(got) % 50 == 0 and set(got) == expected(len(got))
            if not ends_early and (len(got) != len(rows) or set(got) != rows):
                faults.append(f"{table} by {key}: {len(got)} rows without an error, {len(rows)} were committed; e.g. missing "
                              f"{sorted(rows - set(got))[:1]}, wrong {sorted(set(got) - rows)[:1]}")
        return faults, failed

    def verify(self, kind, rows, may_lose_end):
        faults = []
        pid = self.server.pid()
        with self.server.connect() as connection:
            found, failed = self.read(connection, "t", rows, may_lose_end)
            faults += found
            checks = [row[2:] for row in connection.run("CHECK TABLE f.t EXTENDED")]
            bad = checks[-1][1] != b"OK"
            if failed and not bad:
                faults.append(f"reads of t failed, CHECK TABLE says {checks}")
            found, failed = self.read(connection, "whole", rows, may_lose_end)
            faults += found
            # Damage of the log or the catalogue may affect both tables; then reads of both return errors.
            if failed and kind not in ("log", "catalogue"):
                faults.append("the undamaged table returned an error")
            if not failed:
                connection.run("INSERT INTO f.whole VALUES (1000000, 1, 'new')")
                connection.run("DELETE FROM f.whole WHERE id = 1000000")
        if self.server.pid() != pid:
            faults.append("the server was restarted")
        return faults, bad

    def repair(self, kind, rows, complete):
        """Repairs the table. Returns the faults, and a description of the outcome."""
        with self.server.connect() as connection:
            result = [(level.decode(), text.decode(errors="replace")) for _, _, level, text in connection.run("REPAIR TABLE f.t")]
            if result[-1] != ("status", "OK"):
                refused = kind == "t.main" and any("superblock" in text or "not an index file" in text for _, text in result)
                return [] if refused else [f"the repair failed: {result}"], " -> beyond repair"
            faults = []
            checked = [row[2:] for row in connection.run("CHECK TABLE f.t EXTENDED")]
            if checked[-1][1] != b"OK":
                faults.append(f"after the repair CHECK TABLE says {checked}")
            found = [(int(row), int(a), b.decode(errors="replace")) for row, a, b in connection.run("SELECT id, a, b FROM f.t FORCE INDEX (PRIMARY) WHERE id > 0")]
            if len(set(found)) != len(found) or not set(found) <= rows:
                faults.append(f"the repair made up rows, e.g. {sorted(set(found) - rows)[:1]}")
            if complete and set(found) != rows:
                faults.append(f"the repair lost {len(rows) - len(found)} rows although only a key was damaged: {result}")
            for key, condition in READS:
                count = connection.run(f"SELECT COUNT(*) FROM f.t FORCE INDEX ({key}) WHERE {condition}")
                if int(count[0][0]) != len(found):
                    faults.append(f"after the repair key {key} has {int(count[0][0])} rows instead of {len(found)}")
            connection.run("INSERT INTO f.t VALUES (1000000, 1, 'new')")
            connection.run("DELETE FROM f.t WHERE id = 1000000")
            return faults, f" -> repaired, {len(found)} of {len(rows)} rows"

    def round(self, number):
        kind = self.draw.choice(KINDS)
        image = self.draw.choice(["clean", "killed"])
        running = self.draw.random() < 0.3
        rows = expected(ROWS + (LATE if image == "killed" else 0))
        self.server.kill()
        shutil.rmtree(self.data)
        shutil.copytree(self.directory / image, self.data)
        if running:
            self.server.start()
        may_lose_end = kind == "log" and image == "killed"
        done = self.damage(kind)
        if done is None:
            return [], "nothing to damage"
        what = f"{image}, {'running' if running else 'stopped'}: {done[0]}"
        if not running:
            (self.directory / "server" / "error.log").write_text("")
            try:
                self.server.start()
            except RuntimeError as error:
                log = self.server.log_tail(40)
                refused = [line for line in log.splitlines() if "TEAK: cannot start" in line]
                if kind not in ("log", "catalogue") or not refused or "signal" in log:
                    return [f"the server did not start: {error}; {log[-1500:]}"], what
                if done[1] not in refused[0] and "teak.log" not in refused[0]:
                    return [f"the refusal names no damaged file: {refused[0]}"], what
                return [], what + " -> refused to start: " + refused[0].split("cannot start:")[1].replace(str(self.data), "")
        try:
            faults, bad = self.verify(kind, rows, may_lose_end)
            if running and not faults:
                # After a restart, rows that were in memory are read from the file.
                self.server.kill()
                try:
                    self.server.start()
                except RuntimeError:
                    refused = "TEAK: cannot start" in self.server.log_tail(40)
                    return ([] if refused and kind in ("log", "catalogue") else ["no start after damage of a running server"]), what + " -> refused to start"
                faults, bad = self.verify(kind, rows, may_lose_end)
            if bad and not faults and kind.startswith("t."):
                faults, outcome = self.repair(kind, rows, kind != "t.main" and image == "clean")
                what += outcome
        except SqlError as error:
            return [f"{error}"], what
        return faults, what + (" -> found damaged" if bad else " -> whole")

    def go(self):
        print(f"-- {self.options.rounds} rounds of damage, seed {self.options.seed}", flush=True)
        self.prepare()
        failed = 0
        for number in range(1, self.options.rounds + 1):
            faults, what = self.round(number)
            print(f"round {number:3}: {what[:230]}", flush=True)
            for fault in faults[:6]:
                print(f"   FAULT: {fault[:1200]}", flush=True)
            failed += bool(faults)
        self.server.kill()
        if not failed:
            shutil.rmtree(self.directory, ignore_errors=True)
        print("errors given: " + ", ".join(f"{number} ({count} times)" for number, count in sorted(self.errors.items())))
        return finish(not failed, int(bool(failed)), f"{self.options.rounds} damaged files", f"{failed} of them with faults")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    memory = Path("/dev/shm")
    parser.add_argument("--directory", default=str((memory if memory.is_dir() else Path("/tmp")) / f"teak-flip-{os.getpid()}"))
    sys.exit(Test(parser.parse_args()).go())


if __name__ == "__main__":
    main()
