"""One world: a few tables and some hundred statements on them, generated from one seed, in its own database."""

import random

from . import changes, conflicts, definitions, failing, nested, paged, periods, queries, rarer, scenes
from .schema import make_table
from .statement import Statement

# Excludes PAD_CHAR_TO_FULL_LENGTH: in NOPAD collations, the use of a key determines whether CHAR values are compared
# with padding. A world switches only between the modes of one list, because in temporary tables the server stores dates
# that the mode does not allow as zero.
MODES = [["", "STRICT_TRANS_TABLES", "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
          "TIME_ROUND_FRACTIONAL,STRICT_TRANS_TABLES"],
         ["STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE", "TRADITIONAL"],
         ["ALLOW_INVALID_DATES", "ALLOW_INVALID_DATES,STRICT_ALL_TABLES"]]
SWITCHES = ["mrr", "mrr_cost_based", "mrr_sort_keys", "index_merge", "index_merge_union", "index_merge_sort_union", "index_merge_intersection",
            "index_merge_sort_intersection", "index_condition_pushdown", "derived_merge", "derived_with_keys", "firstmatch", "loosescan", "materialization",
            "semijoin", "subquery_cache", "outer_join_with_cache", "semijoin_with_cache", "join_cache_incremental", "join_cache_hashed",
            "join_cache_bka", "optimize_join_buffer_size", "table_elimination", "extended_keys", "exists_to_in", "orderby_uses_equalities",
            "condition_pushdown_for_derived", "split_materialized", "condition_pushdown_for_subquery", "rowid_filter", "condition_pushdown_from_having"]
VARIABLES = {"join_cache_level": [0, 1, 3, 4, 6, 8, 8], "mrr_buffer_size": [8192],
             "max_length_for_sort_data": [4, 8192], "tmp_memory_table_size": [0], "optimizer_use_condition_selectivity": [1, 3, 5],
             "eq_range_index_dive_limit": [1, 2], "optimizer_search_depth": [0, 1], "read_rnd_buffer_size": [1024]}
ISOLATION = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
# Long enough sort keys and warning lists: otherwise the order of long values and the choice of warnings are undefined.
SETTINGS = ["SET NAMES utf8mb4", "SET timestamp = 1700000000", "SET max_sort_length = 32768", "SET sort_buffer_size = 16777216", "SET max_error_count = 5000",
            "SET time_zone = '+00:00'", "SET default_tmp_storage_engine = InnoDB", "SET system_versioning_alter_history = KEEP",
            # Makes InnoDB's limit on the length of a row a warning instead of an error.
            "SET innodb_strict_mode = OFF"]


# In some worlds, statements that insert rows load them in bulk from this number of bytes on.
LOAD_THRESHOLDS = [0, 0, 100, 1000]


def loads(draw):
    return [f"SET @loads = 1{{teak:, teak_bulk_load_threshold = {draw.choice(LOAD_THRESHOLDS)}}}"] if draw.random() < 0.25 else []


def plans(draw):
    """Optimizer settings, which must not change answers. Half of the worlds use the defaults."""
    if draw.random() < 0.5:
        return []
    switches = [f"{name}={draw.choice(['on', 'off'])}" for name in SWITCHES if draw.random() < 0.4]
    made = [f"SET optimizer_switch = '{','.join(switches)}'"] if switches else []
    made += [f"SET {name} = {draw.choice(values)}" for name, values in VARIABLES.items() if draw.random() < 0.3]
    return made


