"""The model of the DDL crash test: columns, keys, partitions and rows of tables, and the effect of each statement.

A statement that was in flight at the kill is applied completely or not at all. Where MariaDB guarantees less, `outcomes` lists
every state that it allows, with the reason.
"""

import copy
import itertools

BOUNDS = [10, 100, 1000, 10_000]  # of RANGE partitions on id
ROW_IDS = 20_000


class Table:
    """columns: (name, may be NULL, default), in order; id and v are included; all others are INT. keys: names of
    secondary keys, each on the column of that name. parts: None, or list of (name, bound or None for MAXVALUE).
    rows: id to the other columns' values by name."""

    def __init__(self):
        self.columns, self.keys, self.parts, self.rows = [("id", False, None), ("v", True, None)], ["v"], None, {}

    def names(self):
        return [name for name, _, _ in self.columns]

    def numbers(self):
        """Names of the columns that are neither id nor v."""
        return [name for name in self.names() if name not in ("id", "v")]

    def row(self, text, given):
        return {"v": text, **{name: default for name, _, default in self.columns if name not in ("id", "v")}, **given}

    def part_of(self, row):
        return next((name for name, bound in self.parts if bound is None or row < bound), None)

    def rows_of(self, part):
        return {row: values for row, values in self.rows.items() if self.part_of(row) == part}

    def shape(self):
        return (tuple(self.columns), tuple(sorted(self.keys)), tuple(self.parts) if self.parts else None)

    def __eq__(self, other):
        return isinstance(other, Table) and self.shape() == other.shape() and self.rows == other.rows

    def __repr__(self):
        return f"{self.columns} {self.keys} {self.parts} {len(self.rows)} rows"

    def definition(self):
        items = [define(*column) for column in self.columns] + ["PRIMARY KEY (id)"]
        items += [f"KEY {key} ({key})" for key in self.keys]
        return f"({', '.join(items)}) ENGINE=TEAK" + (partition_by(self.parts) if self.parts else "")


def define(name, nullable, default):
    kind = "VARCHAR(40)" if name == "v" else "INT"
    return f"{name} {kind} {'NULL' if nullable else 'NOT NULL'}" + ("" if name == "id" else f" DEFAULT {literal(default)}")


def literal(value):
    return "NULL" if value is None else str(value)


def partition_by(parts):
    return " PARTITION BY RANGE (id) (" + ", ".join(one_partition(*part) for part in parts) + ")"


def one_partition(name, bound):
    return f"PARTITION {name} VALUES LESS THAN " + ("MAXVALUE" if bound is None else f"({bound})")


class State:
    """Databases, each a dict of tables."""

    def __init__(self, databases):
        self.databases = {name: {} for name in databases}

    def tables(self):
        return {(database, name): table for database, tables in self.databases.items() for name, table in tables.items()}

    def __eq__(self, other):
        return self.databases == other.databases


def name_of(place):
    return f"{place[0]}.{place[1]}"


class Change:
    """One statement: its text and the state after it. `between`: other states that are valid after a crash."""

    def __init__(self, text, before, work, between=None):
        self.text, self.before = text, before
        self.after = copy.deepcopy(before)
        work(self.after)
        self.between = between or (lambda: [])
        # `fragile`: a kill may leave the change incomplete. Partitions are created, renamed and dropped one by one. The
        # server's DDL log (10.11) neither completes nor reverts an interrupted change, because renaming in either
        # direction needs the .par file, which is renamed last.
        changed = [place for place in {**before.tables(), **self.after.tables()}
                   if before.tables().get(place) != self.after.tables().get(place)]
        self.fragile = not text.startswith(("INSERT", "UPDATE", "DELETE", "TRUNCATE")) and any(
            state.tables()[place].parts for state in (before, self.after) for place in changed if place in state.tables()) or (
                text.startswith("ALTER") and "PARTITION" not in text and any(
                    table.parts and f" {name_of(place)} " in text for place, table in before.tables().items())) or "PARTITION" in text

    def outcomes(self):
        return [self.before, self.after, *self.between()]


def without(state, places):
    state = copy.deepcopy(state)
    for database, name in places:
        state.databases[database].pop(name, None)
    return state


def new_parts(draw):
    bounds = sorted(draw.sample(BOUNDS, draw.randint(1, 3)))
    parts = [(f"p{bound}", bound) for bound in bounds]
    return [*parts, ("pmax", None)] if draw.random() < 0.5 else parts


