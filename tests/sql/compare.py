"""Runs statements on both engines side by side and compares the answers."""

import re
from collections import Counter
from pathlib import Path

from tests.harness.wire import CLOSE, LAST_PREPARED, PREPARE, QUERY, Lost, Session, execution, fields

ENGINES = ("InnoDB", "TEAK")
DUPLICATE = 1062
SHOW_WARNINGS = QUERY + b"SHOW WARNINGS"
NOT_SUPPORTED = 1235
LOCKED = "error", 1205
DIRECTORY_NOT_EMPTY = 1010
LARGE_UNDO = "error", 1713  # InnoDB's limit: a row's old values must fit a page
ENGINE_FAILED = "error", 1030  # by EXCHANGE PARTITION in both directions, after which InnoDB cannot open the partition
# InnoDB rejects every read of a table that is newer than the snapshot. Teak rejects only plain reads, because locking
# reads see the newest rows.
DEFINITION_CHANGED = "error", 1412
PLAIN_READ = re.compile(r"(?!.*(?: FOR UPDATE| LOCK IN SHARE MODE))[ (]*(?:SELECT|WITH|EXECUTE|HANDLER)\b", re.DOTALL)
ALTERS = re.compile(r"ALTER|CREATE (OR REPLACE )?TABLE|BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR 1845")
OF_TEAK = re.compile(r"\{teak:([^}]*)\}")
REFUSED_KEY = b"a key of up to "
# Whether the buffers of a join fit into their limit depends on the mean length of the rows, which is an estimate.
NO_JOIN_BUFFER = b"Could not create a join buffer"
BATCH_BYTES = 60_000  # well below the socket's buffer: all is sent before any answer is read


class Difference(Exception):
    """`second`: the second engine's answer and warnings, if there is one."""

    def __init__(self, statement, number, why, second=None):
        super().__init__(f"{why}\n  in: {statement.text[:2000]}")
        self.statement, self.number, self.why, self.second = statement, number, why, second


def bytes_of(text):
    return text if isinstance(text, bytes) else str(text).encode()


def for_engine(text, engine):
    return OF_TEAK.sub(r"\1" if engine == ENGINES[1] else "", text).replace("{engine}", engine)


def database_names(worker):
    """Names of equal length: they are part of the definitions of result columns."""
    return f"cmp_i{worker}", f"cmp_t{worker}"


class Open(Difference):
    """An allowed difference, after which the world ends: Teak refused a key whose encoding may exceed the maximum
    length; InnoDB refused a row because of the size of its undo record, or an EXCHANGE PARTITION; or, in a world of two
    sessions, only one engine found a lock conflict, or InnoDB refused a table that is newer than the snapshot."""


def flat(answer):
    return answer[1] if answer[0] == "many" else [answer]