class World:
    def __init__(self, seed, collations, statements, alters=True, versioned=True):
        self.draw = random.Random(seed)
        self.collations, self.statements, self.alters = collations, statements, alters
        self.tables, self.versioned = [], versioned
        self.transaction, self.savepoints = False, []
        self.modes = self.draw.choices(MODES, [4, 2, 2])[0]
        self.mode = self.draw.choice(self.modes)
        self.first_mode = self.mode
        self.plans = plans(random.Random(seed + " plans"))
        self.loads = loads(random.Random(seed + " loads"))
        # If InnoDB sorts positions (see make_key()) or reads rows in the order of positions, it finds no rows by keys
        # on virtual columns. The server crashes on COMPRESSED columns in its temporary tables on disk, with every
        # engine.
        self.compressible = not any("tmp_memory_table_size" in text for text in self.plans)
        # Hash joins lose pairs of NULL, which are equal by <=>, in MyISAM and Aria too.
        self.hash_joins = any("join_cache_level" in text for text in self.plans)
        # With mrr=on, InnoDB misses rows in partitioned tables, because ha_partition passes the same buffer for row
        # positions to all partitions.
        self.divisible = not any("mrr=on" in text for text in self.plans)
        self.virtual_keys = not any("mrr=on" in text or "max_length_for_sort_data" in text for text in self.plans)
        self.clock = 0
        self.bulky = self.draw.random() < 0.1
        # In some worlds, ALTER TABLE is frequent.
        self.altering = alters and random.Random(seed + " alters").random() < 0.2

    def settings(self):
        return [Statement(text) for text in [*SETTINGS, *self.plans, *self.loads, f"SET sql_mode = '{self.first_mode}'"]]

    def batches(self):
        """Lists of statements. After each list the model is up to date: a statement that changes it ends its list."""
        yield from self._create()
        done = 0
        while done < self.statements:
            if not self.tables:
                return
            batch = []
            while len(batch) < 30 and sum(len(statement.text) for statement in batch) < 40000:
                made = self._next()
                batch += made
                if made and made[-1].then:
                    break
            done += len(batch)
            for statement in batch if self.hash_joins else ():
                statement.text = statement.text.replace(" <=> y.", " = y.").replace(" <=> d.", " = d.")
            for statement in batch:
                # If keys are excluded only for the join, the server crashes in sorts with a constant term, in MyISAM
                # too.
                if " INDEX FOR JOIN (" in statement.text and (" ORDER BY " in statement.text or " GROUP BY " in statement.text):
                    statement.text = statement.text.replace(" INDEX FOR JOIN (", " INDEX (")
            yield batch
            if self.draw.random() < 0.12:
                yield self.verify()
        while self.transaction:
            yield self._end_transaction()
        yield self.verify()

    def _create(self):
        for number in range(self.draw.choices([1, 2, 3], [3, 4, 2])[0]):
            table = make_table(self.draw, f"t{number}", self.collations, versioned=self.versioned and self.draw.random() < 0.1, virtual_keys=self.virtual_keys,
                               divisible=self.divisible, compressible=self.compressible)
            yield [Statement(table.create(), then=lambda table=table: self.tables.append(table))]
            if table in self.tables:
                yield changes.insert(self.draw, table, self.tables, rows=self.draw.randint(3, 20))

    def _next(self):
        draw = self.draw
        table = draw.choice(self.tables)
        kind = draw.random()
        made = []
        if table.versioned:
            # The history cannot distinguish two changes of a row at the same instant.
            self.clock += 1
            made.append(Statement(f"SET timestamp = {1700000000 + self.clock}.{draw.randrange(10**6):06}"))
        if self.altering and not self.transaction and draw.random() < 0.15:
            return [*made, *self._alter(table)]
        if self.bulky and draw.random() < 0.01:
            return changes.bulk(draw, table, self.tables, deep=draw.random() < 0.1)
        if kind < 0.39:
            return [*made, *changes.change(draw, table, self.tables, self.transaction)]
        if kind < 0.825:
            return [draw.choices([queries, nested, rarer], [10, 5, 5])[0].query(draw, table, self.tables)]
        if kind < 0.83:
            return rarer.by_every_key(draw, table, self.tables)
        if kind < 0.89:
            return self._transaction_step()
        if kind < 0.895:
            self.mode = draw.choice(self.modes)
            return [Statement(f"SET sql_mode = '{self.mode}'")]
        if self.transaction:
            return []
        if kind < 0.915:
            return definitions.other(draw, table, self.tables)
        if kind < 0.922:
            return periods.scene(draw, self.collations)
        if kind < 0.9223:
            return paged.scene(draw, self.collations)
        if kind < 0.9231:
            return scenes.joined_view(draw, table, self.tables)
        if kind < 0.928:
            return conflicts.scene(draw, self.collations, self.virtual_keys)
        if kind < 0.932:
            return failing.scene(draw, table, self.tables)
        if kind < 0.945:
            return draw.choice([scenes.view, scenes.sequence, scenes.block, scenes.block, scenes.routine, scenes.temporary, scenes.locked])(draw, table, self.tables)
        if kind < 0.95:
            return scenes.maintenance(draw, table, self.tables)
        if kind < 0.99 and self.alters:
            return [*made, *self._alter(table)]
        return [Statement("CHECK TABLE " + table.name)]

    def _alter(self, table):
        # A copy rejects existing zero dates that the mode does not allow; a change in place does not check them.
        copies = "NO_ZERO" in self.mode or self.mode == "TRADITIONAL"
        return definitions.alter(self.draw, table, self.collations, copies)

    def _transaction_step(self):
        draw = self.draw
        if not self.transaction:
            # After a transaction has changed rows, InnoDB misses them if it sorts by a key on a virtual column.
            if any(not column.stored for table in self.tables for key in table.keys for column in key.columns()):
                return []
            self.transaction = draw.choices(["START TRANSACTION", "BEGIN", "XA", "SET autocommit = 0", "START TRANSACTION READ ONLY",
                                             "START TRANSACTION WITH CONSISTENT SNAPSHOT"], [6, 6, 2, 2, 1, 1])[0]
            begin = "XA START '{db}'" if self.transaction == "XA" else self.transaction
            # Below REPEATABLE READ the server checks InnoDB's hashed keys after the write. Then REPLACE fails and
            # UPDATE IGNORE is not supported.
            hashed = any(key.hashed for table in self.tables for key in table.keys)
            return [Statement(f"SET TRANSACTION ISOLATION LEVEL {draw.choice(ISOLATION[2:] if hashed else ISOLATION)}"), Statement(begin)]
        if draw.random() < 0.5:
            # A savepoint that does not exist is an error on both engines.
            if not self.savepoints or draw.random() < 0.4:
                self.savepoints.append(draw.choice(["a", "b", "c"]))
                return [Statement("SAVEPOINT " + self.savepoints[-1])]
            return [Statement(draw.choice(["ROLLBACK TO SAVEPOINT ", "ROLLBACK TO SAVEPOINT ", "RELEASE SAVEPOINT "]) + draw.choice(self.savepoints))]
        return self._end_transaction()

    def _end_transaction(self):
        draw, kind = self.draw, self.transaction
        self.transaction, self.savepoints = False, []
        if kind != "XA":
            if draw.random() < 0.1:
                self.transaction = kind
                return [Statement(draw.choice(["COMMIT AND CHAIN", "ROLLBACK AND CHAIN"]))]
            ended = [Statement(draw.choice(["COMMIT", "ROLLBACK"]))]
            return [*ended, Statement("SET autocommit = 1")] if kind == "SET autocommit = 0" else ended
        prepared = [Statement("XA PREPARE '{db}'"), Statement(draw.choice(["XA COMMIT '{db}'", "XA ROLLBACK '{db}'"]))]
        return [Statement("XA END '{db}'"), *draw.choice([prepared, [Statement("XA COMMIT '{db}' ONE PHASE")], [Statement("XA ROLLBACK '{db}'")]])]

    def verify(self):
        """Statements that read every table through every key, and check it."""
        steps = []
        for table in self.tables:
            names = table.names()
            steps.append(Statement(f"SELECT {names} FROM {table.name}", warnings=False, checks=True))
            for key in table.keys:
                if key.ignored:
                    continue
                index, parts = key.usable_name(), key.columns()
                down = self.draw.random() < 0.5
                order = ", ".join(column.name + (" DESC" if descending != down else "") for column, _, descending in key.parts)
                first = parts[0]
                steps.append(Statement(f"SELECT {names} FROM {table.name} FORCE INDEX ({index}) ORDER BY {order}", warnings=False, checks=True))
                if first.family not in ("geometry", "json"):
                    steps.append(Statement(f"SELECT {names} FROM {table.name} FORCE INDEX ({index}) WHERE {first.name} >= {first.probe(self.draw)} "
                                           f"OR {first.name} IS NULL", warnings=False, checks=True))
                covered = ", ".join(column.name for column in parts)
                steps.append(Statement(f"SELECT {covered} FROM {table.name} FORCE INDEX ({index})", warnings=False, checks=True))
            steps.append(Statement(f"CHECK TABLE {table.name} EXTENDED", checks=True))
            if self.draw.random() < 0.3:
                steps.append(Statement(f"SHOW FULL COLUMNS FROM {table.name}", checks=True))
                steps.append(Statement("SELECT index_name, seq_in_index, column_name, collation, sub_part, non_unique, nullable, index_type, ignored FROM "
                                       f"information_schema.statistics WHERE table_schema = DATABASE() AND table_name = '{table.name}'", checks=True))
            # The server's checksum includes the NULL bits of virtual columns, which it does not compute, and the odd
            # bits of BIT columns in the NULL area, which InnoDB does not reset if the column is NULL. InnoDB excludes
            # stored generated columns; Aria, MyISAM and Teak include them.
            if not any(column.generated or column.family == "bit" for column in table.columns):
                steps.append(Statement(f"CHECKSUM TABLE {table.name} EXTENDED", checks=True))
        return steps
