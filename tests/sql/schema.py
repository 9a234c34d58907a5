"""Random tables: columns, keys of every kind, partitions, system versioning. A `Table` is the generator's model of a table."""

from .columns import blob, make_column, make_generated
from .text import WIDTHS, below_blank, pads_only_in_keys, sorts_by_levels

KEY_BYTES_MAX = 3072
# Types for partitioning by RANGE COLUMNS, LIST COLUMNS and KEY.
PARTITION_FAMILIES = ("int", "temporal", "text", "bytes")


class Collations:
    """The server's collations; common ones are chosen more often."""

    COMMON = [("utf8mb4", "utf8mb4_general_ci"), ("utf8mb4", "utf8mb4_unicode_ci"), ("utf8mb4", "utf8mb4_bin"),
              ("utf8mb4", "utf8mb4_nopad_bin"), ("utf8mb4", "utf8mb4_unicode_520_ci"), ("utf8mb4", "utf8mb4_general_nopad_ci"),
              ("latin1", "latin1_swedish_ci"), ("latin1", "latin1_german2_ci"), ("latin1", "latin1_bin"),
              ("utf8mb3", "utf8mb3_general_ci"), ("utf8mb4", "utf8mb4_uca1400_ai_ci"), ("utf8mb4", "utf8mb4_uca1400_nopad_as_cs")]

    def __init__(self, pairs):
        self.pairs = sorted(pairs)
        self.families = {}
        for charset, collation in self.pairs:
            self.families.setdefault(charset, []).append(collation)

    def choose(self, draw):
        kind = draw.random()
        if kind < 0.4:
            return draw.choice(self.COMMON)
        if kind < 0.7:
            charset = draw.choice(list(self.families))
            return charset, draw.choice(self.families[charset])
        return draw.choice(self.pairs)

    def choose_for(self, draw, *columns):
        """A random collation in which keys and scans agree on the values of these text columns (see `plain`)."""
        while True:
            charset, collation = self.choose(draw)
            if sorts_by_levels(collation) and any(column.plain for column in columns):
                continue
            if below_blank(collation) and any(not column.plain and column.type.startswith("CHAR(") for column in columns):
                continue
            if charset != "big5" and (not pads_only_in_keys(collation)
                                      or all(column.plain == "single" or not column.type.startswith("CHAR(") for column in columns)):
                return charset, collation


class Key:
    """Parts are (column, prefix length or 0, descending). `hashed`: a long key of which the server stores only a hash.
    `ignored`: no plan uses it. `clustering`: in Teak, its entries contain the row."""

    def __init__(self, kind, name, parts, hashed=False, clustering=False):
        self.kind, self.name, self.parts, self.hashed, self.clustering = kind, name, parts, hashed, clustering
        self.ignored = False

    def columns(self):
        return [column for column, _, __ in self.parts]

    def definition(self):
        parts = ", ".join(column.name + (f"({prefix})" if prefix else "") + (" DESC" if descending else "")
                          for column, prefix, descending in self.parts)
        if self.kind == "PRIMARY":
            return f"PRIMARY KEY ({parts})"
        return f"{self.kind} {self.name} ({parts})" + (" IGNORED" if self.ignored else "") + ("{teak: CLUSTERING=YES}" if self.clustering else "")

    def usable_name(self):
        return "PRIMARY" if self.kind == "PRIMARY" else self.name

    def covers_whole_columns(self):
        return all(not prefix for _, prefix, __ in self.parts)


