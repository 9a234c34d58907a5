"""The loads: tables, the rows that are loaded before, and the statements that are measured."""

import subprocess
from dataclasses import dataclass, field

from bench.sql import shapes
from bench.sql.run import data_file
from bench.sql.tpch import data as tpch, schema

KEY_COLUMNS = "a BIGINT UNSIGNED NOT NULL, b BIGINT UNSIGNED NOT NULL, c BIGINT UNSIGNED NOT NULL, d BIGINT UNSIGNED NOT NULL, pad VARCHAR(255) NOT NULL"
KEYS = {1: ", KEY (a)", 4: ", KEY (a), KEY (b), KEY (c), KEY (d)"}
BAR = " FIELDS TERMINATED BY '|'"


@dataclass
class Plan:
    """What one run does: statements that create the tables, statements that are not measured, and those that are. Those of
    each list in `measured` run in one session; several lists run at the same time."""
    create: list
    measured: list
    tables: list
    before: list = field(default_factory=list)


@dataclass
class Case:
    name: str
    title: str
    # The bars: time relative to the floor, and rate relative to the engine.
    floor_max: float = 0.0
    rates_min: dict = field(default_factory=dict)
    has_keys: bool = True
    # BLACKHOLE has no rows to read or to alter.
    has_floor: bool = True


CASES = {case.name: case for case in [
    Case("star", "star schema, no key", 1.2, has_keys=False),
    Case("star_keys", "star schema, 4 keys", 1.6),
    Case("star_add_keys", "ALTER TABLE adds 4 keys", 0, {"InnoDB": 5}, has_floor=False),
    Case("phrase", "star schema, 30 words of text, no key", 1.3, has_keys=False),
    Case("sensor", "sensors, into an empty table", 1.4, {"*": 2.5}),
    Case("sensor_later", "sensors, three later slices", 1.5, {"*": 2.5}),
    Case("keys1_64", "1 random key, 64 bytes"),
    Case("keys4_64", "4 random keys, 64 bytes", 2.0, {"InnoDB": 6}),
    Case("keys1_256", "1 random key, 256 bytes"),
    Case("keys4_256", "4 random keys, 256 bytes", 0, {"InnoDB": 8}),
    Case("full", "star schema with 4 keys, into a table of 10 times the rows"),
    Case("two", "two loads into one table with 4 keys"),
    Case("tpch", "TPC-H, all tables", 0, {"InnoDB": 8}),
]}


def load(path, table, fields=""):
    return f"LOAD DATA INFILE '{path}' INTO TABLE {table}{fields}"


def slices(options, shape, rows, count):
    """Files with equal parts of the rows of one file, in their order."""
    whole = data_file(options, shape, rows * count)
    paths = [whole.with_name(f"{whole.stem}-{number:02}.tsv") for number in range(count)]
    if not all(path.exists() for path in paths):
        subprocess.run(["split", f"--lines={rows}", "--numeric-suffixes", "--additional-suffix=.tsv", whole.name, f"{whole.stem}-"],
                       cwd=whole.parent, check=True)
    return paths


def star(options, engine, keys, shape="star"):
    path = data_file(options, shape, options.rows)
    create = shapes.create("lineorder", shapes.STAR_COLUMNS, keys, engine)
    return Plan([create], [[load(path, "lineorder")]], ["lineorder"])


def star_add_keys(options, engine):
    plan = star(options, engine, "")
    keys = shapes.STAR_KEYS.strip(", \n").split(", ")
    alter = "ALTER TABLE lineorder " + ", ".join(f"ADD {key}" for key in keys)
    return Plan(plan.create, [[alter]], plan.tables, plan.measured[0])


def sensor(options, engine, later):
    first, *rest = slices(options, "sensor", options.rows, 4)
    create = shapes.create("sensor", shapes.SENSOR_COLUMNS, "", engine)
    if not later:
        return Plan([create], [[load(first, "sensor")]], ["sensor"])
    return Plan([create], [[load(path, "sensor") for path in rest]], ["sensor"], [load(first, "sensor")])


def random_keys(options, engine, keys, width):
    path = data_file(options, f"keys{width}", options.key_rows or options.rows, "--separator", "|", suffix=".psv")
    create = shapes.create("random_keys", KEY_COLUMNS, KEYS[keys], engine)
    return Plan([create], [[load(path, "random_keys", BAR)]], ["random_keys"])


def full(options, engine):
    first = data_file(options, "star", options.rows * 10)
    more = data_file(options, "star", options.rows)
    create = shapes.create("lineorder", shapes.STAR_COLUMNS, shapes.STAR_KEYS, engine)
    return Plan([create], [[load(more, "lineorder")]], ["lineorder"], [load(first, "lineorder")])


def two(options, engine):
    one, other = slices(options, "star", options.rows, 2)
    create = shapes.create("lineorder", shapes.STAR_COLUMNS, shapes.STAR_KEYS, engine)
    return Plan([create], [[load(one, "lineorder")], [load(other, "lineorder")]], ["lineorder"])


def tpc_h(options, engine):
    directory = tpch.files(options.scale)
    loads = [load(directory / f"{table}.tbl", table, f" CHARACTER SET latin1{BAR} LINES TERMINATED BY '|\\n'") for table in schema.TABLES]
    return Plan([schema.create(table, engine) for table in schema.TABLES], [loads], list(schema.TABLES))


PLANS = {
    "star": lambda options, engine: star(options, engine, ""),
    "star_keys": lambda options, engine: star(options, engine, shapes.STAR_KEYS),
    "star_add_keys": star_add_keys,
    "phrase": lambda options, engine: star(options, engine, "", "phrase"),
    "sensor": lambda options, engine: sensor(options, engine, False),
    "sensor_later": lambda options, engine: sensor(options, engine, True),
    "full": full,
    "two": two,
    "tpch": tpc_h,
    **{f"keys{keys}_{width}": lambda options, engine, keys=keys, width=width: random_keys(options, engine, keys, width)
       for keys in (1, 4) for width in (64, 256)},
}
