"""`teak top --batch` on a server under load: its rates are compared with the statements that were executed.

    python3 -m tests.monitoring.top
"""

import argparse
import os
import pty
import re
import subprocess
import sys
import threading
import time

from tests.backup.names import DATABASE as HOSTILE
from tests.backup.programs import tool
from tests.harness import BUILD, Server, TimeLimit, finish, quoted_name


def command(server, *options):
    return [str(tool()), "top", *options, "--", "--no-defaults", f"--socket={server.socket}", "--user=root"]


def lines(text, kind):
    """The pairs of the lines of a kind."""
    return [dict(pair.split("=", 1) for pair in line.split()[1:]) for line in text.splitlines() if line.startswith(kind + " ")]


class TopTest:
    def __init__(self, directory):
        self.server = Server(directory, ["--cache=64M"])
        self.passed = self.failed = self.intervals = 0

    def check(self, condition, what):
        if condition:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}", flush=True)

    def rates(self, connection):
        """The sum of rate * seconds of all intervals is what the statements have done."""
        connection.run("CREATE DATABASE d")
        connection.run("USE d")
        connection.run("CREATE TABLE d.hot (id INT PRIMARY KEY, a INT, b CHAR(64)) ENGINE=TEAK PARTITION BY HASH (id) PARTITIONS 2")
        connection.run("CREATE TABLE d.cold (id INT PRIMARY KEY) ENGINE=TEAK")
        connection.run("INSERT INTO d.cold VALUES (1)")
        connection.run("FLUSH TABLES")
        connection.run("SELECT * FROM d.hot, d.cold")
        run = subprocess.Popen(command(self.server, "--batch", "--interval=0.5"), text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        first = run.stdout.readline()  # an interval without work has passed
        for number in range(200):
            connection.run(f"INSERT INTO d.hot SELECT {number} * 50 + seq, 1, MD5(seq) FROM seq_1_to_50")
        connection.run("UPDATE d.hot SET a = 2 WHERE id <= 300")
        connection.run("DELETE FROM d.hot WHERE id <= 40 AND a = 2")
        connection.run("SET SESSION teak_bulk_load_threshold = 0")
        connection.run("INSERT INTO d.hot SELECT 100000 + seq, 1, MD5(seq) FROM seq_1_to_5000")
        time.sleep(1.5)  # until an interval contains the last statement
        run.terminate()
        text = first + run.communicate()[0]
        print(text[-1500:], flush=True)
        engine = lines(text, "engine")
        self.intervals = len(engine)
        for name, expected in {"inserted": 15000, "updated": 300, "deleted": 40, "loaded": 5000, "commits": 203}.items():
            found = sum(float(line[name]) * float(line["seconds"]) for line in engine)
            # Seconds are rounded to 1/1000, and the engine inserts some rows of statistics.
            self.check(abs(found - expected) <= 5 + expected / 400, f"{name}: {found}, expected {expected}")
        self.check(float(engine[0]["inserted"]) == 0, "rows in an interval without work")
        self.check(sum(float(line["bytes_written"]) for line in engine) > 0 and sum(float(line["log_bytes"]) for line in engine) > 0, "bytes written")
        self.check(all(int(line["memory_bytes"]) > 0 and int(line["log_limit"]) > 0 for line in engine), "memory and log")
        tables = lines(text, "table")
        hot = [line for line in tables if line["name"] == "d.hot"]
        self.check(sum(float(line["bytes_written"]) for line in hot) > 0, "bytes written of the hot table")
        cold = [line for line in tables if line["name"] == "d.cold"]
        self.check(len(cold) == len(hot) and not any(float(line["bytes_written"]) for line in cold), "the cold table")
        self.check({line["name"] for line in tables} >= {"d.hot", "d.cold"} and not any("#P#" in line["name"] for line in tables), "names of partitioned tables")

    def jobs_and_names(self, connection):
        connection.run(f"CREATE DATABASE {quoted_name(HOSTILE)}")
        connection.run(f"CREATE TABLE {quoted_name(HOSTILE)}.`a b\n=\\` (id INT PRIMARY KEY, a CHAR(200)) ENGINE=TEAK")
        ends = threading.Event()

        def build():
            with self.server.connect("d") as session:
                while not ends.is_set():
                    session.run("ALTER TABLE hot ADD KEY (b)")
                    session.run("ALTER TABLE hot DROP KEY b")
                    session.run("OPTIMIZE TABLE hot")
        thread = threading.Thread(target=build)
        thread.start()
        try:
            done = subprocess.run(command(self.server, "--batch", "--interval=0.1", "--count=30", "--tables=50"), text=True, check=False, stdout=subprocess.PIPE)
        finally:
            ends.set()
            thread.join()
        self.check(done.returncode == 0 and len(lines(done.stdout, "engine")) == 30, f"30 intervals: status {done.returncode}")
        jobs = [line for line in lines(done.stdout, "job") if line["kind"] == "index_build" and line["state"] == "running"]
        # The table has no name in the instant in which its new files replace the old ones.
        others = [line for line in jobs if line["table"] not in ("d.hot", "")]
        self.check(any(line["table"] for line in jobs) and not others, f"the job that builds a key: {(others or jobs)[:1]}")
        self.check(any(line["name"].endswith("a\\u{20}b\\u{a}=\\u{5c}") for line in lines(done.stdout, "table")), "a hostile name")
        kinds = {line.split(" ", 1)[0] for line in done.stdout.splitlines()}
        self.check(kinds == {"engine", "table", "job"}, f"kinds of lines: {kinds}")

    def screen(self):
        """On a terminal there is a view of the size of the terminal."""
        master, slave = pty.openpty()
        run = subprocess.Popen(command(self.server, "--interval=0.2", "--count=3"), stdin=slave, stdout=slave, stderr=slave,
                               env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        text = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the end of a terminal
                break
            if not part:
                break
            text += part
        os.close(master)
        self.check(run.wait() == 0, "the status of a view")
        frames = text.decode().split("\x1b[H")[1:]
        self.check(len(frames) == 3 and all(frame.startswith("\x1b[?7l") and frame.endswith("\x1b[?7h") for frame in frames), f"{len(frames)} views")
        for expected in ("rows/s        inserted", "memory        ", "log           ", "TABLE", "d.hot"):
            self.check(expected in frames[-1], f"the view has no {expected}")
        self.check(frames[-1].count("\n") < 24, "the view is larger than the terminal")
        print(re.sub(r"\x1b\[[?0-9]*[a-zA-Z]", "", frames[-1]).replace("\r", ""), flush=True)

    def errors(self):
        for arguments, message in {("--interval=0",): "seconds", ("--count=x",): "invalid"}.items():
            done = subprocess.run(command(self.server, *arguments), text=True, check=False, stderr=subprocess.PIPE)
            self.check(done.returncode == 2 and message in done.stderr, f"{arguments}: {done.stderr}")
        run = subprocess.Popen(command(self.server, "--batch", "--interval=0.1"), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        run.stdout.readline()
        self.server.kill()
        status = self.wait(run)
        self.check(status == 1, f"the status after the server was killed: {status}")
        error = run.stderr.read()
        self.check(error.startswith("teak: "), f"the error after the server was killed: {error}")

    @staticmethod
    def wait(run):
        """Reads the output, so that the process can end."""
        deadline = time.monotonic() + 30
        while run.poll() is None and time.monotonic() < deadline:
            run.stdout.readline()
        return run.poll()

    def all(self):
        self.server.start_empty()
        try:
            with self.server.connect() as connection:
                self.rates(connection)
                self.jobs_and_names(connection)
                self.screen()
            self.errors()
        finally:
            self.server.stop()
        return finish(self.passed, self.failed, f"{self.intervals} intervals")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", default=BUILD / "top-test")
    options = parser.parse_args()
    test = TopTest(options.directory)
    with TimeLimit(300, [test.server]):
        return test.all()


if __name__ == "__main__":
    sys.exit(main())