def choose(draw, state, counter, partitions):
    """A random statement that the server accepts, as a `Change`."""
    tables = state.tables()
    places = list(tables)
    databases = list(state.databases)
    fresh = (draw.choice(databases), f"t{next(counter)}")
    if len(places) < 4 or len(places) < 12 and draw.random() < 0.15:
        return create(draw, state, fresh, partitions)
    place = draw.choice(places)
    table = tables[place]
    maker = draw.choices([insert, erase, update, drop, rename, truncate, optimize, alter, partition, replace, create_select, drop_database],
                         [8, 2, 3, 3, 5, 3, 3, 14, 0 if not partitions else 10 if table.parts else 2, 2, 3, 0.7])[0]
    change = maker(draw, state, place, table, fresh, counter)
    return change if partitions or not change.fragile else create(draw, state, fresh, partitions)


def put(state, place, table):
    state.databases[place[0]][place[1]] = table


def create(draw, state, place, partitions):
    table = Table()
    if partitions and draw.random() < 0.5:
        table.parts = new_parts(draw)
    return Change(f"CREATE TABLE {name_of(place)} {table.definition()}", state, lambda after: put(after, place, table))


def insert(draw, state, place, table, fresh, counter):
    ids = [row for row in draw.sample(range(1, ROW_IDS), draw.randint(1, 60)) if row not in table.rows]
    ids = [row for row in ids if not table.parts or table.part_of(row)]
    if not ids:
        return truncate(draw, state, place, table, fresh, counter)
    given = [name for name in table.numbers() if draw.random() < 0.5]
    rows = {row: table.row(f"text {draw.randrange(10**6)}", {name: draw.randrange(1000) for name in given}) for row in ids}
    values = ", ".join(f"({row}, '{made['v']}'" + "".join(f", {made[name]}" for name in given) + ")" for row, made in rows.items())
    return Change(f"INSERT INTO {name_of(place)} ({', '.join(['id', 'v', *given])}) VALUES {values}", state,
                  lambda after: after.databases[place[0]][place[1]].rows.update(rows))


def update(draw, state, place, table, fresh, counter):
    """An UPDATE, which rewrites rows that were written before an instant ALTER TABLE."""
    if not table.numbers():
        return insert(draw, state, place, table, fresh, counter)
    name, bound = draw.choice(table.numbers()), draw.randrange(ROW_IDS)

    def work(after):
        for row, values in after.databases[place[0]][place[1]].rows.items():
            if row >= bound and values[name] is not None:
                values[name] += 1
    return Change(f"UPDATE {name_of(place)} SET {name} = {name} + 1 WHERE id >= {bound}", state, work)


def erase(draw, state, place, table, fresh, counter):
    bound = draw.randrange(ROW_IDS)

    def work(after):
        rows = after.databases[place[0]][place[1]].rows
        for row in [row for row in rows if row >= bound]:
            del rows[row]
    return Change(f"DELETE FROM {name_of(place)} WHERE id >= {bound}", state, work)


def drop(draw, state, place, table, fresh, counter):
    places = list(dict.fromkeys([place, *draw.choices(list(state.tables()), k=draw.choice([0, 0, 1, 2]))]))

    def work(after):
        for database, name in places:
            del after.databases[database][name]
    # According to the manual on atomic DDL, each table is dropped atomically, but the list is not.
    return Change("DROP TABLE " + ", ".join(map(name_of, places)), state, work,
                  lambda: [without(state, places[:count]) for count in range(1, len(places))])


def rename(draw, state, place, table, fresh, counter):
    others = [other for other in state.tables() if other != place]
    if others and draw.random() < 0.3:
        other = draw.choice(others)  # the two tables swap names
        moves = [(place, fresh), (other, place), (fresh, other)]
    else:
        chosen = [place, *draw.sample(others, min(len(others), draw.choice([0, 0, 1, 2])))]
        moves = [(old, (draw.choice(list(state.databases)), f"t{next(counter)}")) for old in chosen]

    def work(after):
        for old, new in moves:
            put(after, new, after.databases[old[0]].pop(old[1]))
    return Change("RENAME TABLE " + ", ".join(f"{name_of(old)} TO {name_of(new)}" for old, new in moves), state, work)


def emptied(state, place, parts):
    state = copy.deepcopy(state)
    table = state.databases[place[0]][place[1]]
    table.rows = {row: values for row, values in table.rows.items() if table.part_of(row) not in parts}
    return state


def truncate(draw, state, place, table, fresh, counter):
    def between():
        # Partitions are truncated one by one, each atomically, in InnoDB too.
        names = [name for name, _ in table.parts or []]
        return [emptied(state, place, names[:count]) for count in range(1, len(names))]
    return Change(f"TRUNCATE TABLE {name_of(place)}", state, lambda after: after.databases[place[0]][place[1]].rows.clear(), between)


def optimize(draw, state, place, table, fresh, counter):
    return Change(f"OPTIMIZE TABLE {name_of(place)}", state, lambda after: None)


