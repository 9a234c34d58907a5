"""The data sets: tables, the statements that fill them, the same rows as text, and the bars."""

import hashlib
import zlib
from dataclasses import dataclass, field

from bench.load.cases import BAR, Plan, load
from bench.sql import shapes
from bench.sql.run import DIRECTORY, data_file, say
from bench.sql.tpch import data as tpch, schema
from demo import demo

from . import columns, web_log

UPSERTS_A_STATEMENT = 10_000
MIB = 1 << 20


@dataclass
class Table:
    """A table and the file with its rows. `order` are the columns by which Parquet's rows are sorted, as they are in the engines;
    rows that have no key, or are in its order already, remain as they are."""
    name: str
    definition: columns.Definition
    path: object
    separator: str = "\t"
    ends_with_separator: bool = False
    charset: str = "utf8mb4"
    order: list = field(default_factory=list)

    def create(self, engine, primary=True, secondary=True):
        return f"CREATE TABLE {self.name} ({self.definition.text(primary, secondary)}) ENGINE={engine} DEFAULT CHARSET={self.charset}"

    def load(self):
        # Otherwise the server reads the text in the character set of the database.
        fields = {"\t": "", "|": f"{BAR} LINES TERMINATED BY '|\\n'", ",": " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'"}
        return load(self.path, self.name, f" CHARACTER SET {self.charset}{fields[self.separator]}")

    def scan(self):
        return columns.scan(self.name, self.definition.columns)


@dataclass
class Bar:
    """A bound of Teak's files: bytes per row, MiB of so many rows, or, with a rival, the ratio to its files."""
    limit: float
    unit: str = ""
    rows: int = 0
    rival: str = ""


@dataclass
class Case:
    """`tables` returns the tables for the options. `statements` fill the table if LOAD DATA does not."""
    name: str
    title: str
    tables: object
    bars: list = field(default_factory=list)
    has_secondary: bool = False
    statements: object = None
    # Whether pco has a type for each column.
    is_numeric: bool = False
    # Engines that do not run it, and why.
    refused: dict = field(default_factory=dict)

    def plan(self, options, engine, has_keys=True):
        tables = self.tables(options)
        measured = self.statements(options) if self.statements else [table.load() for table in tables]
        return Plan([table.create(engine, has_keys, has_keys and self.has_secondary) for table in tables], [measured],
                    [table.name for table in tables])


def of_shape(name, shape, text, keys="", order=(), rows=lambda options: options.rows):
    """A function that returns one table with the rows that teak-generate writes."""
    definition = columns.parse(text + keys)
    return lambda options: [Table(name, definition, data_file(options, shape, rows(options)), order=list(order))]