class Table:
    def __init__(self, name):
        self.name = name
        self.columns, self.keys, self.checks = [], [], []
        self.partitions = ""
        self.partition_kind, self.partition_names = "", []
        self.partition_columns = []
        self.options = ""
        self.versioned = False
        self.virtual_keys = True  # whether virtual columns may be in keys
        self.divisible = True     # whether the table may have partitions
        self.hints = True       # whether a hint may name its keys
        self.fresh = True       # whether its keys are those of CREATE, in the same order on every engine
        self.large = False      # whether it has too many rows for joins of three tables
        self.next_number = 0

    def new_name(self, letter):
        self.next_number += 1
        return f"{letter}{self.next_number}"

    def create(self, name=None):
        items = [column.definition() for column in self.columns] + [key.definition() for key in self.keys]
        return f"CREATE TABLE {name or self.name} ({', '.join(items)}){self.options}" + \
            (" WITH SYSTEM VERSIONING" if self.versioned else "") + self.partitions

    def base_columns(self):
        return [column for column in self.columns if not column.generated]

    def names(self):
        return ", ".join(column.name for column in self.columns)

    def auto_increment(self):
        return next((column for column in self.columns if column.auto_increment), None)

    def unique_keys(self):
        return [key for key in self.keys if key.kind in ("PRIMARY", "UNIQUE")]

    def total_key(self):
        """A unique key without NULLs, or None."""
        for key in self.keys:
            if key.kind == "PRIMARY" and key.covers_whole_columns():
                return key
        for key in self.keys:
            # Excludes hashed keys, because equal texts may have different hashes.
            if key.kind == "UNIQUE" and key.covers_whole_columns() and not key.hashed and not any(column.nullable or column.generated for column in key.columns()):
                return key
        return None

    def total_order(self, draw=None):
        """ORDER BY terms that define a total order, or ''."""
        key = self.total_key()
        if key is None:
            return ""
        down = draw is not None and draw.random() < 0.4
        return ", ".join(column.name + (" DESC" if descending != down else "") for column, _, descending in key.parts)