class Pair:
    """A session for each engine, each with its own database."""

    def __init__(self, socket, worker, run):
        self.names = database_names(worker)
        self.run = run
        self.socket, self.settings, self.loads = socket, [], False
        self.sessions = [Session(socket) for _ in ENGINES]
        self.others = []  # a second session for each, on demand
        self.replace = self.names[1].encode(), self.names[0].encode()

    def _roll_back(self):
        """Ends all transactions if there are second sessions. Prepared ones and their locks would survive a session."""
        for sessions in (self.sessions, self.others) if self.others else ():
            for session, name in zip(sessions, self.names):
                for text in [f"XA {step} '{name}{turn}'" for turn in range(2) for step in ("END", "ROLLBACK")] + ["ROLLBACK"]:
                    session.run(text)

    def close(self):
        try:
            self._roll_back()
        except Lost:
            pass  # the server has ended, which is reported elsewhere
        for session in self.sessions + self.others:
            session.close()

    def begin(self, settings):
        self.settings = [statement.text for statement in settings]
        # Bulk loads find duplicates after they have read all rows. So other errors and warnings come first.
        self.loads = any("teak_bulk_load_threshold" in text for text in self.settings)
        # Removes files of an earlier run of the same statements, because the server does not overwrite files.
        for name in self.names:
            for path in Path(self.run).glob(f"load-{name}-*"):
                path.unlink()
        for session, name in zip(self.sessions, self.names):
            self._drop(session, name)
            self._must(session, f"CREATE DATABASE {name}")
        self._set_up(self.sessions)

    def _drop(self, session, name):
        text = f"DROP DATABASE IF EXISTS {name}"
        if session.run(text)[:2] == ("error", DIRECTORY_NOT_EMPTY):
            # The server may leave a copy of a trigger's file, so that the directory of the database is not empty and
            # remains.
            for path in Path(fields(session.run("SELECT @@datadir")[2][0])[0].decode(), name).glob("*.TRG-"):
                path.unlink()
            self._must(session, text)

    @staticmethod
    def _must(session, text):
        answer = session.run(text)
        if answer[0] == "error":
            raise RuntimeError(f"{text}: {answer}")

    def _set_up(self, sessions):
        for session, name, engine in zip(sessions, self.names, ENGINES):
            for text in (f"USE {name}", f"SET default_storage_engine = {engine}", *self.settings):
                self._must(session, for_engine(text, engine))

    def _sessions(self, number):
        if number == 0:
            return self.sessions
        if not self.others:
            self.others = [Session(self.socket) for _ in ENGINES]
            self._set_up(self.others)
        return self.others

    def sessions_of(self, statement):
        """The sessions of both engines that run the statement."""
        return self._sessions(statement.session)

    def end(self):
        # Open transactions and the second sessions would prevent DROP DATABASE.
        self._roll_back()
        for session in self.others:
            session.close()
        self.others = []
        for session, name in zip(self.sessions, self.names):
            session.run(f"DROP DATABASE {name}")

    def rebuild_first(self):
        """Rebuilds the keys of the first engine's tables in a separate session, except those of tables in use."""
        session = Session(self.socket)
        self._must(session, f"USE {self.names[0]}")
        self._must(session, "SET lock_wait_timeout = 1")
        for row in session.run("SHOW FULL TABLES WHERE table_type <> 'VIEW'")[2]:
            session.run(f"ALTER TABLE `{fields(row)[0].decode()}` FORCE")
        session.close()

    def execute(self, statements, number=0):
        """Runs the statements; `number` is that of the first. Raises `Difference`. Returns the answers of the first engine."""
        answers, at = [], 0
        while at < len(statements):
            size, end = 0, at
            while end < len(statements) and (size < BATCH_BYTES or end == at) and statements[end].session == statements[at].session:
                size += 2 * len(statements[end].text) + 50
                end += 1
            answers += self._execute(statements[at:end], number + at)
            at = end
        return answers

    def _execute(self, statements, number):
        sessions = self._sessions(statements[0].session)
        for session, name, engine in zip(sessions, self.names, ENGINES):
            commands = []
            for statement in statements:
                text = for_engine(statement.text, engine).replace("{db}", name).replace("{run}", str(self.run)).encode("utf-8", "surrogatepass")
                if statement.parameters is None:
                    commands.append(QUERY + text)
                else:
                    commands += [PREPARE + text, *map(execution, statement.parameters), CLOSE + LAST_PREPARED.to_bytes(4, "little")]
                if statement.warnings:
                    commands.append(SHOW_WARNINGS)
            session.send(commands)
        answers, fault = [], None
        for at, statement in enumerate(statements):
            pair = []
            for session, engine in zip(sessions, ENGINES):
                try:
                    answer = session.read() if statement.parameters is None else session.read_prepared(len(statement.parameters))
                    pair.append((answer, session.read() if statement.warnings else None))
                except Lost as lost:
                    raise Difference(statement, number + at, f"{engine}: the server ended the connection: {lost}") from lost
            answers.append(pair[0][0])
            if fault is None:
                why = self.difference(statement, *pair)
                if why:
                    left, right = (flat(answer) for answer, _ in pair)
                    refused = any(first[:2] == LARGE_UNDO for first in left) or any(each[:2] == ("error", NOT_SUPPORTED) and REFUSED_KEY in bytes_of(each[2]) for each in right)
                    refused |= any(each[0] == "error" and NO_JOIN_BUFFER in bytes_of(each[2]) for each in [*left, *right])
                    refused |= "EXCHANGE PARTITION" in statement.text and left[0][:2] == ENGINE_FAILED != right[0][:2]
                    alone = any((first[:2] == LOCKED) != (second[:2] == LOCKED) for first, second in zip(left, right))
                    newer = not PLAIN_READ.match(statement.text) and any(first[:2] == DEFINITION_CHANGED != second[:2] for first, second in zip(left, right))
                    left_open = refused or statement.locks and (alone or newer)
                    fault = (Open if left_open else Difference)(statement, number + at, why, pair[1])
        if fault:
            raise fault
        return answers

    def difference(self, statement, left, right):
        (first, first_warnings), (second, second_warnings) = left, right
        if self.loads and statement.text == "SELECT LAST_INSERT_ID()":
            # Depends on the rows before a duplicate, and returns the warnings of the statement before.
            return None
        if first[0] == "many" == second[0] and len(first[1]) == len(second[1]):
            for each in zip(first[1], second[1]):
                why = self.difference(statement, (each[0], None), (each[1], None))
                if why:
                    return why
        elif first[0] != second[0] or first[0] == "many":
            return f"{ENGINES[0]}: {describe(first)}\n{ENGINES[1]}: {describe(second)}"
        elif first[0] == "error":
            # In ALTER and CREATE ... SELECT, InnoDB checks for duplicates only after all rows were copied, so errors of
            # later rows are reported first.
            late = self.loads or ALTERS.match(statement.text)
            if first[1] != second[1] and not (late and DUPLICATE in (first[1], second[1])):
                return f"{ENGINES[0]}: {describe(first)}\n{ENGINES[1]}: {describe(second)}"
            if self.loads:
                return None
        elif not statement.rows:
            pass
        elif first[0] == "ok":
            if statement.counts and first != second and (first[1:3] != second[1:3] or statement.warnings):
                return f"{ENGINES[0]}: {describe(first)}\n{ENGINES[1]}: {describe(second)}"
        else:
            why = self.difference_of_rows(statement, first, second)
            if why:
                return why
        if first_warnings and first_warnings[2] != second_warnings[2]:
            codes = [Counter(tuple(fields(row)[:2]) for row in answer[2]) for answer in (first_warnings, second_warnings)]
            if codes[0] != codes[1]:
                shown = [[b" ".join(field or b"NULL" for field in fields(row)).decode(errors="replace") for row in answer[2]]
                         for answer in (first_warnings, second_warnings)]
                return f"warnings: {ENGINES[0]}: {shown[0][:5]}\n{ENGINES[1]}: {shown[1][:5]}"
        return None

    def difference_of_rows(self, statement, first, second):
        columns = [[definition(column.replace(*self.replace)) for column in answer[1]] for answer in (first, second)]
        if columns[0] != columns[1]:
            return f"columns: {ENGINES[0]}: {columns[0]}\n{ENGINES[1]}: {columns[1]}"
        if first[2] == second[2]:
            return None
        expected, rows = first[2], second[2]
        if statement.text.startswith("CHECK"):
            # InnoDB warns of old versions that it has not purged yet.
            expected = [row for row in expected if b"InnoDB: Unpurged" not in row and b"InnoDB: Clustered index record not found" not in row]
            rows = [row.replace(*self.replace) for row in rows]
        shown = fields if statement.parameters is None else bytes  # rows of the binary protocol are shown as bytes
        if rows == expected or not statement.ordered and sorted(rows) == sorted(expected):
            return None
        missing, extra = Counter(expected) - Counter(rows), Counter(rows) - Counter(expected)
        where = f"{len(expected)} rows in {ENGINES[0]}, {len(rows)} in {ENGINES[1]}"
        if not missing and not extra:
            return f"{where}: the same rows in another order: {[shown(row) for row in expected][:6]} and {[shown(row) for row in rows][:6]}"
        return f"{where}; only in {ENGINES[0]}: {[shown(row) for row in missing][:3]}; only in {ENGINES[1]}: {[shown(row) for row in extra][:3]}"


def definition(column):
    """The parts of a result column's definition that do not depend on the plan: excludes its flags (such as NOT NULL)
    and the length of MIN and MAX."""
    return column[:-10] + column[-6:-5] if b"MIN(" in column or b"MAX(" in column else column[:-5]


def describe(answer):
    if answer[0] == "error":
        return f"error {answer[1]}: {answer[2]}"
    if answer[0] == "many":
        return "; ".join(map(describe, answer[1]))
    if answer[0] == "ok":
        return f"affected {answer[1]}, insert id {answer[2]}, warnings {answer[3]}, {answer[4]!r}"
    return f"{len(answer[2])} rows"