def alter(draw, state, place, table, fresh, counter):
    """Columns are added, dropped, moved, renamed and made nullable, keys added and dropped: each column at most once."""
    changed = copy.deepcopy(table)
    terms, touched, kinds, placed = [], {"id", "v"}, set(), False

    def column_at(name):
        return changed.names().index(name)
    for _ in range(draw.choice([1, 1, 2, 3])):
        kind = draw.choice(["add", "add", "add", "drop", "drop", "move", "null", "key", "key", "unkey", "rename", "force", "default"])
        free = [name for name in table.numbers() if name not in touched and name not in changed.keys]
        anchors = [None, *(name for name in table.names() if name not in touched or name in ("id", "v"))]
        if kind == "add":
            nullable = draw.random() < 0.6
            column = (f"c{next(counter)}", nullable, draw.choice([None, 7] if nullable else [7, 8]))
            at = len(changed.columns)
            where = ""
            if not placed and draw.random() < 0.5:
                anchor, placed = draw.choice(anchors), True
                where, at = (" FIRST", 0) if anchor is None else (f" AFTER {anchor}", column_at(anchor) + 1)
                touched.add(anchor)
            changed.columns.insert(at, column)
            for values in changed.rows.values():
                values[column[0]] = column[2]
            terms.append(f"ADD COLUMN {define(*column)}{where}")
        elif kind == "move":
            movable = [name for name in table.names() if name not in touched or name in ("id", "v")]
            name, anchor = draw.choice(movable), draw.choice(anchors)
            if placed or name == anchor:
                continue
            placed = True
            touched |= {name, anchor}
            column = changed.columns.pop(column_at(name))
            changed.columns.insert(0 if anchor is None else column_at(anchor) + 1, column)
            terms.append(f"MODIFY {define(*column)} " + ("FIRST" if anchor is None else f"AFTER {anchor}"))
        elif kind in ("drop", "rename", "default", "key", "null"):
            if kind == "null":
                free = [name for name in free if not changed.columns[column_at(name)][1]]
            if not free:
                continue
            name = draw.choice(free)
            touched.add(name)
            at = column_at(name)
            column = changed.columns[at]
            if kind == "drop":
                del changed.columns[at]
                for values in changed.rows.values():
                    del values[name]
                terms.append(f"DROP COLUMN {name}")
            elif kind == "key":
                changed.keys.append(name)
                terms.append(f"ADD KEY {name} ({name})")
            elif kind == "rename":
                changed.columns[at] = (f"c{next(counter)}", *column[1:])
                for values in changed.rows.values():
                    values[changed.columns[at][0]] = values.pop(name)
                terms.append(f"RENAME COLUMN {name} TO {changed.columns[at][0]}")
            elif kind == "null":
                changed.columns[at] = (name, True, column[2])
                terms.append(f"MODIFY {define(*changed.columns[at])}")
            else:
                changed.columns[at] = (name, column[1], draw.randrange(100))
                terms.append(f"ALTER COLUMN {name} SET DEFAULT {changed.columns[at][2]}")
        elif kind == "unkey":
            keys = [key for key in table.keys if key in changed.keys and (key not in touched or key == "v" and not placed)]
            if not keys:
                continue
            key = draw.choice(keys)
            touched.add(key)
            changed.keys.remove(key)
            terms.append(f"DROP KEY {key}")
        elif not terms:
            terms.append("FORCE")
        kinds.add(kind)
    if not terms:
        terms = ["COMMENT 'x'"]
    if draw.random() < 0.3:
        terms.append("ALGORITHM=COPY")
    elif kinds <= {"add", "drop", "move", "null", "rename", "default"} and draw.random() < 0.5:
        terms.append("ALGORITHM=INSTANT")
    return Change(f"ALTER TABLE {name_of(place)} {', '.join(terms)}", state, lambda after: put(after, place, changed))