def key_part(draw, column, space):
    """A part for the column within `space` bytes, as (column, prefix, descending), and its bytes; None if there is none."""
    # InnoDB does not update the index entry of a virtual text column if the collation treats the new text as
    # equal to the old one.
    if column.family == "text" and column.generated and not column.stored:
        return None
    prefixes = column.plain and not (column.family == "text" and sorts_by_levels(column.collation))
    if not prefixes and not column.key_bytes or column.compressed or column.family == "json" and draw.random() < 0.5:
        return None
    descending = draw.random() < 0.25
    width = WIDTHS.get(column.charset, 1) if column.family == "text" else 1
    prefix = 0
    if column.family in ("text", "bytes", "json", "geometry") and not column.generated:
        if not column.key_bytes or column.key_bytes > space or (column.length > 2 and prefixes and draw.random() < 0.2):
            if not prefixes:
                return None
            prefix_max = min(column.length - (1 if column.key_bytes else 0), space // width)
            if prefix_max < 1:
                return None
            prefix = draw.choice([1, 2, 3, prefix_max, draw.randint(1, prefix_max)])
            prefix = min(prefix, prefix_max)
    cost = prefix * width + 2 if prefix else column.key_bytes
    if cost + 1 > space or column.family == "text" and column.length == 0:
        return None
    return (column, prefix, descending), cost + 1


def storage(draw, chance):
    """Options of Teak only, which do not change answers."""
    if draw.random() >= chance:
        return ""
    return draw.choice([f"{{teak: COMPRESSION={codec}}}" for codec in ("none", "lz4", "snappy", "zstd", "zlib", "lzma")]
                       + ["{teak: PAGE_SIZE=4096}", "{teak: COMPRESSION=zstd PAGE_SIZE=8192}", "{teak: ROW_FORMAT=COMPRESSED}"])


def make_key(draw, table, kind, columns=None, limit=None):
    candidates = list(columns or table.columns)
    draw.shuffle(candidates)
    # If rows are sorted by their positions, InnoDB computes a virtual column in a key from columns that it has not
    # read. This happens if the primary key has the prefix of a BLOB, or if the key contains a BLOB or the virtual
    # column depends on one. Teak and MyISAM return the row's values.
    if kind == "PRIMARY" and any(not column.stored for key in table.keys for column in key.columns()):
        candidates = [column for column in candidates if not blob(column)]
    if any(key.kind == "PRIMARY" and any(map(blob, key.columns())) for key in table.keys):
        candidates = [column for column in candidates if column.stored]
    candidates = [column for column in candidates if column.stored or table.virtual_keys and not column.of_blob]
    if kind == "PRIMARY":
        candidates = [column for column in candidates if not column.generated and not column.invisible]
    parts, space = [], KEY_BYTES_MAX if limit is None else limit
    wanted = draw.choices([1, 2, 3, 4, 8, 16], [10, 6, 3, 2, 1, 0.3])[0]
    for column in candidates:
        if len(parts) == wanted:
            break
        if any(blob(part) and not column.stored or blob(column) and not part.stored for part, _, __ in parts):
            continue
        found = key_part(draw, column, space)
        if found:
            parts.append(found[0])
            space -= found[1]
    clustering = kind != "PRIMARY" and not table.partitions and draw.random() < 0.2
    return Key(kind, table.new_name("k"), parts, clustering=clustering) if parts else None


def make_hashed_key(draw, table):
    columns = [column for column in table.columns if column.family in ("text", "bytes") and not column.key_bytes and not column.generated and not column.compressed]
    if not columns:
        return None
    chosen = draw.choice(columns)
    others = [column for column in table.columns if column is not chosen and (column.key_bytes or column in columns) and column.family not in ("geometry", "json")
              and not column.generated and not column.compressed]
    parts = [chosen, *draw.sample(others, min(len(others), draw.choice([0, 0, 1, 2])))]
    draw.shuffle(parts)
    return Key("UNIQUE", table.new_name("k"), [(column, 0, False) for column in parts], hashed=True)


def make_table(draw, name, collations, versioned=False, virtual_keys=True, divisible=True, compressible=True):
    table = Table(name)
    table.versioned, table.virtual_keys, table.divisible = versioned, virtual_keys, divisible
    for _ in range(draw.choices([1, 2, 3, 4, 6, 8, 12], [1, 3, 5, 6, 5, 3, 1])[0]):
        column = make_column(draw, table.new_name("c"), collations)
        # At least one column must be neither generated nor invisible.
        if not table.columns:
            column.invisible = False
        if compressible and column.family in ("text", "bytes") and draw.random() < 0.05 and not column.type.startswith(("CHAR", "BINARY")):
            column.compressed = True
        table.columns.append(column)
    if draw.random() < 0.35:
        for _ in range(draw.randint(1, 2)):
            column = make_generated(draw, table.new_name("g"), table.base_columns())
            if column:
                table.columns.append(column)
    _add_keys(draw, table, collations)
    if draw.random() < 0.2:
        # The server refuses options of keys of partitioned tables.
        for key in table.keys:
            key.clustering = False
        make_partitions(draw, table)
    if draw.random() < 0.15:
        table.options += " CHARACTER SET {} COLLATE {}".format(*collations.choose(draw))
    if draw.random() < 0.05:
        table.options += " COMMENT 'x'"
    table.options += storage(draw, 0.3)
    return table


def _add_keys(draw, table, collations):
    kind = draw.random()
    if kind < 0.25:
        column = make_column(draw, table.new_name("id"), collations)
        while column.family != "int" or "ZEROFILL" in column.type:
            column = make_column(draw, column.name, collations)
        column.auto_increment, column.nullable, column.default, column.check, column.invisible = True, False, "", "", False
        column.pool = [value for value in column.pool if not value.startswith("-") and len(value) < 3 and value != "0"] + ["20", "21", "40"]
        table.columns.insert(0, column)
        table.keys.append(Key("PRIMARY", "PRIMARY", [(column, 0, False)]))
    elif kind < 0.8:
        key = make_key(draw, table, "PRIMARY")
        if key:
            table.keys.append(key)
            for column in key.columns():
                column.nullable = False
                if column.default == "NULL":
                    column.default = ""
    for _ in range(draw.choices([0, 1, 2, 3, 5], [2, 4, 4, 2, 1])[0]):
        key = make_hashed_key(draw, table) if draw.random() < 0.1 else make_key(draw, table, "UNIQUE" if draw.random() < 0.3 else "KEY")
        if key:
            key.ignored = draw.random() < 0.05
            table.keys.append(key)


def _allowed(table, column):
    """Whether the table can be partitioned by the column: every unique key must contain it."""
    return not column.generated and column.family in PARTITION_FAMILIES and not column.compressed and all(
        any(part is column and not prefix for part, prefix, _ in key.parts) for key in table.unique_keys())


def make_partitions(draw, table):
    if not table.divisible:
        return
    candidates = [column for column in table.columns if _allowed(table, column) and column.key_bytes]
    if table.versioned and draw.random() < 0.5:
        table.partitions = " PARTITION BY SYSTEM_TIME (PARTITION ph HISTORY, PARTITION pc CURRENT)"
        table.partition_kind, table.partition_names, table.partition_columns = "SYSTEM_TIME", [], []
        return
    if table.versioned or not candidates or any(column.family == "geometry" for column in table.columns):
        return
    column = draw.choice(candidates)
    kind = draw.choice(["HASH", "LINEAR HASH", "RANGE", "LIST"]) if column.family == "int" else "KEY"
    if column.family != "int" and draw.random() < 0.5 and not column.type.startswith(("TIMESTAMP", "YEAR")):
        kind = "RANGE COLUMNS"
    elif column.family == "int" and draw.random() < 0.3:
        kind = draw.choice(["RANGE COLUMNS", "LIST COLUMNS", "KEY"])
    # InnoDB's purge opens tables with virtual columns. If they are partitioned by COLUMNS, the server crashes.
    if kind.endswith("COLUMNS") and any(not other.stored for other in table.columns):
        return
    table.partition_kind, table.partition_columns = kind, [column]
    if kind in ("HASH", "LINEAR HASH", "KEY"):
        table.partition_names = []
        table.partitions = f" PARTITION BY {kind} ({column.name}) PARTITIONS {draw.randint(1, 5)}"
        return
    names = [f"p{number}" for number in range(draw.randint(2, 4))]
    if kind in ("RANGE", "RANGE COLUMNS"):
        if column.family == "int":
            bounds = [str(bound) for bound in sorted(draw.sample([1, 3, 10, 50, 100], len(names) - 1))]
        else:
            bounds = sorted(set(draw.sample(column.pool, min(len(column.pool), len(names) - 1))))
            # Bounds must be ascending in the column's order, which the generator cannot compute for all types. So there
            # is only one bound, except for temporal columns.
            bounds = bounds[:1] if column.family != "temporal" else sorted(bounds)
            names = names[:len(bounds) + 1]
        items = [f"PARTITION {part} VALUES LESS THAN ({bound})" for part, bound in zip(names, bounds)]
        items.append(f"PARTITION {names[-1]} VALUES LESS THAN " + ("MAXVALUE" if kind == "RANGE" else "(MAXVALUE)"))
    else:
        values = ["0", "1", "2", "3", "5", "10", "NULL" if column.nullable else "11"]
        items = [f"PARTITION {part} VALUES IN ({', '.join(values[at::len(names)])})" for at, part in enumerate(names)]
        if draw.random() < 0.7:
            names.append("pd")
            items.append("PARTITION pd DEFAULT")
    sub = ""
    if draw.random() < 0.25:
        within = draw.choice(candidates)
        sub = f" SUBPARTITION BY {draw.choice(['HASH', 'LINEAR HASH', 'KEY']) if within.family == 'int' else 'KEY'} ({within.name}) SUBPARTITIONS {draw.randint(1, 3)}"
        table.partition_columns.append(within)
    table.partition_names = names
    table.partitions = f" PARTITION BY {kind} ({column.name}){sub} ({', '.join(items)})"
