"""Repeated kill -9 under concurrent writers: after each restart the tables must contain exactly the acknowledged
commits.

1. A private server has small caches, so that flushes and checkpoints are frequent.
2. Writers (processes) run transactions and keep a journal outside the server: the effects of a commit before it is sent, then that
   it was acknowledged. Another process creates, renames and drops tables.
   Tellers move money between the engine's tables and InnoDB's, also by XA (bank_load.py).
3. At a random moment the server is killed; sometimes again while it recovers.
4. The server is started again. Each writer's rows must be those of the acknowledged commits; a commit that was in flight is
   applied completely or not at all. Every index of every table must give those rows, CHECK TABLE must be clean, and counters
   that all writers share must have lost no increment.

The seed determines statements and pauses, but not the state in which a kill finds the server.
The run counts as one test.
"""

import argparse
import multiprocessing
import random
import sys
import time
from pathlib import Path

from tests.harness import BUILD, Server, SqlError, create_tables, finish

from . import bank_load, schema_changes
from .journal import CREATE, DATABASE, SHARED_ROWS, TABLES, Journal, Rows, expected_rows, read_journal, select
from .writer import Writer

INDEXES = {"account": ["PRIMARY", "code", "owner", "writer_balance", "note"],
           "entry": ["PRIMARY", "writer_seq", "account", "memo"], "loose": ["writer_seq"]}
# Reads for which an index is covering; the same columns are also read by a scan of the rows.
COVERED = [("account", "writer_balance", ["id", "writer", "balance"]), ("account", "code", ["id", "code"]),
           ("account", "owner", ["id", "owner"]), ("entry", "memo", ["id", "memo", "amount"]),
           ("entry", "account", ["id", "account"]), ("entry", "writer_seq", ["id", "writer", "seq"])]
FAULTS_SHOWN = 12


def write_rows(socket, number, writers, rows, transactions, journal, seed):
    try:
        Writer(socket, number, writers, rows, transactions, journal, seed).write_until_lost()
    except SqlError as error:
        if not error.lost:
            Journal(journal).write(error=f"writer {number}: {error}")