def partition(draw, state, place, table, fresh, counter):
    changed = copy.deepcopy(table)
    alter_table = f"ALTER TABLE {name_of(place)} "
    if not table.parts:
        changed.parts = new_parts(draw)
        if any(changed.part_of(row) is None for row in table.rows):
            changed.parts = [*[part for part in changed.parts if part[1]], ("pmax", None)]
        return Change(alter_table + partition_by(changed.parts).strip(), state, lambda after: put(after, place, changed))
    kinds = ["remove", "truncate", "rebuild", "exchange", "reorganize"]
    if len(table.parts) > 1:
        kinds += ["drop", "convert", "merge"]
    if table.parts[-1][1] is not None:
        kinds += ["add", "add", "adopt"]
    kind = draw.choice(kinds)
    at = draw.randrange(len(table.parts))
    name, bound = table.parts[at]
    rest = {row: values for row, values in table.rows.items() if table.part_of(row) != name}
    if kind == "remove":
        changed.parts = None
        text = "REMOVE PARTITIONING"
    elif kind == "truncate":
        changed.rows = rest
        text = f"TRUNCATE PARTITION {name}"
    elif kind == "rebuild":
        text = f"REBUILD PARTITION {draw.choice([name, 'ALL'])}"
    elif kind == "drop":
        del changed.parts[at]
        changed.rows = rest
        text = f"DROP PARTITION {name}"
    elif kind == "convert":
        made = copy.deepcopy(table)
        made.parts, made.rows = None, table.rows_of(name)
        del changed.parts[at]
        changed.rows = rest
        return Change(f"{alter_table}CONVERT PARTITION {name} TO TABLE {name_of(fresh)}", state,
                      lambda after: (put(after, place, changed), put(after, fresh, made)))
    elif kind == "merge":
        at = min(at, len(table.parts) - 2)
        both, new = table.parts[at:at + 2], f"q{next(counter)}"
        changed.parts[at:at + 2] = [(new, both[1][1])]
        text = f"REORGANIZE PARTITION {both[0][0]}, {both[1][0]} INTO ({one_partition(new, both[1][1])})"
    elif kind == "reorganize":
        lower = table.parts[at - 1][1] if at else 0
        middle = lower + 5 if bound is None else (lower + bound) // 2
        if middle <= lower:
            return truncate(draw, state, place, table, fresh, counter)
        halves = [(f"q{next(counter)}", middle), (f"q{next(counter)}", bound)]
        changed.parts[at:at + 1] = halves
        text = f"REORGANIZE PARTITION {name} INTO ({', '.join(one_partition(*half) for half in halves)})"
    elif kind == "add":
        part = (f"q{next(counter)}", table.parts[-1][1] * 3)
        changed.parts.append(part)
        text = f"ADD PARTITION ({one_partition(*part)})"
    else:
        twins = [other for other, each in state.tables().items() if each.parts is None and each.shape()[:2] == table.shape()[:2]]
        if not twins:
            twin = copy.deepcopy(table)
            twin.parts, twin.rows = None, {}
            return Change(f"CREATE TABLE {name_of(fresh)} {twin.definition()}", state, lambda after: put(after, fresh, twin))
        other = draw.choice(twins)
        twin = copy.deepcopy(state.tables()[other])
        if kind == "exchange":
            if any(table.part_of(row) != name for row in twin.rows):
                return truncate(draw, state, other, twin, fresh, counter)
            changed.rows = {**rest, **twin.rows}
            twin.rows = table.rows_of(name)
            return Change(f"{alter_table}EXCHANGE PARTITION {name} WITH TABLE {name_of(other)}", state,
                          lambda after: (put(after, place, changed), put(after, other, twin)))
        lower, upper = table.parts[-1][1], table.parts[-1][1] * 3
        if any(not lower <= row < upper for row in twin.rows):
            return truncate(draw, state, other, twin, fresh, counter)
        part = (f"q{next(counter)}", upper)
        changed.parts.append(part)
        changed.rows.update(twin.rows)
        return Change(f"{alter_table}CONVERT TABLE {name_of(other)} TO {one_partition(*part)}", state,
                      lambda after: (put(after, place, changed), after.databases[other[0]].pop(other[1])))
    return Change(alter_table + text, state, lambda after: put(after, place, changed))


def replace(draw, state, place, table, fresh, counter):
    made = Table()
    # According to the manual, CREATE OR REPLACE first drops, then creates. After a crash between the two there is no
    # table.
    return Change(f"CREATE OR REPLACE TABLE {name_of(place)} {made.definition()}", state, lambda after: put(after, place, made),
                  lambda: [without(state, [place])])


def create_select(draw, state, place, table, fresh, counter):
    made = Table()
    made.rows = {row: {"v": values["v"]} for row, values in table.rows.items()}
    if draw.random() < 0.5:
        made.parts = [("p100", 100), ("pmax", None)]
    return Change(f"CREATE TABLE {name_of(fresh)} {made.definition()} SELECT id, v FROM {name_of(place)}", state,
                  lambda after: put(after, fresh, made))


def drop_database(draw, state, place, table, fresh, counter):
    database = place[0]
    places = [(database, name) for name in state.databases[database]]

    def between():
        # Tables are dropped one by one, each atomically, in an order that the server chooses.
        for count in range(1, len(places)):
            for some in itertools.combinations(places, count):
                yield without(state, some)
        yield without(state, places)
    return Change(f"DROP DATABASE {database}", state, lambda after: after.databases.pop(database), between)