def half(options):
    return max(1, options.rows // 2)


# ---- upserts ---------------------------------------------------------------------------------------------------------

def upsert_statements(options):
    """About two of three upserts change an existing row."""
    articles = max(1, options.rows // 3)
    for first in range(0, options.rows, UPSERTS_A_STATEMENT):
        last = min(first + UPSERTS_A_STATEMENT, options.rows) - 1
        yield (f"INSERT INTO stock (article, shop, amount, note) SELECT CRC32(seq) MOD {articles}, CRC32(-seq) MOD 100, seq MOD 1000, MD5(seq)"
               f" FROM seq_{first}_to_{last} ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount), shop = VALUES(shop)")


def upserted(rows):
    """What these statements leave in the table, by article: [shop, amount, note]."""
    found = {}
    for number in range(rows):
        article = zlib.crc32(b"%d" % number) % max(1, rows // 3)
        shop, amount = zlib.crc32(b"%d" % -number) % 100, number % 1000
        row = found.get(article)
        if row is None:
            found[article] = [shop, amount, hashlib.md5(b"%d" % number).hexdigest()]
        else:
            row[0], row[1] = shop, row[1] + amount
    return found


def upsert_table(options):
    path = DIRECTORY / "data" / f"stock-{options.rows}.tsv"
    if not path.exists():
        say(f"computing the result of {options.rows:,} upserts: {path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        with open(new, "w", encoding="ascii") as file:
            for article, row in sorted(upserted(options.rows).items()):
                print(article, *row, sep="\t", file=file)
        new.rename(path)
    return [Table("stock", columns.parse(shapes.STOCK_COLUMNS + shapes.STOCK_KEYS), path)]


# ---- the insert benchmark --------------------------------------------------------------------------------------------

def purchases_statements(options):
    """The statements of a file, one on each line."""
    path = data_file(options, "purchases", options.rows, "--insert", f"purchases {shapes.PURCHASES_FIELDS}", "--batch", "1000")
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield line.rstrip(";\n")


def purchases_table(options):
    """The rows in the order of the AUTO_INCREMENT key, with the key."""
    rows = data_file(options, "purchases", options.rows)
    path = rows.with_name(f"{rows.stem}-numbered.tsv")
    if not path.exists():
        new = path.with_name(path.name + ".new")
        with open(rows, encoding="utf-8") as source, open(new, "w", encoding="utf-8") as file:
            file.writelines(f"{number}\t{line}" for number, line in enumerate(source, 1))
        new.rename(path)
    definition = columns.parse(shapes.PURCHASES_COLUMNS + shapes.PURCHASES_KEYS)
    return [Table("purchases", definition, path)]


# ---- TPC-H and real flights ------------------------------------------------------------------------------------------

def tpc_h(options):
    directory = tpch.files(options.scale)
    return [Table(name, columns.parse(text), directory / f"{name}.tbl", "|", True, "latin1") for name, text in schema.TABLES.items()]


def new_york(_options):
    """The flights of `make demo`."""
    demo.DIRECTORY.mkdir(parents=True, exist_ok=True)
    demo.convert(demo.fetch_archive())
    definition = columns.parse(demo.TABLES["flights"])
    return [Table("flights", definition, demo.DIRECTORY / "flights.csv", ",", order=definition.primary)]


NO_UPSERTS = "it has no unique keys, so that INSERT ... ON DUPLICATE KEY UPDATE finds no row"
SAME_FILE = "it has no keys, so that the file would be the same as without keys"
WEB_LOG_KEY = columns.parse(web_log.COLUMNS).primary
CASES = {case.name: case for case in [
    Case("star", "star schema, no key", of_shape("lineorder", "star", shapes.STAR_COLUMNS), [Bar(62, "B a row")]),
    Case("star_keys", "star schema, 4 keys", of_shape("lineorder", "star", shapes.STAR_COLUMNS, shapes.STAR_KEYS),
         [Bar(0.65, rival="RocksDB zstd")], has_secondary=True, refused={"Parquet": SAME_FILE}),
    Case("phrase", "star schema, 30 words of text, no key", of_shape("lineorder", "phrase", shapes.STAR_COLUMNS)),
    Case("sensor", "sensors", of_shape("sensor", "sensor", shapes.SENSOR_COLUMNS, order=("sensor", "at"), rows=half),
         [Bar(4.6, "MiB", rows=1_000_000)], is_numeric=True),
    Case("upsert", "upserts, 2 keys", upsert_table, [Bar(0.6, rival="RocksDB zstd")], has_secondary=True, statements=upsert_statements,
         refused={"ARCHIVE": NO_UPSERTS}),
    Case("inserts", "insert benchmark, 3 keys", purchases_table, has_secondary=True, statements=purchases_statements),
    Case("flights", "flights", of_shape("flights", "flights", shapes.FLIGHTS_COLUMNS), [Bar(1.1, rival="Parquet")]),
    Case("new_york", "real flights, no secondary key", new_york, [Bar(1.1, rival="Parquet")]),
    Case("tpch", "TPC-H, no secondary keys", tpc_h, [Bar(1.1, rival="Parquet")]),
    Case("tpch_keys", "TPC-H, 9 secondary keys", tpc_h, has_secondary=True, refused={"Parquet": SAME_FILE}),
    Case("weblog", "web log, 105 columns", of_shape("hits", "weblog", web_log.COLUMNS, order=WEB_LOG_KEY, rows=half)),
]}
