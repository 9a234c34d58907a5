"""A world of two sessions that take turns. Tests visibility between transactions, and lock conflicts.

No session waits: a lock conflict ends the statement immediately. The engine determines which additional locks a
statement takes (gaps, rows that do not match). If only one engine finds a lock conflict, the world ends. So while
a session has a transaction, statements insert rows, or change one row by its key.
"""

import random

from . import changes, nested, parameters, queries, rarer
from .statement import Statement
from .world import ISOLATION, World


class Interleaved(World):
    def __init__(self, seed, collations, statements):
        super().__init__(seed, collations, statements, alters=False, versioned=False)
        self.open, self.levels = [False, False], ["", ""]
        self.turn = 0

    def settings(self):
        return [*super().settings(), Statement("SET innodb_lock_wait_timeout = 0"), Statement("SET teak_lock_timeout = 0"), Statement("SET lock_wait_timeout = 0")]

    def _next(self):
        if self.draw.random() < 0.4:
            self.turn = 1 - self.turn
        made = self._step() if self.open[self.turn] != "prepared" else self._end()
        for statement in made:
            # The number of warnings about a failed lock is undefined.
            statement.session, statement.locks, statement.warnings = self.turn, True, False
            statement.text = statement.text.replace(" SKIP LOCKED", "")  # with which InnoDB may fail with error 1180
        return made

    def _step(self):
        draw, kind = self.draw, self.draw.random()
        # After a transaction has changed rows, InnoDB does not find them by keys on virtual columns. Below REPEATABLE
        # READ it checks hashed keys differently.
        tables = [table for table in self.tables if not any(key.hashed or any(not column.stored for column in key.columns()) for key in table.keys)]
        if not tables:
            return [queries.query(draw, draw.choice(self.tables), self.tables)]
        table = draw.choice(tables)
        if kind < 0.12:
            return self._boundary()
        # In Teak, a SERIALIZABLE reader takes locks and so reads rows that are newer than its snapshot, see
        # DEFINITION_CHANGED.
        if kind < 0.14 and not self.open[self.turn] and not (self.open[1 - self.turn] and self.levels[1 - self.turn] == "SERIALIZABLE"):
            return self._definition(table)
        if kind < 0.5:
            return [draw.choices([queries, nested, rarer], [6, 2, 2])[0].query(draw, table, tables) if draw.random() < 0.8 else self._locking(table)]
        if not any(self.open) and kind < 0.8:
            return changes.change(draw, table, tables, True)
        columns = changes.writable(table)
        if kind < 0.7:
            return changes.insert(draw, table, tables, rows=draw.choice([1, 1, 2]))
        free = [column for column in columns if not column.auto_increment]
        return [parameters.change_of_row(draw, table, draw.choice(free or [None]), changes.value)
                or parameters.insert(draw, table, columns, changes.value)]

    def _locking(self, table):
        key = table.total_key()
        if key is None:
            return queries.plain(self.draw, table, [table])
        test = " AND ".join(f"{column.name} = {column.probe(self.draw)}" for column in key.columns())
        lock = self.draw.choice(["FOR UPDATE", "LOCK IN SHARE MODE", "FOR UPDATE NOWAIT"])
        return Statement(f"SELECT {table.names()} FROM {table.name} WHERE {test} {lock}", warnings=False)

    def _definition(self, table):
        """A change of a table that the other session may have read, or for which it has an older snapshot."""
        key = self.draw.choice(table.columns)
        return [Statement(text, counts=False, rows=False) for text in self.draw.choice([
            [f"TRUNCATE TABLE {table.name}"], [f"ALTER TABLE {table.name} FORCE, ALGORITHM=COPY"], [f"ALTER TABLE {table.name} ENGINE={{engine}}, ALGORITHM=COPY"],
            [f"RENAME TABLE {table.name} TO moved", f"RENAME TABLE moved TO {table.name}"], [f"ANALYZE TABLE {table.name}"],
            [f"ALTER TABLE {table.name} ADD KEY kx ({key.name})"] if 0 < key.key_bytes < 3000 and key.family not in ("geometry", "json") else [],
            [f"ALTER TABLE {table.name} DROP KEY kx"], [f"CREATE TABLE copied LIKE {table.name}", "DROP TABLE copied"]])]

    def _boundary(self):
        draw = self.draw
        if not self.open[self.turn]:
            begin = draw.choice(["START TRANSACTION", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "BEGIN", f"XA START '{{db}}{self.turn}'"])
            self.open[self.turn] = "XA" if begin.startswith("XA") else "plain"
            self.levels[self.turn] = draw.choice(ISOLATION)
            return [Statement(f"SET TRANSACTION ISOLATION LEVEL {self.levels[self.turn]}"), Statement(begin, warnings=False)]
        if draw.random() < 0.4:
            return [Statement(draw.choice(["SAVEPOINT ", "ROLLBACK TO SAVEPOINT ", "RELEASE SAVEPOINT "]) + draw.choice(["a", "b"]))]
        return self._end()

    def _end(self):
        """Ends the transaction of this turn, or prepares it, so that the other session runs while it is prepared."""
        state, self.open[self.turn] = self.open[self.turn], False
        if state == "plain":
            return [Statement(self.draw.choice(["COMMIT", "COMMIT", "ROLLBACK"]))]
        name = f"'{{db}}{self.turn}'"
        if state == "prepared":
            return [Statement(f"XA {self.draw.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])} {name}")]
        if self.draw.random() < 0.3:
            return [Statement(f"XA END {name}"), Statement(f"XA COMMIT {name} ONE PHASE")]
        self.open[self.turn] = "prepared"
        return [Statement(f"XA END {name}"), Statement(f"XA PREPARE {name}")]

    def verify(self):
        """Both sessions end their transactions before the tables are compared."""
        ends, turn = [], self.turn
        for self.turn in range(2):
            while self.open[self.turn]:
                for statement in self._end():
                    statement.session = self.turn
                    ends.append(statement)
        self.turn = turn
        return [*ends, *super().verify()]


def world_of(seed, collations, statements, alters):
    """The world of this seed: one in six has two sessions."""
    if random.Random(seed + " sessions").random() < 1 / 6:
        return Interleaved(seed, collations, statements)
    return World(seed, collations, statements, alters)
