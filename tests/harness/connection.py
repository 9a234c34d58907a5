"""A session with the server: one statement at a time, errors as exceptions."""

from . import wire

# A lock timeout, a deadlock, a row or the definition of a table that changed since the snapshot.
CONFLICTS = (1205, 1213, 1020, 1412)
# Errors after which the session no longer exists; the first is the client library's number for a lost connection.
LOST = (wire.CONNECTION_LOST, 2002, 2003, 2006, 2027, 2055, 1053, 1927)


def quoted_name(name):
    """A name of a database, table or column in a statement."""
    return "`" + name.replace("`", "``") + "`"


class SqlError(Exception):
    """An error of the server for a statement, or the loss of the connection (`lost`)."""

    def __init__(self, number, message, statement=""):
        super().__init__(f"error {number}: {message}" + (f" in: {statement[:200]}" if statement else ""))
        self.number = number
        self.message = message

    @property
    def lost(self):
        return self.number in LOST

    @property
    def conflict(self):
        """Whether the transaction was refused because of a concurrent one, and may be tried again."""
        return self.number in CONFLICTS


class Connection:
    """One session as root. Rows are tuples of bytes, or None for NULL."""

    def __init__(self, socket, database=""):
        self.last_insert_id = 0
        try:
            self.session = wire.Session(socket, database.encode(), timeout=None)
        except wire.Lost as error:
            raise SqlError(error.number, str(error)) from error
        self.run("SET NAMES utf8mb4")

    def run(self, statement):
        """Runs one statement; returns its rows, or the number of rows that it affected."""
        answer = self._run(statement)
        if answer[0] == "rows":
            return [tuple(wire.fields(row)) for row in answer[2]]
        self.last_insert_id = answer[2]
        return answer[1]

    def run_named(self, statement):
        """Runs a statement that returns rows; returns them and the names of their columns."""
        _, columns, rows, _ = self._run(statement)
        return [tuple(wire.fields(row)) for row in rows], [wire.column_name(column) for column in columns]

    def _run(self, statement):
        shown = statement if isinstance(statement, str) else ""
        try:
            answer = self.session.run(statement)
        except wire.Lost as error:
            raise SqlError(error.number, str(error), shown) from error
        if answer[0] == "error":
            raise SqlError(answer[1], answer[2], shown)
        return answer

    def value(self, statement):
        """The first column of the first row as text; None if it is NULL or there is no row."""
        rows = self.run(statement)
        return rows[0][0].decode() if rows and rows[0][0] is not None else None

    def insert_id(self):
        return self.last_insert_id

    def close(self):
        self.session.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def create_tables(connection, database, tables, engine="TEAK"):
    """Creates the database, makes it the current one, and creates the tables (name to columns) in it."""
    connection.run(f"CREATE DATABASE IF NOT EXISTS {database} DEFAULT CHARSET utf8mb4")
    connection.run(f"USE {database}")
    for table, columns in tables.items():
        connection.run(f"CREATE TABLE {table} ({columns}) ENGINE={engine}")