class Test:
    def __init__(self, options):
        self.options = options
        self.directory = Path(options.directory).absolute()
        self.random = random.Random(options.seed)
        extra = [] if options.engine.upper() == "TEAK" else ["--no-teak"]
        if options.engine.upper() == "ROCKSDB":
            extra.append("--plugin=ha_rocksdb")
        if options.rotate_keys:
            extra += ["--plugin-load-add=debug_key_management", "--teak-encrypt-tables=ON", "--teak-encrypt-log=ON"]
        self.key_version = 1
        self.server = Server(self.directory / "server", [f"--cache={options.cache}", "--innodb-fast-shutdown=1", *extra,
                                                         *options.server_option])
        self.rows = [Rows() for _ in range(options.writers)]
        self.transactions = [0] * options.writers
        self.progress = [0] * options.writers
        self.shared = [0] * SHARED_ROWS
        self.tables = {}
        self.coordinator = bank_load.Coordinator(options.engine, self.random)
        self.counts = {"committed": 0, "rolled_back": 0, "conflicts": 0, "table_statements": 0}

    def journal(self, name):
        return self.directory / f"journal-{name}"

    def prepare(self):
        self.server.start_empty(self.directory)
        self.coordinator.bank.create(self.server)
        with self.server.connect() as connection:
            connection.run(f"CREATE DATABASE {schema_changes.DATABASE} DEFAULT CHARSET utf8mb4")
            create_tables(connection, DATABASE, CREATE, self.options.engine)
            for number in range(self.options.writers):
                connection.run(f"INSERT INTO {DATABASE}.progress VALUES ({number}, 0)")
            for number in range(SHARED_ROWS):
                connection.run(f"INSERT INTO {DATABASE}.shared VALUES ({number}, 0)")

    # ---- one round ---------------------------------------------------------------------------------------------------

    def write_and_kill(self, round_number):
        """Lets the writers run, kills the server and waits for the writers. Returns the duration and the faults."""
        tellers = [f"teller-{number}" for number in range(bank_load.TELLERS)]
        names = [*range(self.options.writers), "tables", *tellers]
        for name in names:
            self.journal(name).unlink(missing_ok=True)
        seed = f"{self.options.seed}-{round_number}"
        jobs = [(write_rows, (self.server.socket, number, self.options.writers, self.rows[number],
                              self.transactions[number], self.journal(number), f"{seed}-{number}"))
                for number in range(self.options.writers)]
        if not self.options.no_ddl:
            jobs.append((schema_changes.write_until_lost, (self.server.socket, self.tables, self.options.engine,
                                                     self.journal("tables"), f"{seed}-tables")))
        jobs += [(bank_load.work_until_lost, (self.server.socket, number, self.options.engine, ledger, self.journal(tellers[number]),
                                              f"{seed}-{tellers[number]}"))
                 for number, ledger in enumerate(self.coordinator.ledgers)]
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=job, args=arguments, daemon=True) for job, arguments in jobs]
        for process in processes:
            process.start()
        pause = self.random.choice([0.05, 0.3, 1, 1, 2, self.options.pause]) * self.random.uniform(0.3, 1)
        time.sleep(pause)
        faults = [] if self.server.pid() else ["the server ended by itself"]
        self.server.kill()
        for process in processes:
            process.join(30)
            if process.is_alive():
                process.kill()
                faults.append("a writer did not end after the server was killed")
            elif process.exitcode:
                faults.append(f"a writer ended with status {process.exitcode}")
        return pause, faults

    def restart(self):
        """Starts the server again, sometimes after killing it during recovery. Returns the recovery time and the number of kills."""
        # After three recoveries the server drops an entry of its DDL log, and a DDL statement remains incomplete.
        again = self.server.kill_while_recovering(self.random, 2)
        if self.options.rotate_keys:
            # Files of the versions before are written again while the writers work.
            self.key_version += 1
            self.server.options.append(f"--debug-key-management-version={self.key_version}")
        began = time.monotonic()
        self.server.start(timeout=self.options.recovery_timeout)
        return time.monotonic() - began, again

    # ---- what must hold ----------------------------------------------------------------------------------------------

    def verify(self):
        """Compares the server with the journals, and adds to the model the commits in flight that the server has applied.
        Returns the faults, the number of these commits, and the number of all commits in flight."""
        faults, doubtful_there, doubtful_all = [], 0, 0
        with self.server.connect(DATABASE) as connection:
            progress = {int(writer): int(number) for writer, number in
                        connection.run("SELECT writer, transaction FROM progress")}
            actual = {table: self.by_writer(connection.run(select(table))) for table in TABLES}
            for number in range(self.options.writers):
                there, doubted, found = self.verify_writer(number, actual, progress)
                faults += found
                doubtful_there += there
                doubtful_all += doubted
            shared = {int(key): int(n) for key, n in connection.run("SELECT id, n FROM shared")}
            if shared != dict(enumerate(self.shared)):
                faults.append(f"shared counters are {shared}, their acknowledged increments {self.shared}")
            faults += self.verify_indexes(connection, actual)
            for table in CREATE:
                for row in connection.run(f"CHECK TABLE {table} EXTENDED"):
                    if row[2] in (b"error", b"Error", b"warning", b"Warning") or (row[2] == b"status" and row[3] != b"OK"):
                        faults.append(f"CHECK TABLE {table}: {row[3].decode()}")
            if not self.options.no_ddl:
                self.tables, done, found = schema_changes.verify(connection, self.journal("tables"), self.tables)
                self.counts["table_statements"] += done
                faults += found
        faults += self.coordinator.verify(self.server.socket, [self.journal(f"teller-{number}")
                                                               for number in range(bank_load.TELLERS)])
        if not self.options.no_ddl and self.options.engine.upper() == "TEAK":
            faults += [f"a file without a table: {name}" for name in
                       schema_changes.stray_files(self.server.directory / "data" / schema_changes.DATABASE, self.tables)]
        return faults, doubtful_there, doubtful_all

    @staticmethod
    def by_writer(rows):
        found = {}
        for row in sorted(rows, key=repr):
            found.setdefault(int(row[0]), []).append(row)
        return found

    def verify_writer(self, number, actual, progress):
        acknowledged, doubtful, notes = read_journal(self.journal(number))
        faults = [note["error"] for note in notes if "error" in note]
        for note in notes:
            for name, count in note.get("counts", {}).items():
                self.counts[name] += count
        rows, last = self.rows[number], self.transactions[number]
        explicit_last = progress_before = self.progress[number]
        for transaction in acknowledged:
            rows.apply(transaction["effects"])
            last = transaction["intend"]
            if transaction["explicit"]:
                explicit_last = last
            if transaction["shared"] is not None:
                self.shared[transaction["shared"]] += 1
        there = False
        if doubtful:
            last = max(last, doubtful["intend"])
            changed = rows.copy()
            changed.apply(doubtful["effects"])
            if doubtful["explicit"]:
                there = progress[number] == doubtful["intend"]
            else:
                there = all(actual[table].get(number, []) == expected_rows(changed, number, table)
                            for table in TABLES)
            if there:
                self.rows[number] = rows = changed
                if doubtful["explicit"]:
                    explicit_last = doubtful["intend"]
                if doubtful["shared"] is not None:
                    self.shared[doubtful["shared"]] += 1
        if progress[number] != explicit_last:
            faults.append(f"writer {number}: transaction {explicit_last} was the last, the server says {progress[number]}"
                          f" (before this round {progress_before})")
        for table in TABLES:
            expected, found = expected_rows(rows, number, table), actual[table].get(number, [])
            if expected != found:
                faults += self.differences(f"writer {number}, {table}", expected, found)
        # Transaction numbers are never reused, not even those of rolled back transactions.
        self.transactions[number] = last + 100_000
        self.progress[number] = explicit_last
        return there, doubtful is not None, faults

    @staticmethod
    def differences(where, expected, found):
        missing, extra = sorted(set(expected) - set(found), key=repr), sorted(set(found) - set(expected), key=repr)
        faults = [f"{where}: {len(missing)} rows missing or changed, {len(extra)} not expected, of {len(expected)}"]
        faults += [f"{where}: missing {str(row)[:160]}" for row in missing[:2]]
        faults += [f"{where}: not expected {str(row)[:160]}" for row in extra[:2]]
        if not missing and not extra:
            faults.append(f"{where}: rows appear more than once")
        return faults

    def verify_indexes(self, connection, actual):
        faults = []
        for table, indexes in INDEXES.items():
            rows = sorted((row for found in actual[table].values() for row in found), key=repr)
            for index in indexes:
                # With a condition that is true for every row, the server reads the forced index.
                condition = {"PRIMARY": "id >= 0", "code": "code >= ''", "owner": "(owner >= '' OR owner IS NULL)",
                             "writer_balance": "writer >= 0", "note": "(note >= '' OR note IS NULL)",
                             "writer_seq": "writer >= 0", "account": "account >= 0",
                             "memo": "(memo >= '' OR memo IS NULL)"}[index]
                found = sorted(connection.run(f"{select(table, index)} WHERE {condition}"), key=repr)
                if found != rows:
                    faults += self.differences(f"{table} by index {index}", rows, found)
        for table, index, columns in COVERED:
            by_rows = sorted(connection.run(select(table, "PRIMARY", columns)), key=repr)
            by_index = sorted(connection.run(select(table, index, columns)), key=repr)
            if by_rows != by_index:
                faults += self.differences(f"{table} in index {index} alone", by_rows, by_index)
        return faults

    def go(self):
        print(f"-- {self.options.kills} kills of a server under {self.options.writers} writers, engine "
              f"{self.options.engine}, seed {self.options.seed}", flush=True)
        self.prepare()
        for number in range(1, self.options.kills + 1):
            pause, faults = self.write_and_kill(number)
            before = dict(self.counts)
            try:
                seconds, again = self.restart()
                found, there, doubted = self.verify()
                faults += found
                if not faults and self.random.random() < 0.1:
                    self.server.stop()
                    self.server.start(timeout=self.options.recovery_timeout)
                    with self.server.connect(DATABASE) as connection:
                        connection.run("SELECT COUNT(*) FROM account")
            except (SqlError, RuntimeError) as error:
                faults.append(str(error))
                seconds, again, there, doubted = 0, 0, 0, 0
            if faults:
                print(f"kill {number} after {pause:.2f} s: FAILED (seed {self.options.seed})")
                for fault in faults[:FAULTS_SHOWN]:
                    print(f"   {fault}")
                if len(faults) > FAULTS_SHOWN:
                    print(f"   and {len(faults) - FAULTS_SHOWN} more")
                print(f"   the server's directory and the journals are kept in {self.directory}")
                print(f"   end of the server's error log:\n{self.server.log_tail(15)}")
                try:
                    self.server.stop()
                except RuntimeError as error:
                    print(f"   {error}")
                return finish(0, 1, f"{number} kills")
            total = sum(len(rows) for each in self.rows for rows in each.tables.values())
            twice = f", killed {again} times more while it recovered" if again else ""
            print(f"kill {number:3} after {pause:4.2f} s: {self.counts['committed'] - before['committed']:5} commits, "
                  f"{doubted} in flight ({there} there), {total:6} rows hold, recovery {seconds:.1f} s{twice}", flush=True)
        self.server.remove(self.directory)
        print(f"-- {self.counts['committed']} commits, {self.counts['rolled_back']} rollbacks, "
              f"{self.counts['conflicts']} conflicts, {self.counts['table_statements']} statements on tables in all")
        seen = self.coordinator.seen
        print(f"-- bank: {seen['transfers']} transfers; in flight when killed: {seen['preparing']} XA PREPARE, {seen['ending']} ends of "
              f"prepared ones; prepared and found again: {seen['prepared']}, {seen['left']} of them left to the next kill")
        return finish(1, 0, f"{self.options.kills} kills", f"{self.counts['committed']:,} commits", f"{seen['transfers']:,} transfers")


def main():
    arguments = argparse.ArgumentParser(description="Kills a server under writers and compares what it recovers.")
    arguments.add_argument("--kills", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--engine", default="TEAK")
    arguments.add_argument("--writers", type=int, default=4)
    arguments.add_argument("--cache", default="32M")
    arguments.add_argument("--pause", type=float, default=4, help="maximum seconds between kills")
    arguments.add_argument("--recovery-timeout", type=int, default=120, help="in seconds")
    arguments.add_argument("--no-ddl", action="store_true", help="without DDL")
    arguments.add_argument("--rotate-keys", action="store_true", help="encrypts, with a new version of the key after each kill")
    arguments.add_argument("--directory", default=str(BUILD / "kill-test"))
    arguments.add_argument("--server-option", action="append", default=[], help="for the server, may be repeated")
    return Test(arguments.parse_args()).go()


if __name__ == "__main__":
    sys.exit(main())
