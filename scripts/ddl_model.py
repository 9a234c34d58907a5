"""What the kill test of DDL knows of tables: their columns, keys, partitions and rows, and what each statement makes of them.

A statement that was in flight when the server died has happened or has not. Where MariaDB promises less, `outcomes` lists
every state that it allows, with the reason.
"""

import copy
import itertools

BOUNDS = [10, 100, 1000, 10_000]  # of RANGE partitions on id
ROW_IDS = 20_000


class Table:
    """columns: names behind id and v. keys: names of secondary keys, each on the column of that name. parts: None, or list of
    (name, bound or None for MAXVALUE). rows: id to v."""

    def __init__(self):
        self.columns, self.keys, self.parts, self.rows = [], ["v"], None, {}

    def part_of(self, row):
        return next((name for name, bound in self.parts if bound is None or row < bound), None)

    def rows_of(self, part):
        return {row: text for row, text in self.rows.items() if self.part_of(row) == part}

    def shape(self):
        return (tuple(self.columns), tuple(sorted(self.keys)), tuple(self.parts) if self.parts else None)

    def __eq__(self, other):
        return isinstance(other, Table) and self.shape() == other.shape() and self.rows == other.rows

    def __repr__(self):
        return f"{self.columns} {self.keys} {self.parts} {len(self.rows)} rows"

    def definition(self):
        items = ["id INT NOT NULL PRIMARY KEY", "v VARCHAR(40)", *(f"{column} INT DEFAULT 7" for column in self.columns)]
        items += [f"KEY {key} ({key})" for key in self.keys]
        return f"({', '.join(items)}) ENGINE=TEAK" + (partition_by(self.parts) if self.parts else "")


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
    """One statement: its text and the state after it. `between`: other states that a crash may leave."""

    def __init__(self, text, before, work, between=None):
        self.text, self.before = text, before
        self.after = copy.deepcopy(before)
        work(self.after)
        self.between = between or (lambda: [])
        # Partitions are created, renamed and dropped one by one, and the server's log of DDL (10.11) neither repeats nor
        # reverts that when it was interrupted: a rename in either direction needs the .par file, which moves last.
        changed = [place for place in {**before.tables(), **self.after.tables()}
                   if before.tables().get(place) != self.after.tables().get(place)]
        self.fragile = not text.startswith(("INSERT", "DELETE", "TRUNCATE")) and any(
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
    """A random statement that the server will accept, as a `Change`."""
    tables = state.tables()
    places = list(tables)
    databases = list(state.databases)
    fresh = (draw.choice(databases), f"t{next(counter)}")
    if len(places) < 4 or len(places) < 12 and draw.random() < 0.15:
        return create(draw, state, fresh, partitions)
    place = draw.choice(places)
    table = tables[place]
    maker = draw.choices([insert, erase, drop, rename, truncate, alter, partition, replace, create_select, drop_database],
                         [8, 2, 3, 5, 3, 12, 0 if not partitions else 10 if table.parts else 2, 2, 3, 0.7])[0]
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
    rows = {row: f"text {draw.randrange(10**6)}" for row in ids}
    values = ", ".join(f"({row}, '{text}')" for row, text in rows.items())
    return Change(f"INSERT INTO {name_of(place)} (id, v) VALUES {values}", state, lambda after: after.databases[place[0]][place[1]].rows.update(rows))


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
    # Each table is dropped atomically, the list is not: the manual on atomic DDL.
    return Change("DROP TABLE " + ", ".join(map(name_of, places)), state, work,
                  lambda: [without(state, places[:count]) for count in range(1, len(places))])


def rename(draw, state, place, table, fresh, counter):
    others = [other for other in state.tables() if other != place]
    if others and draw.random() < 0.3:
        other = draw.choice(others)  # they change names
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
    table.rows = {row: text for row, text in table.rows.items() if table.part_of(row) not in parts}
    return state


def truncate(draw, state, place, table, fresh, counter):
    def between():
        # Partitions are truncated one by one, each atomically: InnoDB's too.
        names = [name for name, _ in table.parts or []]
        return [emptied(state, place, names[:count]) for count in range(1, len(names))]
    return Change(f"TRUNCATE TABLE {name_of(place)}", state, lambda after: after.databases[place[0]][place[1]].rows.clear(), between)


def alter(draw, state, place, table, fresh, counter):
    changed = copy.deepcopy(table)
    terms = []
    for _ in range(draw.choice([1, 1, 2])):
        kind = draw.choice(["add", "add", "drop", "key", "key", "unkey", "rename", "force", "default"])
        touched = " ".join(terms)
        if kind == "add":
            column = f"c{next(counter)}"
            changed.columns.append(column)
            terms.append(f"ADD COLUMN {column} INT DEFAULT 7")
        elif kind in ("drop", "rename", "default", "key"):
            free = [column for column in table.columns if column in changed.columns and column not in changed.keys and column not in touched]
            if not free:
                continue
            column = draw.choice(free)
            if kind == "drop":
                changed.columns.remove(column)
                terms.append(f"DROP COLUMN {column}")
            elif kind == "key":
                changed.keys.append(column)
                terms.append(f"ADD KEY {column} ({column})")
            elif kind == "rename":
                new = f"c{next(counter)}"
                changed.columns[changed.columns.index(column)] = new
                terms.append(f"RENAME COLUMN {column} TO {new}")
            else:
                terms.append(f"ALTER COLUMN {column} SET DEFAULT 7")
        elif kind == "unkey":
            free = [key for key in table.keys if key in changed.keys and key not in touched]
            if free:
                key = draw.choice(free)
                changed.keys.remove(key)
                terms.append(f"DROP KEY {key}")
        elif not terms:
            terms.append("FORCE")
    if not terms:
        terms = ["COMMENT 'x'"]
    if draw.random() < 0.5:
        terms.append("ALGORITHM=COPY")
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
    rest = {row: text for row, text in table.rows.items() if table.part_of(row) != name}
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
        least = table.parts[at - 1][1] if at else 0
        middle = least + 5 if bound is None else (least + bound) // 2
        if middle <= least:
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
        least, most = table.parts[-1][1], table.parts[-1][1] * 3
        if any(not least <= row < most for row in twin.rows):
            return truncate(draw, state, other, twin, fresh, counter)
        part = (f"q{next(counter)}", most)
        changed.parts.append(part)
        changed.rows.update(twin.rows)
        return Change(f"{alter_table}CONVERT TABLE {name_of(other)} TO {one_partition(*part)}", state,
                      lambda after: (put(after, place, changed), after.databases[other[0]].pop(other[1])))
    return Change(alter_table + text, state, lambda after: put(after, place, changed))


def replace(draw, state, place, table, fresh, counter):
    made = Table()
    # The manual: CREATE OR REPLACE drops, then creates; a crash between leaves no table.
    return Change(f"CREATE OR REPLACE TABLE {name_of(place)} {made.definition()}", state, lambda after: put(after, place, made),
                  lambda: [without(state, [place])])


def create_select(draw, state, place, table, fresh, counter):
    made = Table()
    made.rows = dict(table.rows)
    if draw.random() < 0.5:
        made.parts = [("p100", 100), ("pmax", None)]
    return Change(f"CREATE TABLE {name_of(fresh)} {made.definition()} SELECT id, v FROM {name_of(place)}", state,
                  lambda after: put(after, fresh, made))


def drop_database(draw, state, place, table, fresh, counter):
    database = place[0]
    places = [(database, name) for name in state.databases[database]]

    def between():
        # Tables are dropped one by one, each atomically; which come first is the server's matter.
        for count in range(1, len(places)):
            for some in itertools.combinations(places, count):
                yield without(state, some)
        yield without(state, places)
    return Change(f"DROP DATABASE {database}", state, lambda after: after.databases.pop(database), between)
